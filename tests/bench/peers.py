"""The programs that are compared: how each is configured, started, watched and ended."""

import os
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

START_SECONDS_MAX = 60  # under valgrind a start takes many times as long as alone
STOP_SECONDS_MAX = 20
STOP_TRIES_MAX = 5
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """The comparison cannot go on; the message says why, for a person."""


UPSTREAM_CONF = """
server {{
    listen 127.0.0.1:{port};
    location / {{ default_type application/json; return 200 '{answer}'; }}
}}
"""

# Small bodies are read whole before they are sent on (the default of proxy_request_buffering), as
# they are by anything that validates them. The log has what an operator would want of each call.
PROXY_CONF = """
log_format json escape=json '{{"time":"$time_iso8601","client":"$remote_addr","method":"$request_method",'
    '"path":"$uri","status":$status,"mcp_method":"$http_mcp_method","mcp_name":"$http_mcp_name",'
    '"request_bytes":$request_length,"response_bytes":$bytes_sent,"seconds":$request_time,'
    '"upstream":"$upstream_addr","upstream_status":"$upstream_status","upstream_seconds":"$upstream_response_time"}}';
upstream bench {{
    server {upstream};
    keepalive 256;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
}}
server {{
    listen 127.0.0.1:{port};
    access_log {log} json;
    location / {{
        proxy_pass http://bench;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_buffering off;
    }}
}}
"""

# The keep-alive limits are high so that no connection is opened anew while we measure.
NGINX_CONF = """
{user}
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {directory}/client_body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    tcp_nodelay on;
    {server}
}}
"""

POLICY = """
listen: { address: 127.0.0.1:0 }
status: { address: 127.0.0.1:0 }
log: { access: json }
upstreams:
  bench: { url: http://UPSTREAM/mcp }
routes:
  - name: bench
    path: /mcp
    upstream: bench
    protocol: { versions: ["2026-07-28", "2025-11-25", "2025-06-18"] }
"""


@dataclass
class Peer:
    """A running program that listens at `address` and writes its access log to `log`."""

    name: str
    process: subprocess.Popen
    directory: Path
    log: Path
    address: str = ""

    @property
    def stderr(self) -> Path:
        return self.directory / "stderr"

    def processes(self) -> list[int]:
        """The process and its children; the last one is the one that serves."""
        pid = self.process.pid
        return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def cpu_seconds(self) -> tuple[float, float]:
        """CPU time of all threads so far, and the kernel's part of it, counted in coarser ticks."""
        total = kernel = 0.0
        for pid in self.processes():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks_user, ticks_kernel = int(fields[11]), int(fields[12])
            kernel += ticks_kernel / TICKS_PER_SECOND
            exact = sum(
                int((task / "schedstat").read_text().split()[0])
                for task in Path(f"/proc/{pid}/task").iterdir()
                if (task / "schedstat").exists()
            )
            total += exact / 1e9 or (ticks_user + ticks_kernel) / TICKS_PER_SECOND
        return total, kernel

    def memory_bytes(self, key: str) -> int:
        """`VmRSS` (now) or `VmHWM` (the most so far) of the process that serves."""
        status = Path(f"/proc/{self.processes()[-1]}/status").read_text()
        return int(re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024

    def take_log_lines(self) -> int:
        """How many lines the log has had since the last time; it is emptied, so that no disk fills."""
        with open(self.log, "rb+") as log:
            lines = sum(piece.count(b"\n") for piece in iter(lambda: log.read(1 << 20), b""))
            log.truncate(0)
        return lines

    def stop(self):
        """Ends the process that we started, politely first."""
        for _ in range(STOP_TRIES_MAX):
            if self.process.poll() is not None:
                return
            # Said again, because nginx may sleep through a signal that comes just before it begins to wait.
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS_MAX / STOP_TRIES_MAX)
            except subprocess.TimeoutExpired:
                continue
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """The end of what the program said, for a message about its failure."""
        files = [self.stderr, self.directory / "error.log"]
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in files if file.exists()).strip()


class Stage:
    """Starts peers, each in a directory of its own and on its CPU, and ends them all."""

    def __init__(self, directory: Path, commands: dict, cpu_proxy: int, cpu_rest: int):
        self.directory = directory
        self.commands = commands
        self.cpu_proxy = cpu_proxy
        self.cpu_rest = cpu_rest
        self.upstream: Peer | None = None
        self.peers: list[Peer] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in reversed(self.peers):
            peer.stop()

    def start_upstream(self, answer: str):
        """Starts the nginx that answers every request at once with `answer`."""
        port = free_port()
        conf = UPSTREAM_CONF.format(port=port, answer=answer)
        self.upstream = self._nginx("upstream", self.cpu_rest, port, conf)

    def start(self, base: str, name: str, wrapper: list[str] = ()) -> Peer:
        """Starts the proxy `base`, behind `wrapper` (valgrind, strace) if there is one, and calls it `name`."""
        if self.commands[base]:
            return self._program(name, self.commands[base], wrapper)
        port = free_port()
        conf = PROXY_CONF.format(port=port, upstream=self.upstream.address, log=self.directory / name / "access.log")
        return self._nginx(name, self.cpu_proxy, port, conf, wrapper)

    def _program(self, name: str, command: list[str], wrapper: list[str]) -> Peer:
        """weirgate, or a stand-in with the same interface: `{policy}` in its command becomes the policy file and
        `{upstream}` the upstream's host:port; it logs to standard error, and says first where it listens."""
        directory = self._directory(name)
        policy = directory / "policy.yaml"
        policy.write_text(POLICY.replace("UPSTREAM", self.upstream.address))
        words = [word.replace("{policy}", str(policy)).replace("{upstream}", self.upstream.address) for word in command]
        peer = self._start(name, self.cpu_proxy, [*wrapper, *words], directory, directory / "stderr")
        peer.address = wait_for(peer, lambda: said_address(peer.stderr))
        return peer

    def _nginx(self, name: str, cpu: int, port: int, server: str, wrapper: list[str] = ()) -> Peer:
        directory = self._directory(name)
        conf = directory / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        conf.write_text(NGINX_CONF.format(directory=directory, user=user, server=server))
        # One process is simpler to watch for a tool; the work per request is the same.
        mode = "daemon off; master_process off;" if wrapper else "daemon off;"
        command = [*wrapper, "nginx", "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(conf), "-g", mode]
        peer = self._start(name, cpu, command, directory, directory / "access.log")
        peer.address = wait_for(peer, lambda: answers(port) and f"127.0.0.1:{port}")
        return peer

    def _directory(self, name: str) -> Path:
        directory = self.directory / name
        directory.mkdir()
        return directory

    def _start(self, name: str, cpu: int, command: list[str], directory: Path, log: Path) -> Peer:
        # Opened for appending, because it is emptied now and then while the program writes to it.
        with open(directory / "stderr", "ab") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
            )
        peer = Peer(name, process, directory, log)
        self.peers.append(peer)
        return peer


def wait_for(peer: Peer, ready):
    """What `ready` gives once it gives something; fails when the peer ends first or takes too long."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if peer.process.poll() is not None:
            raise Failed(f"{peer.name} ended (exit code {peer.process.returncode}) before it listened:\n{peer.last_words()}")
        found = ready()
        if found:
            return found
        time.sleep(0.02)
    raise Failed(f"{peer.name} did not listen within {START_SECONDS_MAX} s:\n{peer.last_words()}")


def said_address(stderr: Path) -> str | None:
    """The first address in the line by which the program says that it is ready."""
    found = re.search(r"listening on http://([\d.]+:\d+)", stderr.read_text(errors="replace"))
    return found and found[1]


def answers(port: int) -> bool:
    """Whether somebody accepts connections on this port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port that was free a moment ago; nginx cannot say which one it would have chosen."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
