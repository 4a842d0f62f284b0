"""The programs that are compared: how each is started, watched and ended."""

import os
import re
import resource
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from configurations import Place, haproxy, nginx, nginx_proxy, nginx_upstream, policy
from rows import Row

START_SECONDS_MAX = 60  # under valgrind a start takes many times as long as alone
STOP_SECONDS_MAX = 20
STOP_TRIES_MAX = 5
EXIT_USAGE = 64
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Failed(Exception):
    """The comparison cannot go on; the message says why, for a person."""


class Missing(Exception):
    """A peer cannot do what the row needs; the message says why, in its own words."""


@dataclass
class Peer:
    """A running program that listens at `address` and writes its access log to `log`."""

    name: str
    process: subprocess.Popen
    directory: Path
    log: Path
    address: str = ""
    # That of its listener for administrators, if it has one.
    admin: str = ""

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

    def pages_bytes(self) -> dict[str, int]:
        """`Rss` and `Pss` of all its processes: what they have in memory, shared pages counted whole or in part."""
        total = {"Rss": 0, "Pss": 0}
        for pid in self.processes():
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            for key in total:
                total[key] += int(re.search(rf"^{key}:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024
        return total

    def forget_peak(self):
        """Lets `VmHWM` begin again from what is in memory now."""
        Path(f"/proc/{self.processes()[-1]}/clear_refs").write_text("5")

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

    def __init__(self, directory: Path, row: Row, commands: dict, load_program: Path, cpu_proxy: int, cpu_rest: int):
        self.directory = directory
        self.row = row
        self.commands = commands
        self.load_program = load_program
        self.cpu_proxy = cpu_proxy
        self.cpu_rest = cpu_rest
        self.upstream: Peer | None = None
        self.peers: list[Peer] = []
        self.certificate, self.key = directory / "certificate.pem", directory / "key.pem"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in reversed(self.peers):
            peer.stop()

    def prepare(self):
        """Makes the certificate that all peers show, and starts the upstream that fits the row."""
        if self.row.tls:
            make_certificate(self.certificate, self.key)
        if self.row.kind in ("calls", "lists", "pages"):
            port = free_port()
            self.upstream = self._nginx("upstream", self.cpu_rest, port, nginx_upstream(self.directory, port))
            return
        directory = self._directory("upstream")
        command = [str(self.load_program), "serve"]
        self.upstream = self._start("upstream", self.cpu_rest, command, directory, directory / "stderr")
        self.upstream.address = wait_for(self.upstream, lambda: said_address(self.upstream.stderr))

    def lists_asked(self, name: str) -> int:
        """How often the proxy `name` has asked the upstream for a list, if it is one that keeps lists."""
        log = self.directory / "lists.log"
        return log.read_text().splitlines().count(f"/{name}") if log.exists() else 0

    def start(self, base: str, name: str, wrapper: list[str] = ()) -> Peer:
        """Starts the proxy `base`, behind `wrapper` (valgrind, strace) if there is one, and calls it `name`."""
        directory = self.directory / name
        place = Place(directory, free_port(), self.upstream.address, self.certificate, self.key)
        if base == "nginx":
            server = nginx_proxy(place, self.row, directory / "access.log")
            return self._nginx(name, self.cpu_proxy, place.port, server, wrapper)
        if base == "haproxy":
            return self._haproxy(name, place, wrapper)
        return self._program(name, self.commands[base], place, wrapper)

    def _program(self, name: str, command: list[str], place: Place, wrapper: list[str]) -> Peer:
        """weirgate, or a stand-in with the same interface: `{policy}` in its command becomes the policy file and
        `{upstream}` the upstream's host:port; it logs to standard error, and says first where it listens."""
        directory = self._directory(name)
        file = directory / "policy.yaml"
        file.write_text(policy(place, self.row))
        words = [word.replace("{policy}", str(file)).replace("{upstream}", place.upstream) for word in command]
        peer = self._start(name, self.cpu_proxy, [*wrapper, *words], directory, directory / "stderr")
        try:
            peer.address = wait_for(peer, lambda: said_address(peer.stderr))
        except Failed as failure:
            if peer.process.poll() != EXIT_USAGE:
                raise
            raise Missing(f"it refuses the policy of this row: {peer.last_words()}") from failure
        admin = re.search(r"admin on http://([\d.]+:\d+)", peer.stderr.read_text(errors="replace"))
        peer.admin = admin[1] if admin else ""
        return peer

    def _nginx(self, name: str, cpu: int, port: int, server: str, wrapper: list[str] = ()) -> Peer:
        directory = self._directory(name)
        conf = directory / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""
        conf.write_text(nginx(directory, user, server, self.row))
        # One process is simpler to watch for a tool; the work per request is the same.
        mode = "daemon off; master_process off;" if wrapper else "daemon off;"
        command = [*wrapper, "nginx", "-p", str(directory), "-e", str(directory / "error.log"), "-c", str(conf), "-g", mode]
        peer = self._start(name, cpu, command, directory, directory / "access.log")
        peer.address = wait_for(peer, lambda: answers(port) and f"127.0.0.1:{port}")
        return peer

    def _haproxy(self, name: str, place: Place, wrapper: list[str]) -> Peer:
        directory = self._directory(name)
        conf = directory / "haproxy.cfg"
        conf.write_text(haproxy(place, self.row))
        command = [*wrapper, "haproxy", "-db", "-f", str(conf)]
        peer = self._start(name, self.cpu_proxy, command, directory, directory / "stderr")
        peer.address = wait_for(peer, lambda: answers(place.port) and f"127.0.0.1:{place.port}")
        return peer

    def _directory(self, name: str) -> Path:
        directory = self.directory / name
        directory.mkdir()
        return directory

    def _start(self, name: str, cpu: int, command: list[str], directory: Path, log: Path) -> Peer:
        def prepare():
            os.sched_setaffinity(0, {cpu})
            files_most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (files_most, files_most))

        # Opened for appending, because it is emptied now and then while the program writes to it.
        with open(directory / "stderr", "ab") as stderr:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, preexec_fn=prepare)
        peer = Peer(name, process, directory, log)
        self.peers.append(peer)
        return peer


def make_certificate(certificate: Path, key: Path):
    """A certificate for `localhost` that signs itself."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    done = subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"openssl made no certificate: {done.stderr.strip()}")


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
    found = re.search(r"listening on https?://([\d.]+:\d+)", stderr.read_text(errors="replace"))
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
