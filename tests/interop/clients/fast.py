"""The PyPI package fastmcp as a client. Usage: MODE=auto|legacy|2026-07-28 python fast.py URL [everything]"""

import asyncio
import json
import os
import sys
from typing import Any

import mcp_types
from fastmcp import Client
from transcript import LARGE, heard, note, step, text_of

url, everything = sys.argv[1], sys.argv[2:] == ["everything"]


async def elicit(message: str, wanted: Any, params: Any, context: Any) -> Any:
    known = {"name": "Ada", "username": "ada", "email": "ada@example.com"}
    # This client checks its answer against the schema before it sends it.
    return {key: known[key] for key in params.requested_schema["properties"] if key in known}


async def sample(messages: Any, params: Any, context: Any) -> str:
    return "sampled"


async def log(message: Any) -> None:
    note("notifications/message", message)


async def progress(done: float, total: float | None, message: str | None) -> None:
    note("progress", {"progress": done, "total": total})


async def cancel(client: Client) -> None:
    """Gives a call up after its first progress notification; the server must hear of it."""
    began = asyncio.Event()

    async def first(*_: Any) -> None:
        began.set()

    call = asyncio.create_task(client.call_tool_mcp("hang", {}, progress_handler=first))
    await began.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    for _ in range(40):
        if json.loads(text_of(await client.call_tool_mcp("seen", {})))["cancelled"] == 1:
            return
        await asyncio.sleep(0.05)
    raise RuntimeError("it did not come")


async def steps(client: Client, modern: bool) -> None:
    listed = await step("tools/list", client.list_tools_mcp)
    names = [t.name for t in listed.tools] if listed else []
    await step("resources/list", client.list_resources_mcp)
    await step("resources/templates/list", client.list_resource_templates_mcp)
    await step("prompts/list", client.list_prompts_mcp)

    async def call(label: str, name: str, arguments: dict[str, Any], required: bool = True) -> None:
        if name in names:
            await step(label, lambda: client.call_tool_mcp(name, arguments, progress_handler=progress), required)

    async def many() -> list[str]:
        return [text_of(r) for r in await asyncio.gather(*[client.call_tool_mcp("echo", {echo: f"n{i}"}) for i in range(20)])]

    echo = "message" if everything else "text"
    await call("echo", "echo", {echo: "héllo ☃ 日本"})
    await call("echo large", "echo", {echo: LARGE})
    await step("echo, 20 at once", many)
    await call("mirrored arguments", "region_query", {"region": "us-west1", "priority": 42, "dry": False, "query": "select 1"})
    await call("mirrored, not ASCII", "region_query", {"region": " 日本 ", "query": "x"})
    await call("progress", "slow_progress", {})
    await call("progress (everything)", "trigger-long-running-operation", {"duration": 0.2, "steps": 2})
    await call("log messages", "test_tool_with_logging", {})
    await call("input required", "ask_name", {}, required=modern)
    if not modern:
        await call("elicitation", "test_elicitation", {"message": "who?"})
        await call("sampling", "test_sampling", {"prompt": "hi"})
    await call("sampling (everything)", "trigger-sampling-request", {"prompt": "hi", "maxTokens": 5})
    await call("roots (everything)", "get-roots-list", {})
    await call("resumed stream", "test_reconnection", {})
    await call("failing tool", "fail", {})
    await step("unknown tool", lambda: client.call_tool_mcp("no_such_tool", {}), required=False)
    for uri in ["demo://resource/static/document/architecture.md"] if everything else ["config://app", "greet://bob", "greet://日本"]:
        await step(f"read {uri}", lambda: client.read_resource_mcp(uri))
    await step("read nope://日本", lambda: client.read_resource_mcp("nope://日本"), required=False)
    name, arguments = ("args-prompt", {"city": "Zürich"}) if everything else ("simple", {"who": "Ada"})
    await step("prompts/get", lambda: client.get_prompt_mcp(name, arguments))
    if not everything:
        ref = mcp_types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        await step("completion/complete", lambda: client.complete_mcp(ref, {"name": "arg1", "value": "pa"}))
    if not modern:
        await step("ping", client.ping)
    if "hang" in names:
        await step("the server heard of the cancellation", lambda: cancel(client))
    if everything:
        await heard(["Roots updated"])


async def main() -> None:
    client = Client(
        url, mode=os.environ["MODE"], elicitation_handler=elicit, sampling_handler=sample, log_handler=log,
        roots=["file:///srv"])
    async with client:
        note("agreed", {"version": client.protocol_version, "server": client.server_info and client.server_info.name})
        await steps(client, (client.protocol_version or "") >= "2026")
    note("closed", True)


asyncio.run(main())
