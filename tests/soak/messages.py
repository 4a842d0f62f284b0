"""The messages of the soak: calls with a mark by which each is known again, and what an answer is worth.

A tool's name says what the upstream does with the call. Its mark comes back in the right answer, and
the ledger counts under it how often the call ran.
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field

MODERN = "2026-07-28"
LEGACY = "2025-11-25"

# What an exchange came to.
RIGHT = "right"  # the whole, right answer
REFUSED = "refused"  # a whole JSON-RPC error that names the request
BROKEN = "broken"  # the connection or the stream ended before the answer had
HUNG = "hung"  # nothing for much longer than it may take
WRONG = "wrong"  # anything else: nothing may ever be this


@dataclass(frozen=True)
class Call:
    """One tools/call."""

    tool: str
    mark: str
    id: int
    version: str = MODERN
    session: str | None = None
    # How many bytes of text go with it.
    fill_bytes: int = 0
    # What the headers say instead of the tool's name.
    claimed_tool: str | None = None

    def headers(self) -> list[tuple[str, str]]:
        headers = [
            ("mcp-protocol-version", self.version),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ]
        if self.version == MODERN:
            headers += [("mcp-method", "tools/call"), ("mcp-name", self.claimed_tool or self.tool)]
        if self.session:
            headers.append(("mcp-session-id", self.session))
        return headers

    def body(self) -> bytes:
        params: dict = {"name": self.tool, "arguments": {"mark": self.mark, "text": text(self.fill_bytes)}}
        if self.version == MODERN:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params}).encode()


def text(count: int) -> str:
    return ("0123456789abcdef" * (count // 16 + 1))[:count]


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def result(id: int, mark: str, body: bytes, padding: int = 0) -> dict:
    """The right answer to a call; it says what the upstream received."""
    said = f"{mark} {digest(body)}"
    content = [{"type": "text", "text": said}]
    if padding:
        content.append({"type": "text", "text": text(padding)})
    return {"jsonrpc": "2.0", "id": id, "result": {"content": content, "resultType": "complete"}}


def worth(call: Call, answer: dict | None) -> str:
    """What a whole JSON-RPC message is worth as the answer to `call`."""
    if not isinstance(answer, dict) or answer.get("id") != call.id:
        return WRONG
    if "error" in answer:
        return REFUSED
    try:
        said = answer["result"]["content"][0]["text"]
    except (KeyError, IndexError, TypeError):
        return WRONG
    return RIGHT if said == f"{call.mark} {digest(call.body())}" else WRONG


@dataclass
class Ledger:
    """What ran at the upstream, and what the clients got; all in one process, so that it can be compared."""

    # By mark, how often a call ran.
    runs: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    right: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # Calls that must not run at all, because their requests never were whole.
    never: set[str] = field(default_factory=set)
    marks: int = 0

    def mark(self) -> str:
        """A mark that no other call has."""
        self.marks += 1
        return f"m{self.marks}"

    def ran(self, mark: str):
        self.runs[mark] += 1

    def fault(self, what: str):
        self.faults.append(what)

    def not_once(self) -> list[str]:
        """Calls that were answered rightly, and did not run exactly once."""
        return [mark for mark in self.right if self.runs[mark] != 1]

    def twice(self) -> list[str]:
        return [mark for mark, count in self.runs.items() if count > 1]
