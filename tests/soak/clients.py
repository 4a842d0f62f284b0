"""The clients: those that behave, who must always get the right answer, and those that do not."""

import asyncio
import random
import ssl
from dataclasses import dataclass

import http2
from http1 import SILENCE_MAX, Ended, Target, read_head, read_pieces, request
from messages import BROKEN, HUNG, LEGACY, REFUSED, RIGHT, Call, Ledger

GOOD_TOOLS = ("echo", "echo", "echo", "echo_slowly", "echo_much", "trickle", "count")
HTTP2_CALLS = 8
UPLOAD_BYTES_MAX = 3 << 20

# What may come of a call whose upstream fails: never a whole and right answer, unless it gave one.
FAULTS = {
    "reset_before_head": {REFUSED, BROKEN},
    "close_before_head": {REFUSED, BROKEN},
    "reset_in_body": {REFUSED, BROKEN},
    "half_event": {REFUSED, BROKEN},
    "say_too_little": {REFUSED, BROKEN},
    "talk_garbage": {REFUSED, BROKEN},
    # The connection is closed under a call that may come next.
    "echo_then_close": {RIGHT, REFUSED, BROKEN},
    # Others may end the connection at any time.
    "go_away_and_echo": {RIGHT, REFUSED, BROKEN},
    # Nothing was done, so these may be tried elsewhere, in vain.
    "go_away_before_it": {REFUSED, BROKEN},
    "refuse_stream": {REFUSED, BROKEN},
    "answer_early": {REFUSED, BROKEN},
}
HTTP2_ONLY = {"go_away_and_echo", "go_away_before_it", "refuse_stream"}
HTTP1_ONLY = {"talk_garbage", "say_too_little"}


@dataclass
class Scene:
    """What all clients share."""

    ledger: Ledger
    chance: random.Random
    target: Target
    # Paths whose upstream never fails, and those whose upstream does; with whether it speaks HTTP/2.
    good: list[str]
    faulty: list[tuple[str, bool]]
    has_ended: bool = False

    def call(self, tool: str, id: int, **more) -> Call:
        return Call(tool, self.ledger.mark(), id, **more)

    def told(self, who: str, call: Call, outcome: str, allowed: set[str]):
        """Keeps what came of a call, which is a fault if it is none of `allowed`."""
        self.ledger.outcomes[who, outcome] += 1
        if outcome == RIGHT:
            self.ledger.right.append(call.mark)
        if outcome not in allowed:
            self.ledger.fault(f"{who}: {call.tool} ({call.mark}) came out {outcome}")

    async def repeat(self, client):
        """Runs `client` again and again until the round ends; one that hangs is a fault."""
        while not self.has_ended:
            try:
                await client(self)
            except TimeoutError:
                self.ledger.fault(f"{client.__name__}: no answer within {SILENCE_MAX} s")
            except (Ended, ConnectionError, ssl.SSLError, asyncio.IncompleteReadError) as error:
                if client in GOOD:
                    self.ledger.fault(f"{client.__name__}: {error!r}")


# Those that behave.


async def keep_alive(scene: Scene):
    client = await scene.target.connect()
    path = scene.chance.choice(scene.good)
    for id in range(scene.chance.randrange(1, 40)):
        call = scene.call(scene.chance.choice(GOOD_TOOLS), id)
        scene.told("keep_alive", call, await client.call(path, call), {RIGHT})
        if scene.has_ended:
            break
    await client.close()


async def speak_the_older_protocol(scene: Scene):
    client = await scene.target.connect()
    path = scene.chance.choice(scene.good)
    info = {"name": "soak", "version": "1"}
    params = f'{{"protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{str(info).replace(chr(39), chr(34))}}}'
    body = f'{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}'.encode()
    headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
    async with asyncio.timeout(SILENCE_MAX):
        await client.send(*request(path, headers, body))
        head = await read_head(client.reader)
        if head is None or "mcp-session-id" not in head[1]:
            raise Ended
        async for _ in read_pieces(client.reader, head[1]):
            pass
    session = head[1]["mcp-session-id"]
    for id in range(1, 6):
        call = scene.call(scene.chance.choice(GOOD_TOOLS), id, version=LEGACY, session=session)
        scene.told("speak_the_older_protocol", call, await client.call(path, call), {RIGHT})
    await client.close()


async def upload(scene: Scene):
    client = await scene.target.connect()
    call = scene.call("echo", 1, fill_bytes=scene.chance.randrange(50_000, UPLOAD_BYTES_MAX))
    path, chunked = scene.chance.choice(scene.good), scene.chance.random() < 0.5
    scene.told("upload", call, await client.call(path, call, chunked), {RIGHT})
    await client.close()


async def ask_twice_at_once(scene: Scene):
    """The second request comes before the first is answered, as HTTP/1.1 allows."""
    client = await scene.target.connect()
    path = scene.chance.choice(scene.good)
    calls = [scene.call("echo", id) for id in (1, 2)]
    await client.send(*(piece for call in calls for piece in request(path, call.headers(), call.body())))
    for call in calls:
        async with asyncio.timeout(SILENCE_MAX):
            scene.told("ask_twice_at_once", call, await client.answer(call), {RIGHT})
    await client.close()


async def many_at_once(scene: Scene):
    """Calls over one HTTP/2 connection."""
    client = await http2.Client.connect(scene.target)
    path = scene.chance.choice(scene.good)

    async def some(first: int):
        for id in range(first, first + 5):
            call = scene.call(scene.chance.choice(GOOD_TOOLS), id)
            scene.told("many_at_once", call, await client.call(path, call), {RIGHT})

    await asyncio.gather(*(some(first) for first in range(0, 10 * HTTP2_CALLS, 10)))
    await client.close()


# Those that do not.


async def meet_a_fault(scene: Scene):
    """Behaves, but the upstream does not."""
    client = await scene.target.connect()
    path, speaks_http2 = scene.chance.choice(scene.faulty)
    tools = [tool for tool in FAULTS if tool not in (HTTP1_ONLY if speaks_http2 else HTTP2_ONLY)]
    tool = scene.chance.choice(tools)
    call = scene.call(tool, 1, fill_bytes=300_000 if tool == "answer_early" else 0)
    try:
        scene.told("meet_a_fault", call, await client.call(path, call), FAULTS[tool])
    except TimeoutError:
        scene.told("meet_a_fault", call, HUNG, FAULTS[tool])
    client.reset()


async def reset_in_head(scene: Scene):
    client = await scene.target.connect()
    head, _ = request("/good", scene.call("echo", 1).headers(), b"")
    await client.send(head[: scene.chance.randrange(1, len(head) - 4)])
    client.reset()


async def vanish_in_upload(scene: Scene):
    client = await scene.target.connect()
    call = scene.call("echo", 1, fill_bytes=scene.chance.choice((100, 500_000)))
    head, body = request(scene.chance.choice(scene.good), call.headers(), call.body(), scene.chance.random() < 0.5)
    await client.send(head, body[: scene.chance.randrange(1, len(body) - 5)])
    await leave(scene, client)
    must_not_have_run(scene, call)


async def lie_in_upload(scene: Scene):
    """Headers that the body's end does not agree with."""
    client = await scene.target.connect()
    call = scene.call("echo", 1, fill_bytes=scene.chance.randrange(70_000, 1_000_000), claimed_tool="echo_slowly")
    scene.told("lie_in_upload", call, await client.call(scene.chance.choice(scene.good), call), {REFUSED, BROKEN})
    await client.close()
    must_not_have_run(scene, call)


def must_not_have_run(scene: Scene, call: Call):
    """Looked at when all is over, because the upstream may still be about to run it."""
    scene.ledger.never.add(call.mark)


async def leave_before_the_answer(scene: Scene):
    client = await scene.target.connect()
    call = scene.call(scene.chance.choice(("never", "echo_slowly")), 1)
    await client.send(*request(scene.chance.choice(scene.good), call.headers(), call.body()))
    await asyncio.sleep(scene.chance.random() * 0.15)
    await leave(scene, client)


async def leave_in_the_stream(scene: Scene):
    client = await scene.target.connect()
    call = scene.call(scene.chance.choice(("stream_forever", "count")), 1)
    await client.send(*request(scene.chance.choice(scene.good), call.headers(), call.body()))
    async with asyncio.timeout(SILENCE_MAX):
        await read_head(client.reader)
        await client.reader.read(100)
    await leave(scene, client)


async def leave(scene: Scene, client):
    """With a reset, or politely."""
    if scene.chance.random() < 0.5:
        client.reset()
    else:
        await client.close()


async def say_no_more(scene: Scene):
    """Ends its own direction and still wants the answer, which the gateway may take for leaving."""
    client = await scene.target.connect()
    call = scene.call("echo_slowly", 1)
    await client.send(*request(scene.chance.choice(scene.good), call.headers(), call.body()))
    if client.writer.can_write_eof():
        client.writer.write_eof()
    async with asyncio.timeout(SILENCE_MAX):
        scene.told("say_no_more", call, await client.answer(call), {RIGHT, REFUSED, BROKEN})
    client.reset()


async def read_slowly(scene: Scene):
    """Takes a flood at a trickle, and loses patience."""
    client = await scene.target.connect()
    call = scene.call("flood", 1)
    await client.send(*request(scene.chance.choice(scene.good), call.headers(), call.body()))
    async with asyncio.timeout(SILENCE_MAX):
        for _ in range(20):
            await client.reader.read(1000)
            await asyncio.sleep(0.05)
    client.reset()


async def write_slowly(scene: Scene):
    """A byte now and then, and never a whole request."""
    client = await scene.target.connect()
    for byte in b"POST /good HTTP/1.1\r\nhost: x"[: scene.chance.randrange(5, 28)]:
        await client.send(bytes([byte]))
        await asyncio.sleep(0.05)
    await leave(scene, client)


async def talk_nonsense(scene: Scene):
    client = await scene.target.connect()
    nonsense = (b"\x16\x03\x01\x00\x05hello", b"GET /\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"\x00" * 5000)
    await client.send(scene.chance.choice(nonsense))
    try:
        await asyncio.wait_for(client.reader.read(1000), 5)
    except TimeoutError:
        pass
    client.reset()


async def give_up_streams(scene: Scene):
    """Cancels calls over HTTP/2 at every stage, while others on the connection go on."""
    client = await http2.Client.connect(scene.target)
    path = scene.chance.choice(scene.good)
    for id in range(6):
        whole = scene.chance.random() < 0.7
        call = scene.call(scene.chance.choice(("never", "stream_forever", "echo_slowly")), id)
        stream = await client.open(path, call, end=whole)
        if not whole:
            await stream.send(call.body()[:50])
            must_not_have_run(scene, call)
        await asyncio.sleep(scene.chance.random() * 0.05)
        stream.reset()
        client.connection.forget(stream)
    call = scene.call("echo", 7)
    scene.told("give_up_streams", call, await client.call(path, call), {RIGHT})
    await client.close()


async def drop_the_connection(scene: Scene):
    """Streams of all kinds are open on the HTTP/2 connection that is reset."""
    client = await http2.Client.connect(scene.target)
    path = scene.chance.choice(scene.good)
    for id, tool in enumerate(("never", "stream_forever", "flood", "echo_slowly", "echo_much")):
        await client.open(path, scene.call(tool, id))
    await asyncio.sleep(scene.chance.random() * 0.3)
    client.reset()
    await client.close()


# The first have more tasks than the others.
GOOD = (keep_alive, keep_alive, keep_alive, keep_alive, speak_the_older_protocol, upload, ask_twice_at_once, many_at_once, many_at_once)
BAD = (
    meet_a_fault,
    meet_a_fault,
    meet_a_fault,
    reset_in_head,
    vanish_in_upload,
    lie_in_upload,
    leave_before_the_answer,
    leave_in_the_stream,
    say_no_more,
    read_slowly,
    write_slowly,
    talk_nonsense,
    give_up_streams,
    drop_the_connection,
)
