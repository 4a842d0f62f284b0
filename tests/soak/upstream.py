"""The upstream: an MCP server that does with each call what the call's tool is named after."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable

from h2.errors import ErrorCodes

import http2
from http1 import HEAD_BYTES_MAX, Ended, read_head, read_pieces, reset
from messages import LEGACY, MODERN, Ledger, result

FLOOD_EVENT_BYTES = 16 * 1024
FLOOD_EVENTS_MAX = 4096
COUNT_EVENTS = 5
# Tools that do not wait for the whole request, so that these calls do not run.
BEFORE_THE_BODY = ("answer_early", "refuse_stream", "go_away_before_it")
# In one answer of these the mark is another one, or it is counted twice, where such a fault is seeded.
SEEDED_EVERY = 50


class Watched(asyncio.StreamReaderProtocol):
    """The server's side of a connection, which knows without reading when the gateway has ended it."""

    def __init__(self, serve):
        self.gone = asyncio.Event()
        super().__init__(asyncio.StreamReader(limit=HEAD_BYTES_MAX), serve)

    def eof_received(self):
        self.gone.set()
        return super().eof_received()

    def connection_lost(self, exc):
        self.gone.set()
        super().connection_lost(exc)


class Reply:
    """An answer over HTTP/1.1."""

    def __init__(self, writer: asyncio.StreamWriter):
        self.writer = writer
        self.gone = writer.transport.get_protocol().gone
        self.is_chunked = False

    async def head(self, content_type: str, length: int | None = None, extra: str = "", status: str = "200 OK"):
        self.is_chunked = length is None
        framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        await self.raw(f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{extra}{framing}\r\n\r\n".encode())

    async def data(self, data: bytes):
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self.is_chunked else data)

    async def end(self):
        if self.is_chunked:
            await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes):
        """Bytes as they are, whatever they are."""
        try:
            self.writer.write(data)
            await self.writer.drain()
        except (ConnectionError, ssl.SSLError) as error:
            raise Ended from error

    def reset(self):
        reset(self.writer)

    def close(self):
        self.writer.close()


class Reply2:
    """An answer over HTTP/2."""

    def __init__(self, stream: http2.Stream):
        self.stream = stream
        self.gone = stream.gone

    async def head(self, content_type: str, length: int | None = None, extra: str = "", status: str = "200 OK"):
        headers = [(":status", status.split()[0]), ("content-type", content_type)]
        headers += [tuple(line.split(": ")) for line in extra.split("\r\n") if line]
        headers += [("content-length", str(length))] if length is not None else []
        if self.stream.is_broken:
            raise Ended
        await self.stream.connection.send_head(self.stream, headers)

    async def data(self, data: bytes):
        await self.stream.send(data)

    async def end(self):
        await self.stream.send(b"", end=True)

    def reset(self):
        self.stream.reset(ErrorCodes.INTERNAL_ERROR)

    def close(self):
        self.stream.connection.writer.close()

    def refuse(self):
        """Hands the stream back, as one of which nothing was done."""
        self.stream.reset(ErrorCodes.REFUSED_STREAM)

    def go_away(self):
        """Takes no further streams, and serves those that it has."""
        connection = self.stream.connection
        connection.go_away(max(connection.streams))

    def go_away_before(self):
        """Takes neither this stream nor those that come behind it."""
        connection = self.stream.connection
        # What has been begun cannot be said not to have been.
        if max(connection.streams) > self.stream.id:
            self.refuse()
        else:
            connection.go_away(max(self.stream.id - 2, 0))
            self.stream.give_up()


class Call:
    """A call that has come in whole."""

    def __init__(self, message: dict, body: bytes):
        arguments = message.get("params", {}).get("arguments", {})
        self.id = message.get("id")
        self.method = message.get("method")
        self.tool = message.get("params", {}).get("name")
        self.mark = arguments.get("mark", "")
        self.body = body

    def answer(self, padding: int = 0) -> bytes:
        return json.dumps(result(self.id, self.mark, self.body, padding)).encode()


class Upstream:
    """One server, for HTTP/1.1 or for HTTP/2, and what is open at it."""

    def __init__(self, ledger: Ledger, seeded: str | None = None):
        self.ledger = ledger
        self.seeded = seeded
        self.answers = 0
        self.open_calls: set[str] = set()
        self.writers: set[asyncio.StreamWriter] = set()
        self.gate = asyncio.Event()
        self.waiting = 0
        self.server: asyncio.Server | None = None

    async def start(self, speaks_http2: bool) -> int:
        """Gives the port."""
        serve = self._serve_http2 if speaks_http2 else self._serve_http1
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Watched(serve), "127.0.0.1", 0, backlog=1024)
        return self.server.sockets[0].getsockname()[1]

    def close_connections(self):
        """Ends all connections, as a server does that has waited long enough for the next request."""
        for writer in list(self.writers):
            writer.close()

    async def _serve_http2(self, reader, writer):
        self.writers.add(writer)
        try:
            await http2.Connection(reader, writer, self._serve_stream).run()
        finally:
            self.writers.discard(writer)

    async def _serve_stream(self, stream: http2.Stream):
        try:
            await self._serve(stream.fields, stream.body(), Reply2(stream))
        except Ended:
            stream.reset()
        except Exception as error:
            # Not a fault of the gateway, but what is not noticed is not tried.
            self.ledger.fault(f"the upstream itself: {error!r}")
            raise
        finally:
            stream.connection.forget(stream)

    async def _serve_http1(self, reader, writer):
        self.writers.add(writer)
        try:
            while head := await read_head(reader):
                if not await self._serve(head[1], read_pieces(reader, head[1]), Reply(writer)):
                    break
        except (Ended, ConnectionError):
            pass
        except Exception as error:
            self.ledger.fault(f"the upstream itself: {error!r}")
            raise
        finally:
            self.writers.discard(writer)
            writer.close()

    async def _serve(self, fields: dict[str, str], pieces, reply) -> bool:
        """Reads one request, does with it what its tool is named after, and says whether more may come."""
        opened = f"{fields.get('mcp-name')} {id(reply):x}"
        self.open_calls.add(opened)
        try:
            if fields.get("mcp-name") in BEFORE_THE_BODY:
                await getattr(self, fields["mcp-name"])(pieces, reply)
                return False
            body = b"".join([piece async for piece in pieces])
            call = Call(json.loads(body), body)
            if call.method in ("tools/list", "server/discover"):
                await self.tell(call, reply)
                return True
            if call.method != "tools/call":
                await self.handshake(call, reply)
                return True
            self.ledger.ran(call.mark)
            tool: Callable[..., Awaitable[bool | None]] = getattr(self, call.tool)
            return await until_gone(tool(call, reply), reply.gone) is not False
        finally:
            self.open_calls.discard(opened)

    async def tell(self, call: Call, reply):
        """What a gateway asks for itself: which tools there are, and what else there is to be had."""
        names = [name for name in vars(Upstream) if not name.startswith("_")]
        schema = {"type": "object", "properties": {"mark": {"type": "string"}}}
        told = {"tools": [{"name": name, "inputSchema": schema} for name in names]}
        if call.method == "server/discover":
            told = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
        # For so short a time that the list is fetched again and again.
        result = {"resultType": "complete", "ttlMs": 500, "cacheScope": "public", **told}
        answer = json.dumps({"jsonrpc": "2.0", "id": call.id, "result": result}).encode()
        await reply.head("application/json", len(answer))
        await reply.data(answer)
        await reply.end()

    async def handshake(self, call: Call, reply):
        """What older clients say before their calls."""
        if call.method != "initialize":
            await reply.head("application/json", 0, status="202 Accepted")
            await reply.end()
            return
        info = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "soak", "version": "1"}}
        answer = json.dumps({"jsonrpc": "2.0", "id": call.id, "result": info}).encode()
        await reply.head("application/json", len(answer), extra="mcp-session-id: soak-session\r\n")
        await reply.data(answer)
        await reply.end()

    # The tools of a good server.

    async def echo(self, call: Call, reply, padding: int = 0):
        self.answers += 1
        if self.answers % SEEDED_EVERY == 0:
            if self.seeded == "answer":
                call.mark += "?"
            if self.seeded == "twice":
                self.ledger.ran(call.mark)
        answer = call.answer(padding)
        await reply.head("application/json", len(answer))
        await reply.data(answer)
        await reply.end()

    async def echo_slowly(self, call: Call, reply):
        await asyncio.sleep(0.1)
        await self.echo(call, reply)

    async def echo_much(self, call: Call, reply):
        await self.echo(call, reply, padding=300_000)

    async def trickle(self, call: Call, reply):
        answer = call.answer()
        await reply.head("application/json", len(answer))
        for at in range(0, len(answer), 16):
            await asyncio.sleep(0.01)
            await reply.data(answer[at : at + 16])
        await reply.end()

    async def count(self, call: Call, reply):
        await reply.head("text/event-stream")
        for step in range(COUNT_EVENTS):
            await reply.data(progress(step))
            await asyncio.sleep(0.005)
        await reply.data(b"event: message\ndata: " + call.answer() + b"\n\n")
        await reply.end()

    async def wait_at_gate(self, call: Call, reply):
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        await self.echo(call, reply)

    # Tools that do not end by themselves.

    async def never(self, _call: Call, _reply):
        await asyncio.Event().wait()

    async def stream_forever(self, _call: Call, reply):
        await reply.head("text/event-stream")
        await reply.data(progress(0))
        await asyncio.Event().wait()

    async def flood(self, _call: Call, reply):
        await reply.head("text/event-stream")
        for step in range(FLOOD_EVENTS_MAX):
            await reply.data(progress(step, FLOOD_EVENT_BYTES))
        return False

    # Faults. None of them ends in a whole and right answer, unless it is said so.

    async def reset_before_head(self, _call: Call, reply):
        reply.reset()
        return False

    async def close_before_head(self, _call: Call, reply):
        reply.close()
        return False

    async def reset_in_body(self, call: Call, reply):
        answer = call.answer()
        await reply.head("application/json", len(answer))
        await reply.data(answer[:20])
        await asyncio.sleep(0.01)
        reply.reset()
        return False

    async def half_event(self, call: Call, reply):
        await reply.head("text/event-stream")
        await reply.data(progress(0))
        await reply.data(b"event: message\ndata: " + call.answer()[:25])
        await asyncio.sleep(0.01)
        reply.close()
        return False

    async def say_too_little(self, call: Call, reply):
        answer = call.answer()
        await reply.head("application/json", len(answer) + 100)
        await reply.data(answer)
        reply.close()
        return False

    async def talk_garbage(self, _call: Call, reply):
        await reply.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        reply.close()
        return False

    async def echo_then_close(self, call: Call, reply):
        """A right answer on a connection that is closed under whatever comes next."""
        await self.echo(call, reply)
        reply.close()
        return False

    async def go_away_and_echo(self, call: Call, reply):
        """A right answer, and no more of them on this connection."""
        reply.go_away()
        await asyncio.sleep(0.01)
        await self.echo(call, reply)

    async def go_away_before_it(self, _pieces, reply):
        reply.go_away_before()

    async def refuse_stream(self, _pieces, reply):
        reply.refuse()

    async def answer_early(self, pieces, reply):
        """Refuses an upload after its first bytes; the id, which is still to come, is always this one."""
        async for _ in pieces:
            break
        answer = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"enough"}}'
        await reply.head("application/json", len(answer), status="400 Bad Request")
        await reply.data(answer)
        await reply.end()
        reply.close()


def progress(step: int, padding: int = 0) -> bytes:
    params = {"progressToken": 1, "progress": step, "message": "x" * padding}
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"


async def until_gone(work: Awaitable, gone: asyncio.Event):
    """The end of `work`, or `Ended` as soon as the gateway has ended the connection or the stream."""
    work = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(gone.wait())
    try:
        done, _ = await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
        if work not in done:
            raise Ended
        return work.result()
    finally:
        for task in (work, ended):
            task.cancel()
        await asyncio.gather(work, ended, return_exceptions=True)
