"""A modern and legacy MCP server on the PyPI package fastmcp; legacy clients get a session.

It listens on a free port of 127.0.0.1 and says which on standard error.
"""

import asyncio
import json
import socket
import sys
from typing import Annotated, Any

import uvicorn
from fastmcp import Context, FastMCP
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import BaseModel, Field

server = FastMCP("fastmcp-server", version="1.0.0", instructions="A server for the interop tests.")
state = {"cancelled": 0}


class Person(BaseModel):
    username: str
    email: str


@server.tool
def echo(text: str) -> str:
    """Gives its text back."""
    return text


@server.tool
def region_query(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    query: str,
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 0,
    dry: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Dry-Run"})] = False,
) -> str:
    """A tool whose arguments are mirrored into headers."""
    return json.dumps({"region": region, "priority": priority, "dry": dry, "query": query}, ensure_ascii=False)


@server.tool
async def slow_progress(ctx: Context) -> str:
    """Three progress notifications, then a result."""
    for i in (1, 2, 3):
        await ctx.report_progress(i, 3)
        await asyncio.sleep(0.06)
    return "done"


@server.tool
async def hang(ctx: Context) -> str:
    """Reports progress once, then waits until it is cancelled."""
    await ctx.report_progress(1, 2)
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        state["cancelled"] += 1
        raise
    return "released"


@server.tool
def fail() -> str:
    """Always fails."""
    raise ValueError("boom")


@server.tool
def seen() -> str:
    """What this process has counted so far."""
    return json.dumps(state)


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user by a request of the server's own, as only legacy servers do."""
    got = await ctx.elicit(message, Person)
    return f"User response: action={got.action}"


@server.tool
async def ask_name(ctx: Context) -> str | InputRequiredResult:
    """Asks by answering `input_required`, as modern servers do; the client repeats the call with what it learnt."""
    got = (ctx.input_responses or {}).get("user_name")
    if isinstance(got, ElicitResult) and got.content:
        return f"Hello, {got.content['name']}!"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    asked = ElicitRequest(params=ElicitRequestFormParams(message="What is your name?", requested_schema=schema))
    return InputRequiredResult(input_requests={"user_name": asked})


@server.resource("config://app", name="app-config", mime_type="application/json")
def app_config() -> str:
    return json.dumps({"touched": 0})


@server.resource("test://static-binary", name="static-binary", mime_type="application/octet-stream")
def static_binary() -> bytes:
    return bytes(range(256))


@server.resource("greet://{name}", name="greeting", mime_type="text/plain")
def greeting(name: str) -> str:
    return f"hi {name}"


@server.prompt
def simple(who: str) -> str:
    return f"Say hi to {who}"


@server.completion
def complete(ref: Any, argument: Any, context: Any) -> list[str]:
    return [w for w in ("paris", "park", "party") if w.startswith(argument.value)]


# asyncio turns Nagle's delay off only for sockets that name their protocol.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(server.http_app(path="/mcp"), log_level="critical")).run(sockets=[listener])
