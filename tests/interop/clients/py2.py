"""The PyPI package mcp 2.x as a client. Usage: MODE=auto|legacy|2026-07-28 python py2.py URL [sessions|everything]"""

import asyncio
import json
import os
import sys
from typing import Any

import mcp.types as types
from mcp import Client
from transcript import LARGE, note, step, text_of

url, offers = sys.argv[1], (sys.argv[2:] + [""])[0]


async def elicit(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"name": "Ada", "username": "ada", "email": "ada@example.com"})


async def sample(context: Any, params: Any) -> Any:
    return types.CreateMessageResult(role="assistant", content=types.TextContent(type="text", text="sampled"), model="m")


async def roots(context: Any) -> Any:
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv", name="srv")])


async def progress(done: float, total: float | None, message: str | None) -> None:
    note("progress", {"progress": done, "total": total})


async def cancel(client: Client, required: bool) -> None:
    """Gives a call up after its first progress notification; the server must hear of it."""
    began = asyncio.Event()

    async def first(*_: Any) -> None:
        began.set()

    call = asyncio.create_task(client.call_tool("hang", {}, progress_callback=first))
    await began.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    async def heard() -> None:
        for _ in range(40 if required else 4):
            if json.loads(text_of(await client.call_tool("seen", {})))["cancelled"] == 1:
                return
            await asyncio.sleep(0.05)
        raise RuntimeError("it did not come")

    await step("the server heard of the cancellation", heard, required)


async def listen(client: Client) -> str:
    async with client.listen(tools_list_changed=True, resource_subscriptions=["config://app"]) as subscription:
        note("honored", str(subscription.honored))
        for tool in ("flip_tools", "touch"):
            await client.call_tool(tool, {})
            note("event", str(await asyncio.wait_for(anext(subscription), 5)))
    return "closed"


async def common(client: Client, modern: bool) -> list[str]:
    listed = await step("tools/list", lambda: client.list_tools())
    names = [t.name for t in listed.tools] if listed else []
    await step("tools/list again", lambda: client.list_tools())
    await step("resources/list", lambda: client.list_resources())
    await step("resources/templates/list", lambda: client.list_resource_templates())
    await step("prompts/list", lambda: client.list_prompts())

    async def call(label: str, name: str, arguments: dict[str, Any], required: bool = True, **options: Any) -> None:
        if name in names:
            await step(label, lambda: client.call_tool(name, arguments, **options), required)

    echo = "message" if offers == "everything" else "text"

    async def many() -> list[str]:
        calls = [client.call_tool("echo", {echo: f"n{i}"}) for i in range(20)]
        return [text_of(r) for r in await asyncio.gather(*calls)]

    await call("echo", "echo", {echo: "héllo ☃ 日本"})
    await call("echo large", "echo", {echo: LARGE})
    await step("echo, 20 at once", many)
    await call("mirrored arguments", "region_query", {"region": "us-west1", "priority": 42, "dry": False, "query": "select 1"})
    await call("mirrored, not ASCII", "region_query", {"region": " 日本 ", "query": "x"})
    await call("mirrored, like the sentinel", "region_query", {"region": "=?base64?bm90?=", "query": "x"})
    await call("progress", "slow_progress", {}, progress_callback=progress)
    await call("progress (everything)", "trigger-long-running-operation", {"duration": 0.2, "steps": 2}, progress_callback=progress)
    await call("input required", "ask_name", {}, required=modern)
    if offers == "sessions" and not modern:
        await call("elicitation", "test_elicitation", {"message": "who?"})
        await call("sampling", "test_sampling", {"prompt": "hi"})
    await call("sampling (everything)", "trigger-sampling-request", {"prompt": "hi", "maxTokens": 5})
    await call("resumed stream", "test_reconnection", {})
    await call("image", "test_image_content", {})
    await call("failing tool", "fail", {})
    await step("unknown tool", lambda: client.call_tool("no_such_tool", {}), required=False)
    await step("tool with an odd name", lambda: client.call_tool("outil_é", {}), required=False)
    return names


async def main() -> None:
    async with Client(url, mode=os.environ["MODE"], elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=roots) as client:
        modern = client.protocol_version >= "2026"
        note("agreed", {"version": client.protocol_version, "server": client.server_info and client.server_info.name})
        names = await common(client, modern)
        uris = ["config://app", "greet://bob", "greet://日本", "test://static-binary"]
        for uri in ["demo://resource/static/document/architecture.md"] if offers == "everything" else uris:
            await step(f"read {uri}", lambda: client.read_resource(uri))
        for uri in ["nope://x", "nope://日本"]:
            await step(f"read {uri}", lambda: client.read_resource(uri), required=False)
        if offers == "everything":
            await step("prompts/get", lambda: client.get_prompt("args-prompt", {"city": "Zürich"}))
        else:
            await step("prompts/get", lambda: client.get_prompt("simple", {"who": "Ada"}))
            ref = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
            await step("completion/complete", lambda: client.complete(ref, {"name": "arg1", "value": "pa"}))
        if modern:
            await step("listen", lambda: listen(client), required="flip_tools" in names)
        else:
            await step("ping", lambda: client.send_ping())
            await step("resources/subscribe", lambda: client.subscribe_resource("config://app"), required=False)
        if "hang" in names:
            await cancel(client, modern or offers == "sessions")
    note("closed", True)


asyncio.run(main())
