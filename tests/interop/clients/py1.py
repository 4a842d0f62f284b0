"""The PyPI package mcp 1.x as a client. Usage: python py1.py URL [sessions|everything]"""

import asyncio
import json
import sys
from typing import Any

import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from transcript import LARGE, heard, note, step, text_of

url, offers = sys.argv[1], (sys.argv[2:] + [""])[0]


async def sample(context: Any, params: Any) -> Any:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="sampled"), model="m")


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com", "name": "Ada"})


async def roots(context: Any) -> Any:
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv", name="srv")])


async def progress(done: float, total: float | None, message: str | None) -> None:
    note("progress", {"progress": done, "total": total})


async def log(params: Any) -> None:
    note("notifications/message", params)


async def steps(client: ClientSession) -> None:
    listed = await step("tools/list", lambda: client.list_tools())
    names = [t.name for t in listed.tools] if listed else []
    await step("resources/list", lambda: client.list_resources())
    await step("resources/templates/list", lambda: client.list_resource_templates())
    await step("prompts/list", lambda: client.list_prompts())

    async def call(label: str, name: str, arguments: dict[str, Any], required: bool = True, **options: Any) -> None:
        if name in names:
            await step(label, lambda: client.call_tool(name, arguments, **options), required)

    async def many() -> list[str]:
        calls = [client.call_tool("echo", {echo: f"n{i}"}) for i in range(20)]
        return [text_of(r) for r in await asyncio.gather(*calls)]

    echo = "message" if offers == "everything" else "text"
    await call("echo", "echo", {echo: "héllo ☃ 日本"})
    await call("echo large", "echo", {echo: LARGE})
    await step("echo, 20 at once", many)
    await call("mirrored arguments", "region_query", {"region": " 日本 ", "priority": 42, "dry": False, "query": "select 1"})
    # Older versions of this package cannot pass a progress callback with a call.
    reports = {"progress_callback": progress} if hasattr(types, "ElicitResult") else {}
    await call("progress", "slow_progress", {}, **reports)
    await call("progress (everything)", "trigger-long-running-operation", {"duration": 0.2, "steps": 2}, **reports)
    await call("log messages", "test_tool_with_logging", {})
    if offers == "sessions":
        await call("elicitation", "test_elicitation", {"message": "who?"}, required=hasattr(types, "ElicitResult"))
        await call("sampling", "test_sampling", {"prompt": "hi"})
    await call("sampling (everything)", "trigger-sampling-request", {"prompt": "hi", "maxTokens": 5})
    await call("roots (everything)", "get-roots-list", {})
    await call("resumed stream", "test_reconnection", {}, required=hasattr(types, "ElicitResult"))
    await call("failing tool", "fail", {})
    await step("unknown tool", lambda: client.call_tool("no_such_tool", {}), required=False)

    uris = ["config://app", "greet://bob", "greet://日本"] if offers != "everything" else ["demo://resource/static/document/architecture.md"]
    for uri in uris:
        await step(f"read {uri}", lambda: client.read_resource(uri))
    for uri in ["nope://x", "nope://日本"]:
        await step(f"read {uri}", lambda: client.read_resource(uri), required=False)
    name, arguments = ("args-prompt", {"city": "Zürich"}) if offers == "everything" else ("simple", {"who": "Ada"})
    await step("prompts/get", lambda: client.get_prompt(name, arguments))
    await step("resources/subscribe", lambda: client.subscribe_resource(uris[0]), required=False)
    await step("ping", lambda: client.send_ping())
    if "seen" in names:
        await step("seen", lambda: client.call_tool("seen", {}))
    if offers == "everything":
        await heard(["Roots updated", "Received Subscribe"])


async def main() -> None:
    callbacks: dict[str, Any] = {"sampling_callback": sample, "list_roots_callback": roots, "logging_callback": log}
    if hasattr(types, "ElicitResult"):
        callbacks["elicitation_callback"] = elicit
    async with streamablehttp_client(url) as (read, write, session_id):
        async with ClientSession(read, write, **callbacks) as client:
            agreed = await step("initialize", lambda: client.initialize())
            note("agreed", {"version": agreed and agreed.protocolVersion, "session": session_id() is not None})
            await steps(client)
    note("closed", True)


asyncio.run(main())
