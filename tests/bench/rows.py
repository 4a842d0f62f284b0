"""What is measured: each row one request, the way it comes in, and the one right answer to it.

A new row is a new entry in ROWS.
"""

import json
from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Row:
    """One request, sent in one way, and the one right answer to it."""

    name: str
    # What is done with it: `calls`, `lists`, `pages`, `upload`, `events` or `streams`.
    kind: str
    description: str
    headers: tuple[str, ...]
    body: str
    # Where it has an @, any number is right.
    answer: str
    http2: bool = False
    tls: bool = False
    # The bytes that stand for the @ in the body.
    fill_bytes: int = 0
    # Whether the number of the request stands for it instead.
    numbered: bool = False


def headers(method: str, name: str | None) -> tuple[str, ...]:
    """Order, case and values as the TypeScript client on Node's fetch sends them."""
    return (
        "connection: keep-alive",
        "mcp-protocol-version: 2026-07-28",
        f"mcp-method: {method}",
        *([f"mcp-name: {name}"] if name else []),
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "accept-language: *",
        "sec-fetch-mode: cors",
        "user-agent: node",
        "accept-encoding: gzip, deflate",
    )


def message(method: str, params: str) -> str:
    """A request of the 2026-07-28 revision."""
    return (
        f'{{"method":"{method}","params":{{{params}{"," if params else ""}'
        '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0"},'
        '"io.modelcontextprotocol/clientCapabilities":{}}},"jsonrpc":"2.0","id":4}'
    )


SMALL_HEADERS = headers("tools/call", "get_weather")
SMALL_CALL = message("tools/call", '"name":"get_weather","arguments":{"city":"Köln","days":10}')
SMALL_ANSWER = (
    '{"result":{"content":[{"type":"text","text":"Rain until noon, then clearing; 11 to 17 degrees."}],'
    '"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":'
    '{"name":"bench","version":"1.0"}}},"jsonrpc":"2.0","id":4}'
)

LIST_BYTES = 30 * 1024
LIST_TTL_MS = 300_000
# Proxies that keep nothing give the time as it came, others what is left of it.
LIST_ANSWER = '{"result":{"resultType":"complete","tools":TOOLS,"ttlMs":@,"cacheScope":"public"},"jsonrpc":"2.0","id":4}'


def tools() -> str:
    """As many tools as fit into `LIST_BYTES`, the one of the small call first."""
    names = ["get_weather", *(f"get_{what}_of_region_{number}" for number in range(100) for what in ("forecast", "stations", "warnings"))]
    listed: list[str] = []
    for name in names:
        tool = {
            "name": name,
            "title": name.replace("_", " ").capitalize(),
            "description": f"Answers what {name} says in its name, for the city that is given, for each of the days that are "
            "asked for; temperatures are in degrees Celsius, wind speeds in metres per second, and times are local.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The name of the city, as its inhabitants write it"},
                    "days": {"type": "integer", "minimum": 1, "maximum": 14, "description": "For how many days, today included"},
                },
                "required": ["city"],
            },
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }
        text = json.dumps(tool, separators=(",", ":"))
        if len(LIST_ANSWER) + sum(map(len, listed)) + len(listed) + len(text) > LIST_BYTES:
            break
        listed.append(text)
    return f"[{','.join(listed)}]"


LIST_ANSWER = LIST_ANSWER.replace("TOOLS", tools())

# `load serve` knows these by their headers, and answers as is written here.
UPLOAD_BYTES = 100 * MIB
UPLOAD_CALL = message("tools/call", '"name":"store_report","arguments":{"data":"@"}')


def upload_answer(fill_bytes: int) -> str:
    """What the upstream says once it has received all of an upload."""
    received = len(UPLOAD_CALL) - 1 + fill_bytes
    return (
        f'{{"result":{{"content":[{{"type":"text","text":"received {received} bytes"}}],'
        '"resultType":"complete"},"jsonrpc":"2.0","id":4}'
    )


EVENTS_CALL = message("tools/call", '"name":"count_stations","arguments":{"milliseconds":MILLISECONDS,"rate":RATE}')

LISTEN_CALL = message("subscriptions/listen", '"notifications":{"toolsListChanged":true}')
LISTEN_EVENT = (
    'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",'
    '"params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}\n\n'
)


def small(name: str, way: str, **ways: bool) -> Row:
    """The small call, coming in over `way`."""
    sizes = f"of {len(SMALL_CALL.encode())} bytes, answered with {len(SMALL_ANSWER)}"
    return Row(name, "calls", f"a modern tools/call {sizes}, over {way}", SMALL_HEADERS, SMALL_CALL, SMALL_ANSWER, **ways)


ROWS = {
    row.name: row
    for row in (
        small("small", "HTTP/1.1"),
        small("small-http2", "HTTP/2 in cleartext", http2=True),
        small("small-tls", "HTTP/1.1 and TLS 1.3", tls=True),
        small("small-tls-http2", "HTTP/2 and TLS 1.3", tls=True, http2=True),
        Row(
            name="cached-list",
            kind="lists",
            description=f"a modern tools/list over HTTP/1.1, whose answer of {len(LIST_ANSWER) / 1024:.0f} KiB may be kept for {LIST_TTL_MS // 1000} s",
            headers=headers("tools/list", None),
            body=message("tools/list", ""),
            answer=LIST_ANSWER,
        ),
        Row(
            name="cached-pages",
            kind="pages",
            description="the same for a page each, no two requests for the same one, so that none is answered from memory",
            headers=headers("tools/list", None),
            body=message("tools/list", '"cursor":"page-@"'),
            answer=LIST_ANSWER,
            numbered=True,
        ),
        Row(
            name="upload",
            kind="upload",
            description=f"a modern tools/call of {UPLOAD_BYTES // MIB} MiB over HTTP/1.1, one at a time, which no proxy may buffer",
            headers=headers("tools/call", "store_report"),
            body=UPLOAD_CALL,
            answer=upload_answer(UPLOAD_BYTES),
            fill_bytes=UPLOAD_BYTES,
        ),
        Row(
            name="events",
            kind="events",
            description="tools/call answered with progress events of some 200 bytes, each written by itself, over HTTP/1.1",
            headers=headers("tools/call", "count_stations"),
            body=EVENTS_CALL,
            answer="",
        ),
        Row(
            name="streams",
            kind="streams",
            description="subscriptions/listen over HTTP/1.1, open and silent after its first event",
            headers=headers("subscriptions/listen", None),
            body=LISTEN_CALL,
            answer=LISTEN_EVENT,
        ),
    )
}
