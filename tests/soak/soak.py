"""Mixed load with cancellations and faults on both sides, and then a look at what is left of it.

Clients that behave must always get the right answer, whatever the others do meanwhile; no call may run
twice; and after each round, when nobody wants anything any more, no connection, request or memory may
be left in the gateway. The last line is "N passed, N failed".
"""

import argparse
import asyncio
import contextlib
import random
import resource
import ssl
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import clients
from clients import Scene
from gateway import REQUESTS_MAX, Gateway, Leads, policy
from http1 import Target
from messages import RIGHT, Ledger
from upstream import Upstream

ROUND_SECONDS = 12.0
# How long everything may take to come to rest; a client that has gone is noticed within a second.
QUIET_SECONDS_MAX = 20.0
MIB = 1024 * 1024
# The least that is in memory after a round of the second half, over the least after one of the first.
GROWTH_BYTES_MAX = 2 * MIB
# And at no time more than this, however much a client leaves unread.
PEAK_BYTES_MAX = 128 * MIB
SEEDED = ("answer", "twice", "socket", "memory", "request", "room")


@dataclass
class Report:
    """What was looked at, and what was not."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)

    def look(self, name: str, is_well: bool, detail: str):
        self.passed += is_well
        print(f"{'ok    ' if is_well else 'FAILED'} {name}: {detail}")
        if not is_well:
            self.failed.append(name)


@dataclass
class Under:
    """A gateway under test, and what is known of it."""

    name: str
    gateway: Gateway
    target: Target
    scene: Scene
    files_before: dict
    memory: list[int] = field(default_factory=list)
    left_open: list[str] = field(default_factory=list)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, required=True, help="the gateway's program")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long all rounds take together (default 2)")
    parser.add_argument("--round-seconds", type=float, default=ROUND_SECONDS, help="how long a round of load takes")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="to repeat the choices of another run")
    parser.add_argument("--seed-fault", choices=SEEDED, help="plant a fault, which the checks must find")
    parser.add_argument("--self-check", action="store_true", help="plant each fault in a short run of its own, and see it found")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    files_most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_most, files_most))
    if options.self_check:
        return self_check(options)
    with tempfile.TemporaryDirectory(prefix="weirgate-soak-") as directory:
        report = asyncio.run(soak(options, Path(directory)))
    print(f"{report.passed} passed, {len(report.failed)} failed")
    return 1 if report.failed else 0


def self_check(options) -> int:
    """Plants each fault; the run must fail, and at the check that is for this fault."""
    found_by = {
        "answer": "answers",
        "twice": "calls that ran twice",
        "socket": "connections left",
        "memory": "memory",
        "request": "requests left",
        "room": "room for requests",
    }
    passed = 0
    for fault in SEEDED:
        command = [sys.executable, __file__, "--binary", str(options.binary), "--minutes", "0.1", "--round-seconds", "2"]
        done = subprocess.run([*command, "--seed-fault", fault], capture_output=True, text=True, check=False)
        failures = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
        is_found = done.returncode == 1 and any(found_by[fault] in line for line in failures)
        passed += is_found
        print(f"{'ok    ' if is_found else 'FAILED'} planted fault {fault!r}: {'; '.join(failures) or done.stdout + done.stderr}")
    print(f"{passed} passed, {len(SEEDED) - passed} failed")
    return 0 if passed == len(SEEDED) else 1


async def soak(options, directory: Path) -> Report:
    print(f"seed {options.seed}")
    ledger, report = Ledger(), Report()
    upstreams = {name: Upstream(ledger, options.seed_fault) for name in ("good", "faulty", "good2", "faulty2")}
    leads = [Leads(name, await one.start(name.endswith("2")), name.endswith("2")) for name, one in upstreams.items()]
    async with contextlib.AsyncExitStack() as stack:
        all_under = await start(options, directory, leads, ledger, stack)
        rounds = max(round(options.minutes * 60 / options.round_seconds), 3)
        for number in range(rounds):
            await asyncio.gather(*(load(under.scene, options.round_seconds) for under in all_under))
            for under in all_under:
                await rest(under, upstreams, options, number)
            print(f"round {number + 1} of {rounds}: {told(all_under, ledger)}", flush=True)
        judge_calls(report, ledger)
        for under in all_under:
            judge_rest(report, under)
            await judge_room(report, under, upstreams, options)
        for under in all_under:
            code = await under.gateway.stop()
            report.look(f"{under.name}: end", code == 0 and "panicked" not in under.gateway.words(), f"exit code {code}")
    return report


async def start(options, directory: Path, leads: list[Leads], ledger: Ledger, stack) -> list[Under]:
    """The gateways: one in cleartext, one with TLS; each leads to every upstream."""
    tls = make_certificate(directory)
    all_under = []
    for name, certificate in (("cleartext", None), ("tls", tls)):
        place = directory / name
        place.mkdir()
        gateway = Gateway(options.binary, place, policy(place, leads, certificate))
        stack.push_async_callback(gateway.stop)
        await gateway.listening()
        # Before anybody connects, so that nothing of theirs is taken for the gateway's own.
        files_before = gateway.files()
        paths = [f"/{one.name}" for one in leads if one.name.startswith("good")]
        faulty = [(f"/{one.name}", one.http2) for one in leads if one.name.startswith("faulty")]
        target = Target(gateway.port, client_tls(tls[0]) if certificate else None)
        scene = Scene(ledger, random.Random(f"{options.seed} {name}"), target, paths, faulty)
        all_under.append(Under(name, gateway, target, scene, files_before))
    return all_under


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for `localhost` that signs itself, and its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], capture_output=True, check=True)
    return certificate, key


def client_tls(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


async def load(scene: Scene, seconds: float):
    """All clients at once, for so long."""
    scene.has_ended = False
    tasks = [asyncio.create_task(scene.repeat(client)) for client in (*clients.GOOD, *clients.BAD)]
    await asyncio.sleep(seconds)
    scene.has_ended = True
    await asyncio.gather(*tasks)


async def rest(under: Under, upstreams: dict[str, Upstream], options, number: int):
    """Waits until nothing is left, and keeps what is; then looks at the memory."""
    planted = await under.target.connect() if options.seed_fault == "socket" else None
    if planted:
        await planted.call("/good", under.scene.call("echo", 1))
    if options.seed_fault == "request":
        upstreams["good"].open_calls.add("planted")
    # A planted fault need not be waited for as long.
    seconds = 2.0 if options.seed_fault else QUIET_SECONDS_MAX
    for _ in range(int(seconds * 20)):
        open_calls = [call for one in upstreams.values() for call in one.open_calls]
        if not open_calls:
            # What the gateway keeps for later is no leak, but it cannot be told from one.
            for one in upstreams.values():
                one.close_connections()
        more = under.gateway.files() - under.files_before
        if not open_calls and not more:
            break
        await asyncio.sleep(0.05)
    if open_calls:
        under.left_open.append(f"round {number + 1}: requests {open_calls[:5]}")
    if more:
        under.left_open.append(f"round {number + 1}: files {dict(more)}")
    planted_bytes = number * 16 * MIB if options.seed_fault == "memory" else 0
    under.memory.append(under.gateway.memory_bytes() + planted_bytes)
    if planted:
        planted.reset()


def told(all_under: list[Under], ledger: Ledger) -> str:
    memory = ", ".join(f"{one.name} {one.memory[-1] / MIB:.1f} MiB" for one in all_under)
    return f"{ledger.marks} calls so far, {len(ledger.faults)} faults; {memory}"


def judge_calls(report: Report, ledger: Ledger):
    by_client = {}
    for (who, outcome), count in sorted(ledger.outcomes.items()):
        by_client.setdefault(who, []).append(f"{count} {outcome}")
    for who, outcomes in by_client.items():
        print(f"       {who}: {', '.join(outcomes)}")
    detail = f"{len(ledger.right)} right, {len(ledger.faults)} that must not be" + "".join(f"\n       {fault}" for fault in ledger.faults[:10])
    report.look("answers", bool(ledger.right) and not ledger.faults, detail)
    twice = ledger.twice()
    report.look("calls that ran twice", not twice, f"{len(twice)} of {len(ledger.runs)} {twice[:5]}")
    odd = ledger.not_once()
    report.look("right answers of calls that ran once", not odd, f"all but {len(odd)} of {len(ledger.right)} {odd[:5]}")
    ran = sorted(ledger.never & set(ledger.runs))
    report.look("calls that ran without being whole", not ran, f"{len(ran)} of {len(ledger.never)} {ran[:5]}")


def judge_rest(report: Report, under: Under):
    requests = [left for left in under.left_open if "requests" in left]
    files = [left for left in under.left_open if "files" in left]
    report.look(f"{under.name}: requests left", not requests, "; ".join(requests) or "none after any round")
    report.look(f"{under.name}: connections left", not files, "; ".join(files) or "none after any round")
    half = len(under.memory) // 2
    growth = min(under.memory[half:]) - min(under.memory[:half])
    shown = " ".join(f"{memory / MIB:.1f}" for memory in under.memory)
    report.look(f"{under.name}: memory", growth <= GROWTH_BYTES_MAX, f"MiB after each round: {shown}")
    peak = under.gateway.memory_bytes("VmHWM")
    report.look(f"{under.name}: most memory", peak <= PEAK_BYTES_MAX, f"{peak / MIB:.1f} MiB, at most {PEAK_BYTES_MAX // MIB}")


async def judge_room(report: Report, under: Under, upstreams: dict[str, Upstream], options):
    """The gateway must still take as many requests at once as its policy says, and no more."""
    upstream = upstreams["good"]
    upstream.gate.clear()
    wanted = REQUESTS_MAX - (options.seed_fault == "room")
    waiting = [asyncio.create_task(call_once(under, "wait_at_gate")) for _ in range(wanted)]
    for _ in range(200):
        if upstream.waiting == wanted:
            break
        await asyncio.sleep(0.05)
    reached = upstream.waiting
    one_more = await call_once(under, "echo")
    upstream.gate.set()
    outcomes = await asyncio.gather(*waiting)
    right = outcomes.count(RIGHT)
    is_well = reached == right == REQUESTS_MAX and one_more == "refused"
    detail = f"{reached} of {REQUESTS_MAX} requests at once reached the upstream, {right} were answered; one more was {one_more}"
    report.look(f"{under.name}: room for requests", is_well, detail)


async def call_once(under: Under, tool: str) -> str:
    client = await under.target.connect()
    outcome = await client.call("/good", under.scene.call(tool, 1))
    await client.close()
    return outcome


if __name__ == "__main__":
    sys.exit(main())
