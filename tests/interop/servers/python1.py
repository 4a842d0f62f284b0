"""A legacy MCP server on the PyPI package mcp 1.x; clients get a session.

It listens on a free port of 127.0.0.1 and says which on standard error.
"""

import asyncio
import json
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import BaseModel

server = FastMCP("python1-server", instructions="A server for the interop tests.", log_level="CRITICAL")
state = {"cancelled": 0}


class Person(BaseModel):
    username: str
    email: str


@server.tool()
def echo(text: str) -> str:
    """Gives its text back."""
    return text


@server.tool()
async def slow_progress(ctx: Context) -> str:
    """Three progress notifications, then a result."""
    for i in (1, 2, 3):
        await ctx.report_progress(i, 3)
        await asyncio.sleep(0.06)
    return "done"


@server.tool()
async def hang(ctx: Context) -> str:
    """Reports progress once, then waits until it is cancelled."""
    await ctx.report_progress(1, 2)
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        state["cancelled"] += 1
        raise
    return "released"


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("boom")


@server.tool()
def seen() -> str:
    """What this process has counted so far."""
    return json.dumps(state)


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Writes to the client's log."""
    await ctx.info("Tool execution started")
    return "Tool with logging executed successfully"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    got = await ctx.elicit(message, Person)
    return f"User response: action={got.action}"


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the model."""
    asked = [SamplingMessage(role="user", content=TextContent(type="text", text=prompt))]
    got = await ctx.session.create_message(asked, max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {got.content.text}"


@server.resource("config://app", name="app-config", mime_type="application/json")
def app_config() -> str:
    return json.dumps(state)


@server.resource("test://static-binary", name="static-binary", mime_type="application/octet-stream")
def static_binary() -> bytes:
    return bytes(range(256))


@server.resource("greet://{name}", name="greeting", mime_type="text/plain")
def greeting(name: str) -> str:
    return f"hi {name}"


@server.prompt()
def simple(who: str) -> str:
    return f"Say hi to {who}"


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=[w for w in ("paris", "park", "party") if w.startswith(argument.value)])


# asyncio turns Nagle's delay off only for sockets that name their protocol.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical")).run(sockets=[listener])
