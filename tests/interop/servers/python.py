"""A modern and legacy MCP server on the PyPI package mcp 2.x; legacy clients get a session.

It listens on a free port of 127.0.0.1 and says which on standard error.
"""

import asyncio
import base64
import json
import socket
import sys
from typing import Annotated, Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp_types import (
    AudioContent, CallToolResult, Completion, CreateMessageRequest, CreateMessageRequestParams, ElicitRequest,
    ElicitRequestFormParams, ElicitResult, EmbeddedResource, ImageContent, InputRequiredResult, ListRootsRequest,
    SamplingMessage, TextContent, TextResourceContents,
)
from pydantic import BaseModel, Field

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

hint = CacheHint(ttl_ms=30_000, scope="public")
server = MCPServer(
    "python-server", version="1.0.0", instructions="A server for the interop tests.", log_level="CRITICAL",
    cache_hints={m: hint for m in ("tools/list", "prompts/list", "resources/list", "resources/templates/list")},
)
state: dict[str, Any] = {"bonus": False, "touched": 0, "cancelled": 0}


def embedded(uri: str, mime: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime, text=text))


def tool(run: Any) -> Any:
    return server.add_tool(run, description=run.__doc__ or f"For the scenario that calls {run.__name__}.", structured_output=False)


# The tools that the clients of these tests call.

@tool
def echo(text: str) -> str:
    """Gives its text back."""
    return text


@tool
def region_query(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    query: str,
    priority: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Priority"})] = 0,
    dry: Annotated[bool, Field(json_schema_extra={"x-mcp-header": "Dry-Run"})] = False,
) -> str:
    """A tool whose arguments are mirrored into headers."""
    return json.dumps({"region": region, "priority": priority, "dry": dry, "query": query}, ensure_ascii=False)


@tool
async def slow_progress(ctx: Context) -> str:
    """Three progress notifications, then a result."""
    for i in (1, 2, 3):
        await ctx.report_progress(i, 3)
        await asyncio.sleep(0.06)
    return "done"


@tool
async def hang(ctx: Context) -> str:
    """Reports progress once, then waits until it is cancelled."""
    await ctx.report_progress(1, 2)
    try:
        await asyncio.sleep(20)
    except asyncio.CancelledError:
        state["cancelled"] += 1
        raise
    return "released"


@tool
def fail() -> str:
    """Always fails."""
    raise ValueError("boom")


@tool
async def flip_tools(ctx: Context) -> str:
    """Adds or removes one tool and says so to subscribers."""
    state["bonus"] = not state["bonus"]
    if state["bonus"]:
        server.add_tool(lambda: "bonus", name="bonus", description="Here after flip_tools.")
    else:
        server.remove_tool("bonus")
    await ctx.notify_tools_changed()
    return str(state["bonus"]).lower()


@tool
async def touch(ctx: Context) -> str:
    """Changes config://app and says so to subscribers."""
    state["touched"] += 1
    await ctx.notify_resource_updated("config://app")
    return str(state["touched"])


@tool
def seen() -> str:
    """What this process has counted so far."""
    return json.dumps(state)


# The tools that the scenarios of the conformance suite call by name.

@tool
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tool
def test_image_content() -> list[Any]:
    return [ImageContent(type="image", data=PNG, mime_type="image/png")]


@tool
def test_audio_content() -> list[Any]:
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@tool
def test_embedded_resource() -> list[Any]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool
def test_multiple_content_types() -> list[Any]:
    return [
        TextContent(type="text", text="Multiple content types test:"),
        ImageContent(type="image", data=PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(line)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@tool
async def test_logging_tool(ctx: Context) -> str:
    await ctx.info("a line")
    return "logged"


@tool
def test_error_handling() -> str:
    raise ValueError("This tool intentionally returns an error for testing")


@tool
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return "done"


@tool
async def test_reconnection(ctx: Context) -> str:
    await asyncio.sleep(0.05)
    await ctx.close_sse_stream()
    await asyncio.sleep(0.15)
    return "Reconnection test completed"


@tool
def test_missing_capability(ctx: Context) -> str:
    able = ctx.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(code=-32021, message="sampling is required", data={"requiredCapabilities": {"sampling": {}}})
    return "sampling is declared"


@tool
async def test_trigger_tool_change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "changed"


@tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    await ctx.notify_prompts_changed()
    return "changed"


# Legacy servers ask the client by a request of their own, on the stream of the call.

class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


@tool
async def test_elicitation(message: str, ctx: Context) -> str:
    got = await ctx.elicit(message, Person)
    return f"User response: action={got.action}"


@tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    class Defaults(BaseModel):
        name: str = "John Doe"
        age: int = 30
        score: float = 95.5
        status: Annotated[str, Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})] = "active"
        verified: bool = True

    got = await ctx.elicit("Defaults", Defaults)
    return f"Elicitation completed: action={got.action}"


@tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    got = await ctx.session.create_message(messages=[user(prompt)], max_tokens=100, related_request_id=ctx.request_context.request_id)
    return f"LLM response: {got.content.text}"


# Modern servers ask by answering `input_required`; the client repeats the call with what it learnt.

def user(text: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


def ask(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def ask_model(prompt: str) -> CreateMessageRequest:
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[user(prompt)], max_tokens=100))


def accepted(ctx: Context, key: str) -> dict[str, Any] | None:
    got = (ctx.input_responses or {}).get(key)
    return got.content if isinstance(got, ElicitResult) and got.action == "accept" else None


def text(value: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=value)])


def need(requests: dict[str, Any], request_state: str | None = None) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=request_state)


def name_asking(tool_name: str) -> None:
    async def run(ctx: Context) -> CallToolResult | InputRequiredResult:
        name = (accepted(ctx, "user_name") or {}).get("name")
        return text(f"Hello, {name}!") if name else need({"user_name": ask("What is your name?", "name")})

    server.add_tool(run, name=tool_name, description="Needs a name from the user.")


for each in ("ask_name", "test_input_required_result_elicitation", "test_streaming_elicitation"):
    name_asking(each)


@tool
async def test_input_required_result_sampling(ctx: Context) -> CallToolResult | InputRequiredResult:
    got = (ctx.input_responses or {}).get("capital_question")
    return text(got.content.text) if got else need({"capital_question": ask_model("What is the capital of France?")})


@tool
async def test_input_required_result_list_roots(ctx: Context) -> CallToolResult | InputRequiredResult:
    got = (ctx.input_responses or {}).get("client_roots")
    return text(" ".join(str(r.uri) for r in got.roots)) if got else need({"client_roots": ListRootsRequest()})


def confirming(tool_name: str) -> None:
    async def run(ctx: Context) -> CallToolResult | InputRequiredResult:
        if accepted(ctx, "confirm") and ctx.request_state == "round 1":
            return text("state-ok")
        return need({"confirm": ask("Please confirm", "ok", "boolean")}, "round 1")

    server.add_tool(run, name=tool_name, description="Needs a confirmation, and its state back.")


for each in ("test_input_required_result_request_state", "test_input_required_result_tampered_state"):
    confirming(each)


@tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> CallToolResult | InputRequiredResult:
    got = ctx.input_responses or {}
    if {"user_name", "greeting", "client_roots"} <= set(got):
        return text("all three")
    asked = {"user_name": ask("What is your name?", "name"), "greeting": ask_model("Generate a greeting"), "client_roots": ListRootsRequest()}
    return need(asked, "round 1")


@tool
async def test_input_required_result_multi_round(ctx: Context) -> CallToolResult | InputRequiredResult:
    if ctx.request_state == "round 2":
        return text(f"the color is {(accepted(ctx, 'step2') or {}).get('color')}")
    if accepted(ctx, "step1"):
        return need({"step2": ask("Step 2: What is your favorite color?", "color")}, "round 2")
    return need({"step1": ask("Step 1: What is your name?", "name")}, "round 1")


@tool
async def test_input_required_result_capabilities(ctx: Context) -> CallToolResult | InputRequiredResult:
    able = ctx.client_capabilities
    asked: dict[str, Any] = {}
    if able and able.sampling is not None:
        asked["question"] = ask_model("A question")
    if able and able.elicitation is not None:
        asked["user_name"] = ask("What is your name?", "name")
    return need(asked) if asked and not ctx.input_responses else text("done")


# Resources, prompts and completions.

@server.resource("config://app", name="app-config", description="Settings.", mime_type="application/json")
def app_config() -> str:
    return json.dumps({"touched": state["touched"]})


@server.resource("test://static-text", name="static-text", description="A text.", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", description="An image.", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", name="watched", description="Changes now and then.", mime_type="text/plain")
def watched() -> str:
    return str(state["touched"])


@server.resource("greet://{name}", name="greeting", description="A greeting.", mime_type="text/plain")
def greeting(name: str) -> str:
    return f"hi {name}"


@server.resource("test://template/{id}/data", name="data", description="Data.", mime_type="application/json")
def data(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def said(*contents: Any) -> list[Any]:
    return [{"role": "user", "content": c} for c in contents]


def line(value: str) -> TextContent:
    return TextContent(type="text", text=value)


@server.prompt(description="Says hi.")
def simple(who: str) -> list[Any]:
    return said(line(f"Say hi to {who}"))


@server.prompt(description="No arguments.")
def test_simple_prompt() -> list[Any]:
    return said(line("This is a simple prompt for testing."))


@server.prompt(description="Two arguments.")
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[Any]:
    return said(line(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))


@server.prompt(description="A resource inside.")
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    return said(embedded(resourceUri, "text/plain", "Embedded resource content for testing."), line("Please process the embedded resource above."))


@server.prompt(description="An image inside.")
def test_prompt_with_image() -> list[Any]:
    return said(ImageContent(type="image", data=PNG, mime_type="image/png"), line("Please analyze the image above."))


@server.prompt(description="Needs input.")
def test_input_required_result_prompt(ctx: Context) -> Any:
    got = accepted(ctx, "user_context")
    return said(line(f"In the context of {got['context']}")) if got else need({"user_context": ask("What context should the prompt use?", "context")})


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=[w for w in ("paris", "park", "party") if w.startswith(argument.value)])


class Events(EventStore):
    """Events of legacy sessions, kept so that a client that lost its stream can take it up again."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.events.append((stream_id, message))
        return str(len(self.events) - 1)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        if not last_event_id.isdigit() or int(last_event_id) >= len(self.events):
            return None
        stream = self.events[int(last_event_id)][0]
        for i in range(int(last_event_id) + 1, len(self.events)):
            if self.events[i][0] == stream and self.events[i][1] is not None:
                await send_callback(EventMessage(self.events[i][1], str(i)))
        return stream


# asyncio turns Nagle's delay off only for sockets that name their protocol.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
app = server.streamable_http_app(event_store=Events(), retry_interval=50)
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])
