"""HTTP/1.1 by hand, so that clients and the upstream can break it wherever they like."""

import asyncio
import json
import socket
import ssl
import struct
from dataclasses import dataclass

from messages import BROKEN, WRONG, Call, worth

HEAD_BYTES_MAX = 64 * 1024
# A gateway that says nothing for this long hangs, which is a fault of its own.
SILENCE_MAX = 40


class Ended(Exception):
    """The other side ended the connection before the message had ended."""


def reset(writer: asyncio.StreamWriter):
    """Ends the connection with a reset, as programs do that crash."""
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.fileno() >= 0:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]] | None:
    """The first line and the fields; `None` where the connection ended between two messages."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise Ended from error
        return None
    except (ConnectionError, ssl.SSLError) as error:
        raise Ended from error
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    return first, fields


async def read_pieces(reader: asyncio.StreamReader, fields: dict[str, str]):
    """The body, piece by piece; raises `Ended` unless it came to its proper end."""
    try:
        if fields.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                yield await reader.readexactly(size)
                await reader.readexactly(2)
            await reader.readuntil(b"\r\n")
            return
        left = int(fields.get("content-length", 0))
        while left:
            piece = await reader.read(min(left, 65536))
            if not piece:
                raise Ended
            left -= len(piece)
            yield piece
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, ValueError) as error:
        raise Ended from error


async def read_body(reader: asyncio.StreamReader, fields: dict[str, str]) -> bytes:
    return b"".join([piece async for piece in read_pieces(reader, fields)])


@dataclass
class Target:
    """Where the gateway listens."""

    port: int
    tls: ssl.SSLContext | None = None

    async def connect(self) -> "Client":
        server_hostname = "localhost" if self.tls else None
        async with asyncio.timeout(SILENCE_MAX):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=self.tls, server_hostname=server_hostname, limit=HEAD_BYTES_MAX
            )
        return Client(reader, writer)


def request(path: str, headers: list[tuple[str, str]], body: bytes, chunked: bool = False) -> tuple[bytes, bytes]:
    """The bytes of a request's head and body."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", *(f"{name}: {value}" for name, value in headers)]
    if chunked:
        lines.append("transfer-encoding: chunked")
        pieces = [body[at : at + 8000] for at in range(0, len(body), 8000)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    else:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n", body


class Client:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes):
        for piece in pieces:
            self.writer.write(piece)
        await self.writer.drain()

    async def call(self, path: str, call: Call, chunked: bool = False) -> str:
        """Sends a call, reads its answer whole, and says what it is worth."""
        async with asyncio.timeout(SILENCE_MAX):
            try:
                await self.send(*request(path, call.headers(), call.body(), chunked))
            except (ConnectionError, ssl.SSLError):
                # The answer may have come before the end of the request.
                pass
            return await self.answer(call)

    async def answer(self, call: Call) -> str:
        try:
            head = await read_head(self.reader)
            if head is None:
                return BROKEN
            first, fields = head
            if not first.startswith("HTTP/1.1 "):
                return WRONG
            body = await read_body(self.reader, fields)
        except (Ended, ConnectionError, ssl.SSLError):
            return BROKEN
        return answer_worth(call, fields.get("content-type", ""), body)

    def reset(self):
        reset(self.writer)

    async def close(self):
        self.writer.close()
        try:
            await asyncio.wait_for(self.writer.wait_closed(), 5)
        except (ConnectionError, ssl.SSLError, TimeoutError):
            self.writer.transport.abort()


def answer_worth(call: Call, content_type: str, body: bytes) -> str:
    """What a whole body is worth: one JSON message, or a stream whose last event is the answer."""
    try:
        if content_type.startswith("text/event-stream"):
            events = body.split(b"\n\n")
            if events.pop() != b"":
                return WRONG
            messages = [json.loads(data) for event in events for data in [event_data(event)] if data]
            steps = [message["params"]["progress"] for message in messages[:-1]]
            if steps != list(range(len(steps))):
                return WRONG
            return worth(call, messages[-1]) if messages else WRONG
        return worth(call, json.loads(body))
    except (ValueError, KeyError, TypeError):
        return WRONG


def event_data(event: bytes) -> bytes:
    """The data of one event; a comment has none."""
    lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)
