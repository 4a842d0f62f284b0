"""The kinds of rows: how a peer is tried, warmed up and measured, what is told of it, and the goals.

Each kind has `measures` (what a round gives, as rows of the table), `sizes` (what is told once) and
`goals`; and a `probe`, which raises `Missing` where a peer refuses what the row needs.
"""

import json
import math
import time
import urllib.request
from dataclasses import dataclass, replace

from peers import Failed, Peer, Stage
from rounds import Load, interleave, measure
from rows import LIST_TTL_MS, MIB, upload_answer

WARM_UP_SECONDS = 1.0
# At half of what the slowest peer can do, queues stay short, and p99 tells of the proxy itself.
RATE_SHARE = 0.5
# Requests in flight on each HTTP/2 connection, so that the callers are as many as without it.
HTTP2_STREAMS = 8

PAGES = 100_000
PAGES_QUICK = 10_000
# What `cache.bytes_max` is where the policy does not say.
CACHE_BYTES_MAX = 64 * MIB

EVENT_STREAMS = 16
EVENTS_PER_SECOND = 500  # on each stream, in the paced stretch

SMALL_UPLOAD_BYTES = 256 * 1024

STREAMS = 5000
STREAM_ROUNDS_MAX = 5  # memory hardly differs from round to round
SETTLE_SECONDS = 1.0


@dataclass(frozen=True)
class Measure:
    """A row of the table: what each round gave by `key`, times `factor`."""

    title: str
    key: str
    factor: float = 1
    decimals: int = 1
    # A ratio of shares would look like a gain or a loss, and is neither.
    has_ratio: bool = True


@dataclass(frozen=True)
class Goal:
    """The most (or least) that weirgate's median, or its ratio to nginx, may be."""

    title: str
    key: str
    bound: float
    is_ratio: bool = True
    is_least: bool = False
    # For bytes: what they are shown in.
    unit: int = 1
    unit_name: str = ""
    aim: float | None = None
    # Goals of one row only.
    row: str | None = None


def stretches(unit: str, paced: str) -> tuple[Measure, ...]:
    """The measures of a saturated and of a paced stretch."""
    return (
        Measure(f"saturated: CPU µs per {unit}", "saturated.cpu_us"),
        Measure("  of it in the kernel, %", "saturated.kernel_share", 100, 0, has_ratio=False),
        Measure(f"  {unit}s per second", "saturated.per_second", 1, 0),
        Measure(f"{paced}: CPU µs per {unit}", "paced.cpu_us"),
        Measure("  p50 µs", "paced.p50_us", 1, 0),
        Measure("  p99 µs", "paced.p99_us", 1, 0),
    )


def flat(**parts: dict) -> dict:
    """`{part.key: value}` of all parts."""
    return {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items()}


class Persistent:
    """A kind whose peers run through all rounds."""

    rounds_max = 1_000_000
    goals: tuple[Goal, ...] = ()

    def __init__(self, stage: Stage, load: Load, options):
        self.stage = stage
        self.load = load
        self.options = options
        self.rate = 0
        self.before: dict[str, int] = {}
        # What else is to be told.
        self.told: list[str] = []

    def probe(self, peer: Peer):
        """Sends the request once; from here on memory counts as growth."""
        self.before[peer.name] = peer.memory_bytes("VmRSS")
        peer.forget_peak()
        self.try_once(peer)

    def run(self, peers: dict[str, Peer], say) -> dict:
        """All rounds, and the memory before them and at the most."""
        names = list(peers)
        self.warm_up(peers, say)
        count = min(self.options.rounds, self.rounds_max)
        rounds = interleave(names, count, lambda _, name: self.one_round(peers[name]), say)
        peak = {name: peer.memory_bytes("VmHWM") for name, peer in peers.items()}
        sizes = {
            "idle_bytes": {name: self.before[name] for name in names},
            "peak_bytes": peak,
            "growth_bytes": {name: peak[name] - self.before[name] for name in names},
        }
        return {"rounds": rounds, "sizes": sizes}

    def measured(self, peer: Peer, command: str, connections: int, *options: object, body: str | None = None) -> dict:
        """One stretch of load."""
        return measure(self.stage, peer, lambda: self.load.run(command, peer, connections, *options, body=body))

    def warm_up(self, peers: dict[str, Peer], say):
        """Nothing by itself."""

    @staticmethod
    def keepers(peers: dict[str, Peer]) -> list[str]:
        """The peers that keep answers: those that took the policy of the row."""
        return [name for name, peer in peers.items() if peer.admin]


class Calls(Persistent):
    """The same small call over and over."""

    sizes = {"idle_bytes": "idle memory MiB", "peak_bytes": "peak memory MiB"}
    goals = (
        Goal("CPU per request, saturated", "saturated.cpu_us", 1.21, aim=1.0, row="small"),
        Goal("p99 at half load", "paced.p99_us", 1.2),
        Goal("idle memory", "idle_bytes", 12 * MIB, is_ratio=False, unit=MIB, unit_name="MiB", row="small"),
    )

    @property
    def measures(self):
        cpu, kernel, rate, *paced = stretches("request", f"paced at {self.rate}/s")
        latency = Measure("  p50 µs", "saturated.p50_us", 1, 0), Measure("  p99 µs", "saturated.p99_us", 1, 0)
        return (cpu, kernel, rate, *latency, *paced)

    def try_once(self, peer: Peer):
        self.load.run("calls", peer, 1, "--requests", 1)

    def warm_up(self, peers, say):
        """Warms up, and settles the fixed rate."""
        warm = []
        for name, peer in peers.items():
            say(f"warming up {name}")
            warm.append(self._stretch(peer, min(WARM_UP_SECONDS, self.options.seconds))["per_second"])
        self.rate = int(self.options.rate or round(min(warm) * RATE_SHARE, -2))

    def one_round(self, peer):
        seconds = self.options.seconds
        return flat(saturated=self._stretch(peer, seconds), paced=self._stretch(peer, seconds, "--rate", self.rate))

    def _stretch(self, peer: Peer, seconds: float, *pace: object) -> dict:
        connections = self.options.connections
        if self.load.row.http2:
            pace = (*pace, "--streams", HTTP2_STREAMS)
            connections = max(connections // HTTP2_STREAMS, 1)
        return self.measured(peer, "calls", connections, "--seconds", seconds, *pace)


class Lists(Calls):
    """The same list over and over, which weirgate has in memory and the others fetch."""

    goals = (
        Goal("CPU per request, saturated", "saturated.cpu_us", 0.6),
        Goal("p99, saturated", "saturated.p99_us", 0.7),
        Goal("p99 at half load", "paced.p99_us", 0.7),
    )

    def probe(self, peer):
        self.begun = time.monotonic()
        super().probe(peer)

    def run(self, peers, say):
        result = super().run(peers, say)
        fresh_times = math.ceil((time.monotonic() - self.begun) * 1000 / LIST_TTL_MS)
        for name in self.keepers(peers):
            requests = sum(one[name][f"{part}.requests"] for one in result["rounds"] for part in ("saturated", "paced"))
            asked = self.stage.lists_asked(name)
            if not 1 <= asked <= fresh_times:
                raise Failed(f"{name} asked the upstream {asked} times for a list that was to be kept ({fresh_times} at most)")
            self.told.append(f"{name} asked the upstream {asked} times for what it answered {requests:,} times in the rounds")
        return result


class Pages(Persistent):
    """Ever other pages of a list, all of which may be kept, and not all of which have room."""

    rounds_max = 1
    measures = (
        Measure("CPU µs per request", "pages.cpu_us"),
        Measure("  requests per second", "pages.per_second", 1, 0),
        Measure("  p99 µs", "pages.p99_us", 1, 0),
    )
    sizes = {"peak_bytes": "peak memory MiB", "growth_bytes": "  growth MiB", "kept_bytes": "  of it counted by the cache MiB"}
    goals = (
        Goal("what is kept", "kept_bytes", CACHE_BYTES_MAX, is_ratio=False, unit=MIB, unit_name="MiB"),
        Goal("growth of memory", "growth_bytes", 1.25 * CACHE_BYTES_MAX, is_ratio=False, unit=MIB, unit_name="MiB"),
    )

    def try_once(self, peer):
        self.load.run("calls", peer, 1, "--requests", 1)

    def run(self, peers, say):
        result = super().run(peers, say)
        result["sizes"]["kept_bytes"] = {name: self.kept_bytes(peer) for name, peer in peers.items()}
        for name in self.keepers(peers):
            asked = self.stage.lists_asked(name)
            self.told.append(f"{name} asked the upstream {asked:,} times, for {self.pages:,} pages and one to begin with")
        return result

    @property
    def pages(self) -> int:
        return PAGES_QUICK if self.options.quick else PAGES

    def one_round(self, peer):
        return flat(pages=self.measured(peer, "calls", self.options.connections, "--requests", self.pages))

    def kept_bytes(self, peer: Peer) -> int:
        """How much a peer says that it keeps: all pages are of one size but for the digits of their cursors."""
        if not peer.admin:
            return 0
        url = f"http://{peer.admin}/cache"
        with urllib.request.urlopen(url) as answer:
            one = json.load(answer)["entries"][0]["bytes"]
        with urllib.request.urlopen(urllib.request.Request(url, method="DELETE")) as answer:
            return one * json.load(answer)["purged"]


class Events(Persistent):
    """Streams of events: as fast as they are taken, and at a rate at which each comes alone.

    Of the first no latencies are told: they are those of the events that wait in the sockets' buffers.
    """

    sizes = {"peak_bytes": "peak memory MiB"}
    measures = stretches("event", f"paced at {EVENT_STREAMS * EVENTS_PER_SECOND}/s")

    def try_once(self, peer: Peer):
        self._stretch(peer, 0.2, 100, streams=1)

    def one_round(self, peer):
        seconds = self.options.seconds
        return flat(saturated=self._stretch(peer, seconds, 0), paced=self._stretch(peer, seconds, EVENTS_PER_SECOND))

    def _stretch(self, peer: Peer, seconds: float, rate: int, streams: int = EVENT_STREAMS) -> dict:
        body = self.load.row.body.replace("MILLISECONDS", str(int(seconds * 1000))).replace("RATE", str(rate))
        return self.measured(peer, "events", streams, body=body)


class Uploads(Persistent):
    """Large bodies, one at a time."""

    measures = (
        Measure("MiB per second", "upload.per_second", 100, 0),
        Measure("CPU ms per upload", "upload.cpu_us", 1e-3),
        Measure("  of it in the kernel, %", "upload.kernel_share", 100, 0, has_ratio=False),
    )
    sizes = {"peak_bytes": "peak memory MiB", "growth_bytes": "  growth by uploads MiB"}
    goals = (
        Goal("throughput", "upload.per_second", 0.8, is_least=True),
        Goal("growth of memory", "growth_bytes", 2 * MIB, is_ratio=False, unit=MIB, unit_name="MiB"),
    )

    def probe(self, peer: Peer):
        """A small upload first, so that what any first request costs is not taken for growth."""
        row = self.load.row
        small = replace(row, fill_bytes=SMALL_UPLOAD_BYTES, answer=upload_answer(SMALL_UPLOAD_BYTES))
        Load(self.load.program, small, self.stage).run("upload", peer, 1, "--requests", 1)
        super().probe(peer)

    def try_once(self, peer: Peer):
        self.load.run("upload", peer, 1, "--requests", 1)

    def one_round(self, peer):
        return flat(upload=self.measured(peer, "upload", 1, "--seconds", self.options.seconds))


class Streams:
    """Thousands of silent streams; in each round on a new process, which has no memory left over."""

    rounds_max = STREAM_ROUNDS_MAX
    measures = (
        Measure("RSS KiB per stream", "rss_bytes", 1 / 1024),
        Measure("PSS KiB per stream", "pss_bytes", 1 / 1024),
        Measure("CPU µs to open one", "cpu_us"),
    )
    sizes: dict[str, str] = {}
    goals = (Goal("memory of an idle stream", "rss_bytes", 32 * 1024, is_ratio=False, unit=1024, unit_name="KiB"),)

    def __init__(self, stage: Stage, load: Load, options):
        self.stage = stage
        self.load = load
        self.options = options

    def probe(self, peer: Peer):
        with self.load.hold(peer, 1):
            pass

    def run(self, peers: dict[str, Peer], say) -> dict:
        for peer in peers.values():
            peer.stop()
        count = min(self.options.rounds, self.rounds_max)
        return {"rounds": interleave(list(peers), count, self._one_round, say), "sizes": {}}

    def _one_round(self, number: int, name: str) -> dict:
        peer = self.stage.start(name, f"{name}-{number}")
        self.probe(peer)
        before, cpu_before = peer.pages_bytes(), peer.cpu_seconds()[0]
        with self.load.hold(peer, STREAMS):
            time.sleep(SETTLE_SECONDS)
            after, cpu_after = peer.pages_bytes(), peer.cpu_seconds()[0]
        peer.stop()
        return {
            "rss_bytes": (after["Rss"] - before["Rss"]) / STREAMS,
            "pss_bytes": (after["Pss"] - before["Pss"]) / STREAMS,
            "cpu_us": (cpu_after - cpu_before) / STREAMS * 1e6,
        }


KINDS = {"calls": Calls, "lists": Lists, "pages": Pages, "upload": Uploads, "events": Events, "streams": Streams}
