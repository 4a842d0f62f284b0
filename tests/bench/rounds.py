"""Rounds of load, interleaved between the peers, and what each of them cost."""

import json
import os
import socket
import statistics
import subprocess
import time
from pathlib import Path

from cases import Case
from peers import TICKS_PER_SECOND, Failed, Peer, Stage

WARM_UP_SECONDS = 1.0
# At half of what the slowest peer can do, queues stay short, and p99 tells of the proxy itself.
RATE_SHARE = 0.5


class Load:
    """The load generator with one case's request, on its CPU."""

    def __init__(self, program: Path, case: Case, stage: Stage):
        self.program = program
        self.case = case
        self.directory = stage.directory
        self.cpu = stage.cpu_rest
        self.upstream = stage.upstream
        self.expected = self.directory / f"{case.name}.answer"
        self.expected.write_text(case.answer)

    def run(self, peer: Peer, connections: int, *limits: str) -> dict:
        """Loads `peer` and gives the counts and latencies; any wrong answer fails the whole comparison."""
        request = self.directory / f"{peer.name}.{self.case.name}.request"
        request.write_bytes(self.case.request(peer.address))
        command = [self.program, "--address", peer.address, "--request", request, "--expect", self.expected]
        done = subprocess.run(
            [*map(str, command), "--connections", str(connections), *limits],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, {self.cpu}),
        )
        if done.returncode != 0:
            raise Failed(f"the load generator failed: {done.stderr.strip()}")
        result = json.loads(done.stdout)
        if result["wrong"] or not result["requests"]:
            raise Failed(
                f"{peer.name}: {result['wrong']} wrong answers beside {result['requests']} right ones; the first:\n"
                f"{result['first_wrong']}\nIts log ends:\n{peer.last_words()}"
            )
        return result


def check_once(peer: Peer, case: Case):
    """Sends the case's request once and fails, with the answer, unless it is the expected one."""
    host, port = peer.address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(case.request(peer.address))
        answer = b""
        while not answer.endswith(case.answer.encode()):
            piece = connection.recv(65536)
            answer += piece
            if not piece or (b"\r\n\r\n" in answer and not answer.startswith(b"HTTP/1.1 200 ")):
                break
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 ") or body != case.answer.encode():
        raise Failed(f"{peer.name} gave a wrong answer:\n{answer.decode(errors='replace')}\n{peer.last_words()}")


def measure(load: Load, peer: Peer, connections: int, *limits: str) -> dict:
    """One stretch of load on one peer, what it cost the peer, and what others did meanwhile."""
    begun, before = time.monotonic(), clocks(load, peer)
    result = load.run(peer, connections, *limits)
    elapsed = time.monotonic() - begun
    cpu, kernel, ours, machine = (now - then for now, then in zip(clocks(load, peer), before))
    return {
        "requests": result["requests"],
        "cpu_us": cpu / result["requests"] * 1e6,
        "kernel_share": min(kernel / cpu, 1.0),
        "busy_share": cpu / elapsed,
        "foreign_share": max(machine - ours, 0.0) / elapsed / os.cpu_count(),
        # What a batching writer writes later counts for the next stretch.
        "log_lines": peer.take_log_lines(),
        "per_second": result["requests"] / result["seconds"],
        "p50_us": result["p50_us"],
        "p99_us": result["p99_us"],
    }


def clocks(load: Load, peer: Peer) -> tuple[float, float, float, float]:
    """CPU seconds so far: of the peer, of the kernel for the peer, of all that we started, of everybody."""
    cpu, kernel = peer.cpu_seconds()
    ours = cpu + load.upstream.cpu_seconds()[0] + sum(os.times()[:4])
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(int, stat.readline().split()[1:])
    return cpu, kernel, ours, (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def run_rounds(load: Load, peers: list[Peer], options, say) -> tuple[int, list[dict]]:
    """Warms up, settles the fixed rate, then measures each peer once a round, in turns.

    Gives the rate (requests per second) and, for each round, `{peer: {"saturated": …, "paced": …}}`.
    """
    warm = []
    for peer in peers:
        say(f"warming up {peer.name}")
        limits = ("--seconds", str(min(WARM_UP_SECONDS, options.seconds)))
        warm.append(measure(load, peer, options.connections, *limits)["per_second"])
    rate = options.rate or round(min(warm) * RATE_SHARE, -2)
    rounds = []
    for number in range(options.rounds):
        results = {}
        so_far = ", ".join(f"{peer.name} {median_cpu(rounds, peer.name):.1f} µs" for peer in peers) if rounds else ""
        say(f"round {number + 1} of {options.rounds}" + (f", CPU per request so far: {so_far}" if so_far else ""))
        # Who comes first changes with each round, so that no peer always follows the same one.
        turn = number % len(peers)
        for peer in peers[turn:] + peers[:turn]:
            seconds = ("--seconds", str(options.seconds))
            results[peer.name] = {
                "saturated": measure(load, peer, options.connections, *seconds),
                "paced": measure(load, peer, options.connections, *seconds, "--rate", str(rate)),
            }
        rounds.append(results)
    return int(rate), rounds


def median_cpu(rounds: list[dict], name: str) -> float:
    """The median so far of what a request costs this peer, in microseconds."""
    return statistics.median(one[name]["saturated"]["cpu_us"] for one in rounds)
