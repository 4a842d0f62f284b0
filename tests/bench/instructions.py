"""Instructions and system calls per request: exact where time is noisy.

Each program runs twice under the tool, for few and for many requests over one connection. The
difference of the two runs, divided by the difference of the requests, holds no start-up and no end.
"""

import re
import subprocess
import time
from collections import Counter
from pathlib import Path

from peers import Failed, Peer, Stage
from rounds import Load

REQUESTS_FEW = 500
REQUESTS_MANY = 2500
SUMMARY_SECONDS_MAX = 20


def per_request(stage: Stage, load: Load, base: str, tool: list[str], read) -> Counter:
    """What `read` finds in the tool's output file, per request, by name."""
    counts = []
    for requests in (REQUESTS_FEW, REQUESTS_MANY):
        name = f"{base}-{tool[0]}-{requests}"
        file = stage.directory / f"{name}.out"
        peer = stage.start(base, name, [word.replace("{out}", str(file)) for word in tool])
        load.run("calls", peer, 1, "--requests", requests)
        peer.stop()
        counts.append(read(file, peer))
    few, many = counts
    return Counter({key: (many[key] - few[key]) / (REQUESTS_MANY - REQUESTS_FEW) for key in many})


CALLGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file={out}"]


def read_callgrind(file: Path, peer: Peer) -> Counter:
    """Instructions by `(kind, name)`; kinds are `total`, `owner`, `self` and `inclusive`."""
    if not file.stat().st_size:
        raise Failed(f"valgrind left no counts of {peer.name}, which had to be killed:\n{peer.last_words()}")
    counts = Counter()
    for kind, flag in (("self", "no"), ("inclusive", "yes")):
        command = ["callgrind_annotate", "--threshold=100", "--show=Ir", "--auto=no", f"--inclusive={flag}", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"callgrind_annotate failed: {done.stderr.strip()}\n{peer.last_words()}")
        for line in done.stdout.splitlines():
            found = re.match(r"\s*([\d,]+) (?:\([ \d.]+%\))?\s+(.+)$", line)
            if not found:
                continue
            instructions, where = int(found[1].replace(",", "")), found[2]
            if where.startswith("PROGRAM TOTALS"):
                counts["total", ""] = instructions
                continue
            source, _, function = re.sub(r" \[[^\]]*\]$", "", where).partition(":")
            key = (kind, short_function(function))
            if kind == "self":
                counts[key] += instructions
                counts["owner", owner(source, function)] += instructions
            else:
                # A function is listed once for each file that was inlined into it, each time with all it calls.
                counts[key] = max(counts[key], instructions)
    return counts


def short_function(name: str) -> str:
    """A function without the compiler's hash, its callers' cycle number and its generic arguments' innards."""
    return re.sub(r"(::h[0-9a-f]{16})?('\d+)?( <cycle \d+>)?$", "", name)


def owner(source: str, function: str) -> str:
    """Whose instructions these are: a file of ours, a crate, or a library.

    Code of the standard library that was inlined counts for the crate of the function it landed in.
    """
    crate = re.search(r"/registry/src/[^/]+/([^/]+)-\d[^/]*/", source)
    if crate:
        return crate[1]
    if "jemalloc" in source:
        return "jemalloc"
    if source.startswith("./"):
        return "libc"
    # The tool leaves away the directory that it is called in.
    if "/library/" not in source and "/src/" in f"/{source}":
        return "src/" + f"/{source}".rpartition("/src/")[2]
    crate = re.match(r"[<&]*(?:dyn |mut )?(\w+)::", function)
    return crate[1] if crate else "without source"


STRACE = ["strace", "-D", "-f", "-qq", "-c", "-U", "name,calls", "-o", "{out}"]


def read_strace(file: Path, _peer: Peer) -> Counter:
    """Calls by the name of the system call."""
    deadline = time.monotonic() + SUMMARY_SECONDS_MAX
    # strace runs beside the program and writes its table a moment after the program's end.
    while not (file.exists() and "total" in file.read_text()):
        if time.monotonic() > deadline:
            raise Failed("strace left no table of system calls")
        time.sleep(0.05)
    rows = re.findall(r"^\s*(\w+)\s+(\d+)\s*$", file.read_text(), re.MULTILINE)
    return Counter({name: int(calls) for name, calls in rows if name != "total"})
