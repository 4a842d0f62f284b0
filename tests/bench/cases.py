"""What is sent through each proxy, and what must come back.

A case is one HTTP request and the answer to it. A new one is a new entry in CASES.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One request, sent over and over again, and the one right answer to it."""

    name: str
    description: str
    headers: tuple[str, ...]
    body: str
    answer: str

    def request(self, address: str) -> bytes:
        """The request's bytes, for the proxy that listens at `address` (host:port)."""
        body = self.body.encode()
        lines = ["POST /mcp HTTP/1.1", f"host: {address}", *self.headers, f"content-length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# Order, case and values as the TypeScript client on Node's fetch sends them.
CLIENT_HEADERS = (
    "connection: keep-alive",
    "mcp-protocol-version: 2026-07-28",
    "mcp-method: tools/call",
    "mcp-name: get_weather",
    "content-type: application/json",
    "accept: application/json, text/event-stream",
    "accept-language: *",
    "sec-fetch-mode: cors",
    "user-agent: node",
    "accept-encoding: gzip, deflate",
)

SMALL_CALL = (
    '{"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"Köln","days":10},'
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0"},'
    '"io.modelcontextprotocol/clientCapabilities":{}}},"jsonrpc":"2.0","id":4}'
)

SMALL_ANSWER = (
    '{"result":{"content":[{"type":"text","text":"Rain until noon, then clearing; 11 to 17 degrees."}],'
    '"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":'
    '{"name":"bench","version":"1.0"}}},"jsonrpc":"2.0","id":4}'
)

CASES = {
    case.name: case
    for case in (
        Case(
            name="small",
            description=f"a modern tools/call of {len(SMALL_CALL.encode())} bytes, answered with {len(SMALL_ANSWER)}",
            headers=CLIENT_HEADERS,
            body=SMALL_CALL,
            answer=SMALL_ANSWER,
        ),
    )
}
