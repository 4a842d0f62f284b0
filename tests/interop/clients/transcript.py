"""The transcript that a Python client of these tests writes, in the form that steps.mjs describes."""

import asyncio
import hashlib
import json
from typing import Any, Awaitable, Callable

LARGE = 'ä☃𝄞"\\ ' * 20_000


noted: list[str] = []


def note(kind: str, value: Any) -> None:
    line = json.dumps({"note": kind, "value": plain(value)}, ensure_ascii=False)
    noted.append(line)
    print(line, flush=True)


async def heard(words: list[str]) -> None:
    """Waits until there is a note with each of these words, as steps.mjs explains."""
    for _ in range(100):
        if all(any(word in line for line in noted) for word in words):
            return
        await asyncio.sleep(0.05)


def plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        value = value.model_dump(by_alias=True, exclude_none=True, mode="json")
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= 4000:
        return json.loads(text)
    return {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


async def step(name: str, run: Callable[[], Awaitable[Any]], required: bool = True) -> Any:
    try:
        result = await run()
        if (getattr(result, "isError", False) or getattr(result, "is_error", False)) and required and name != "failing tool":
            raise RuntimeError(text_of(result))
        print(json.dumps({"step": name, "ok": True, "required": required, "value": plain(result)}, ensure_ascii=False), flush=True)
        return result
    except Exception as error:
        told = {"type": type(error).__name__, "message": str(error)[:400]}
        print(json.dumps({"step": name, "ok": False, "required": required, "value": told}, ensure_ascii=False), flush=True)


def text_of(result: Any) -> str:
    return result.content[0].text
