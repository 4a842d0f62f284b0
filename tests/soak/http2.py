"""HTTP/2 for clients and the upstream: one connection, its streams, and ways to break both."""

import asyncio
import ssl

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from http1 import SILENCE_MAX, Ended, Target, answer_worth, reset
from messages import BROKEN, Call


class Stream:
    """One stream: what has come of it, and what may be sent on it."""

    def __init__(self, connection: "Connection", id: int):
        self.connection = connection
        self.id = id
        self.fields: dict[str, str] = {}
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.head = asyncio.get_running_loop().create_future()
        self.window = asyncio.Event()
        self.gone = asyncio.Event()
        self.has_ended = False
        self.is_broken = False

    async def body(self):
        """The body, piece by piece; raises `Ended` unless it came to its proper end."""
        while (piece := await self.pieces.get()) is not None:
            yield piece
        if self.is_broken:
            raise Ended

    async def send(self, data: bytes, end: bool = False):
        """Sends data as far as the other side's windows allow, and waits for the rest."""
        h2 = self.connection.h2
        while data or end:
            if self.is_broken or self.connection.is_over:
                raise Ended
            room = min(h2.local_flow_control_window(self.id), h2.max_outbound_frame_size) if data else 1
            if room <= 0:
                self.window.clear()
                await self.window.wait()
                continue
            piece, data = data[:room], data[room:]
            try:
                h2.send_data(self.id, piece, end_stream=end and not data)
            except ProtocolError as error:
                raise Ended from error
            await self.connection.flush()
            if not data:
                return

    def reset(self, code: ErrorCodes = ErrorCodes.CANCEL):
        """Ends the stream before its time."""
        try:
            self.connection.h2.reset_stream(self.id, code)
            self.connection.write()
        except ProtocolError:
            pass  # It is over already.
        self.give_up()

    def give_up(self):
        self.is_broken = True
        self.gone.set()
        self.pieces.put_nowait(None)
        self.window.set()
        if not self.head.done():
            self.head.set_result(False)


class Connection:
    """One connection, as client or as server; `serve` is called for each stream that the other side opens."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, serve=None):
        self.reader = reader
        self.writer = writer
        self.serve = serve
        self.h2 = H2Connection(H2Configuration(client_side=serve is None, header_encoding="utf-8"))
        self.streams: dict[int, Stream] = {}
        self.tasks: set[asyncio.Task] = set()
        self.is_over = False
        # The last stream that is served, once the other side was told that there is one.
        self.last_stream: int | None = None
        self.h2.initiate_connection()
        self.write()

    def write(self):
        if not self.writer.is_closing():
            self.writer.write(self.h2.data_to_send())

    def go_away(self, last_stream: int):
        """Says that no stream behind this one is served; those up to it go on. It can be said once."""
        if self.last_stream is not None:
            return
        self.last_stream = last_stream
        self.write()
        payload = last_stream.to_bytes(4, "big") + bytes(4)
        # Not through h2, which would give up the streams that are open.
        self.writer.write(len(payload).to_bytes(3, "big") + b"\x07" + bytes(5) + payload)

    async def send_head(self, stream: Stream, headers: list[tuple[str, str]]):
        try:
            self.h2.send_headers(stream.id, headers)
        except ProtocolError as error:
            raise Ended from error
        await self.flush()

    async def flush(self):
        self.write()
        try:
            await self.writer.drain()
        except (ConnectionError, ssl.SSLError) as error:
            raise Ended from error

    async def run(self):
        """Reads until the connection ends; then everything that is open has failed."""
        try:
            while data := await self.reader.read(65536):
                for event in self.h2.receive_data(data):
                    self._take(event)
                self.write()
        except (ConnectionError, ssl.SSLError, ProtocolError):
            pass
        finally:
            self.is_over = True
            for stream in list(self.streams.values()):
                stream.give_up()
            for task in list(self.tasks):
                task.cancel()
            self.writer.transport.abort()

    def _take(self, event):
        stream = self.streams.get(getattr(event, "stream_id", None) or 0)
        match event:
            case RequestReceived() if self.last_stream is not None and event.stream_id > self.last_stream:
                pass
            case RequestReceived():
                stream = self.streams[event.stream_id] = Stream(self, event.stream_id)
                stream.fields = dict(event.headers)
                task = asyncio.create_task(self.serve(stream))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
            case ResponseReceived() if stream:
                stream.fields = dict(event.headers)
                if not stream.head.done():
                    stream.head.set_result(True)
            case DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if stream:
                    stream.pieces.put_nowait(event.data)
            case StreamEnded() if stream:
                stream.has_ended = True
                stream.pieces.put_nowait(None)
            case StreamReset() if stream:
                stream.give_up()
            case WindowUpdated():
                for one in [stream] if stream else self.streams.values():
                    one.window.set()
            case ConnectionTerminated():
                # Streams that the other side has not taken are lost.
                for one in list(self.streams.values()):
                    if self.serve is None and one.id > (event.last_stream_id or 0):
                        one.give_up()
            case _ if hasattr(event, "changed_settings"):
                for one in self.streams.values():
                    one.window.set()

    def forget(self, stream: Stream):
        self.streams.pop(stream.id, None)


class Client:
    """One connection to the gateway, with many calls at a time."""

    def __init__(self, connection: Connection, scheme: str):
        self.connection = connection
        self.scheme = scheme
        self.task = asyncio.create_task(connection.run())

    @staticmethod
    async def connect(target: Target) -> "Client":
        plain = await target.connect()
        return Client(Connection(plain.reader, plain.writer), "https" if target.tls else "http")

    async def open(self, path: str, call: Call, end: bool = True) -> Stream:
        """Opens a stream with the call's head and, unless `end` is false, its whole body."""
        h2 = self.connection.h2
        try:
            stream = Stream(self.connection, h2.get_next_available_stream_id())
            self.connection.streams[stream.id] = stream
        except ProtocolError as error:
            raise Ended from error
        pseudo = [(":method", "POST"), (":scheme", self.scheme), (":authority", "localhost"), (":path", path)]
        await self.connection.send_head(stream, pseudo + call.headers())
        if end:
            await stream.send(call.body(), end=True)
        return stream

    async def call(self, path: str, call: Call) -> str:
        """Sends a call, reads its answer whole, and says what it is worth."""
        stream = None
        async with asyncio.timeout(SILENCE_MAX):
            try:
                stream = await self.open(path, call)
                if not await stream.head:
                    return BROKEN
                body = b"".join([piece async for piece in stream.body()])
            except Ended:
                return BROKEN
            finally:
                if stream:
                    self.connection.forget(stream)
        return answer_worth(call, stream.fields.get("content-type", ""), body)

    def reset(self):
        """Ends the whole connection with a reset."""
        reset(self.connection.writer)

    async def close(self):
        self.connection.writer.close()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
