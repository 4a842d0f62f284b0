"""Load on one peer, what it costs that peer, and rounds of it, interleaved between the peers."""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from peers import TICKS_PER_SECOND, Failed, Missing, Peer, Stage
from rows import Row


class Load:
    """The load generator with one row's request, on its CPU."""

    def __init__(self, program: Path, row: Row, stage: Stage):
        self.program = program
        self.row = row
        self.stage = stage
        # Named after what differs between two requests of one stage.
        stem = f"load-{row.name}-{row.fill_bytes}"
        self.files = {name: stage.directory / f"{stem}.{name}" for name in ("headers", "body", "expect")}
        self.files["headers"].write_text("\n".join(row.headers))
        self.files["expect"].write_text(row.answer)

    def run(self, command: str, peer: Peer, connections: int, *options: object, body: str | None = None) -> dict:
        """Loads `peer` and gives the counts and latencies.

        Any wrong answer fails the whole comparison; where a peer only refuses what the row needs, it is `Missing`.
        """
        words = self._words(command, peer, connections, *options, body=body)
        done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=self._own_cpu)
        if done.returncode != 0:
            raise Failed(f"the load generator failed: {done.stderr.strip()}")
        return self._judged(json.loads(done.stdout), peer)

    @contextlib.contextmanager
    def hold(self, peer: Peer, streams: int):
        """Keeps `streams` streams open; at the end of it none may have been closed or written to."""
        words = self._words("hold", peer, streams)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=self._own_cpu) as process:
            try:
                self._judged(json.loads(process.stdout.readline() or '{"requests": 0, "refused": 0, "wrong": 1, "first": "it died"}'), peer)
                yield
                process.stdin.close()
                disturbed = json.loads(process.stdout.readline() or '{"disturbed": "all"}')["disturbed"]
                if disturbed:
                    raise Failed(f"{peer.name}: {disturbed} of {streams} streams did not stay open and silent\n{peer.last_words()}")
            finally:
                process.kill()

    def _words(self, command: str, peer: Peer, connections: int, *options: object, body: str | None = None) -> list[str]:
        self.files["body"].write_text(body or self.row.body)
        words = [str(self.program), command, "--address", peer.address, "--connections", str(connections)]
        for name, file in self.files.items():
            words += [f"--{name}", str(file)]
        words += ["--tls", str(self.stage.certificate)] if self.row.tls else []
        words += ["--http2", "yes"] if self.row.http2 else []
        words += ["--fill", str(self.row.fill_bytes)] if self.row.fill_bytes else []
        words += ["--numbered", "yes"] if self.row.numbered else []
        return words + [str(option) for option in options]

    def _own_cpu(self):
        os.sched_setaffinity(0, {self.stage.cpu_rest})

    @staticmethod
    def _judged(result: dict, peer: Peer) -> dict:
        if result["refused"] and not result["wrong"] and not result["requests"]:
            raise Missing(f"it does not do it: {result['first']}")
        if result["refused"] or result["wrong"] or not result["requests"]:
            raise Failed(
                f"{peer.name}: {result['wrong']} wrong answers and {result['refused']} refusals beside {result['requests']} right ones; "
                f"the first:\n{result['first']}\nIts log ends:\n{peer.last_words()}"
            )
        return result


def measure(stage: Stage, peer: Peer, run) -> dict:
    """What one stretch of load, `run`, gave and cost the peer, and what others did meanwhile."""
    begun, before = time.monotonic(), clocks(stage, peer)
    result = run()
    elapsed = time.monotonic() - begun
    cpu, kernel, ours, machine = (now - then for now, then in zip(clocks(stage, peer), before))
    return {
        "requests": result["requests"],
        "cpu_us": cpu / result["requests"] * 1e6,
        "kernel_share": min(kernel / cpu, 1.0) if cpu else 0.0,
        "busy_share": cpu / elapsed,
        "foreign_share": max(machine - ours, 0.0) / elapsed / os.cpu_count(),
        # What a batching writer writes later counts for the next stretch.
        "log_lines": peer.take_log_lines(),
        "per_second": result["requests"] / result["seconds"],
        "p50_us": result["p50_us"],
        "p99_us": result["p99_us"],
    }


def clocks(stage: Stage, peer: Peer) -> tuple[float, float, float, float]:
    """CPU seconds so far: of the peer, of the kernel for the peer, of all that we started, of everybody."""
    cpu, kernel = peer.cpu_seconds()
    ours = cpu + stage.upstream.cpu_seconds()[0] + sum(os.times()[:4])
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _wait, irq, softirq, steal, *_ = map(int, stat.readline().split()[1:])
    return cpu, kernel, ours, (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def interleave(names: list[str], count: int, one_round, say) -> list[dict]:
    """For each of `count` rounds, what `one_round(number, name)` gave for each peer."""
    rounds = []
    for number in range(count):
        say(f"round {number + 1} of {count}")
        # Who comes first changes with each round, so that no peer always follows the same one.
        turn = number % len(names)
        rounds.append({name: one_round(number, name) for name in names[turn:] + names[:turn]})
    return rounds
