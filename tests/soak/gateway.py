"""The gateway as a process: its policy, its memory, its open files, its end."""

import asyncio
import os
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 30

# All requests in flight that it may take at once; the load stays well below, so that nobody who
# behaves is refused for want of room.
REQUESTS_MAX = 128
# Sessions of older clients are remembered for an hour: few enough, that this is not taken for a leak.
SESSIONS_MAX = 64

POLICY = """
listen: {{ address: 127.0.0.1:0, requests_max: {requests}{listen} }}
status: {{ address: 127.0.0.1:0 }}
admin: {{ address: 127.0.0.1:0 }}
log: {{ access: json, file: {log} }}
defaults:
  protocol: {{ versions: ["2026-07-28", "2025-11-25"] }}
  bounds: {{ sessions_max: {sessions} }}
  # So that what is learned is asked for again and again.
  catalog: {{ max_age: 1s }}
upstreams:
{upstreams}
routes:
{routes}
"""


@dataclass(frozen=True)
class Leads:
    """A route on /NAME and the upstream behind it."""

    name: str
    port: int
    http2: bool = False


def policy(directory: Path, leads: list[Leads], tls: tuple[Path, Path] | None) -> str:
    """A policy with a route to each upstream."""
    listen = f", tls: {{ cert: {tls[0]}, key: {tls[1]} }}" if tls else ""
    http = {False: "", True: ', http: "2"'}
    upstreams = [f"  {one.name}: {{ url: http://127.0.0.1:{one.port}/mcp{http[one.http2]} }}" for one in leads]
    routes = [f"  - {{ name: {one.name}, path: /{one.name}, upstream: {one.name} }}" for one in leads]
    return POLICY.format(
        requests=REQUESTS_MAX,
        listen=listen,
        log=directory / "access.log",
        sessions=SESSIONS_MAX,
        upstreams="\n".join(upstreams),
        routes="\n".join(routes),
    )


class Gateway:
    """One running gateway."""

    def __init__(self, binary: Path, directory: Path, policy: str):
        self.log = directory / "stderr"
        file = directory / "policy.yaml"
        file.write_text(policy)
        # The allocator gives back at once what is free, so that what stays in memory is in use.
        environment = {**os.environ, "_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
        command = [str(binary), "run", "--policy", str(file)]
        with open(self.log, "wb") as stderr:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
        self.port = 0

    async def listening(self) -> "Gateway":
        """Waits until it says where it listens."""
        for _ in range(START_SECONDS_MAX * 50):
            found = re.search(r"listening on https?://[\d.]+:(\d+)", self.words())
            if found:
                self.port = int(found[1])
                return self
            if self.process.poll() is not None:
                break
            await asyncio.sleep(0.02)
        raise RuntimeError(f"the gateway did not start:\n{self.words()}")

    def words(self) -> str:
        """What it has said apart from the access log."""
        return self.log.read_text(errors="replace")

    def memory_bytes(self, key: str = "VmRSS") -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024

    def files(self) -> Counter:
        """What it has open, by kind: sockets, pipes, paths; without the spares that it keeps for when files run short."""
        kinds = Counter()
        folder = Path(f"/proc/{self.process.pid}/fd")
        for name in os.listdir(folder):
            try:
                kinds[re.sub(r":\[\d+\]$", "", os.readlink(folder / name))] += 1
            except FileNotFoundError:
                continue
        del kinds[os.devnull]
        return kinds

    async def stop(self) -> int | None:
        """Asks it to end, and gives its exit code, or `None` if it had to be killed."""
        if self.process.poll() is None:
            self.process.terminate()
        for _ in range(STOP_SECONDS_MAX * 20):
            if (code := self.process.poll()) is not None:
                return code
            await asyncio.sleep(0.05)
        self.process.kill()
        self.process.wait()
        return None
