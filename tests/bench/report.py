"""What a person sees: progress while it runs, tables afterwards, and which goals were missed."""

import statistics
import sys

MIB = 1024 * 1024

# Goals of the project: the most that weirgate may take, as a multiple of nginx or in bytes.
CPU_RATIO_MAX = 1.3
P99_RATIO_MAX = 1.2
IDLE_BYTES_MAX = 12 * MIB

PROFILE_ROWS = 20
BOLD, RED, GREEN = "1", "31", "32"

# Title, stretch, key, factor to the printed unit, decimals.
MEASURES = (
    ("saturated: CPU µs per request", "saturated", "cpu_us", 1, 1),
    ("  of it in the kernel, %", "saturated", "kernel_share", 100, 0),
    ("  requests per second", "saturated", "per_second", 1, 0),
    ("  p50 µs", "saturated", "p50_us", 1, 0),
    ("  p99 µs", "saturated", "p99_us", 1, 0),
    ("paced: CPU µs per request", "paced", "cpu_us", 1, 1),
    ("  p50 µs", "paced", "p50_us", 1, 0),
    ("  p99 µs", "paced", "p99_us", 1, 0),
)


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line for each step."""

    def __init__(self, stream):
        self.stream = stream

    def say(self, text: str):
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{text}")
        else:
            self.stream.write(f"{text}\n")
        self.stream.flush()

    def end(self):
        if self.stream.isatty():
            self.stream.write("\r\x1b[K")


def spread(values: list[float]) -> dict:
    """The median and the quartiles."""
    if len(values) < 2:
        return {"median": values[0], "low": values[0], "high": values[0]}
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def summarise(result: dict, names: list[str], base: str) -> dict:
    """For each measure: the spread for each peer, and that of its ratio to `base`, round by round."""
    summary = {}
    for _, stretch, key, _, _ in MEASURES:
        rows = {name: [one[name][stretch][key] for one in result["rounds"]] for name in names}
        ratios = {
            name: spread([ours / theirs if theirs else 0.0 for ours, theirs in zip(rows[name], rows[base])])
            for name in names
            if name != base
        }
        summary[f"{stretch}.{key}"] = {"peers": {name: spread(row) for name, row in rows.items()}, "ratios": ratios}
    return summary


def goals(result: dict, base: str) -> list[tuple[bool, str]]:
    """Each goal: whether weirgate meets it in this result, and a sentence that says so."""
    judged = []
    for title, measure, ratio_max in (
        ("CPU per request, saturated", "saturated.cpu_us", CPU_RATIO_MAX),
        ("p99, paced", "paced.p99_us", P99_RATIO_MAX),
    ):
        ratio = result["summary"][measure]["ratios"]["weirgate"]["median"]
        judged.append((ratio <= ratio_max, f"{title}: {ratio:.2f} × {base}, at most {ratio_max} ×"))
    idle = result["idle_bytes"]["weirgate"]
    judged.append((idle < IDLE_BYTES_MAX, f"idle memory: {idle / MIB:.1f} MiB, below {IDLE_BYTES_MAX // MIB} MiB"))
    return judged


def print_table(result: dict, names: list[str], base: str):
    """The measures as rows; each peer's median and quartiles, then each ratio to `base`."""
    others = [name for name in names if name != base]
    rows = [["", *names, *(f"{name} / {base}" for name in others)]]
    for title, stretch, key, factor, decimals in MEASURES:
        summary = result["summary"][f"{stretch}.{key}"]
        row = [title.replace("paced:", f"paced at {result['rate']}/s:")]
        row += [shown(summary["peers"][name], factor, decimals) for name in names]
        # A ratio of shares would look like a gain or a loss, and is neither.
        rows.append(row + ["" if key == "kernel_share" else shown(summary["ratios"][name], 1, 2) for name in others])
    for title, key in (("idle memory MiB", "idle_bytes"), ("peak memory MiB", "peak_bytes")):
        values = result[key]
        rows.append([title] + [f"{values[name] / MIB:.1f}" for name in names] + [f"{values[name] / values[base]:.2f}" for name in others])
    if "instructions" in result:
        values = result["instructions"]
        row = ["instructions per request, user space", *(f"{values[name]:,.0f}" for name in names)]
        rows.append(row + [f"{values[name] / values[base]:.2f}" for name in others])
    print(f"{painted(result['case'], BOLD)}: {result['description']}")
    print_rows(rows)
    for met, goal in goals(result, base):
        print(f"goal {painted('met', GREEN) if met else painted('missed', RED)}: {goal}")
    print_notes(result, names)


def print_notes(result: dict, names: list[str]):
    """How it was measured, and what makes the numbers worth less than they look."""
    stretches = [one[name][stretch] for one in result["rounds"] for name in names for stretch in ("saturated", "paced")]
    cpus = result["cpus"]
    apart = "apart" if cpus["proxy"] != cpus["upstream and load"] else "the same, for there is only one"
    print(f"median (quartiles) of {len(result['rounds'])} interleaved rounds, {result['connections']} connections; "
          f"proxies on CPU {cpus['proxy']}, upstream and load on CPU {cpus['upstream and load']} ({apart})")
    busy = statistics.median(one[name]["saturated"]["busy_share"] for one in result["rounds"] for name in names)
    if busy < 0.9:
        print(f"even saturated, the proxies ran only {busy:.0%} of the time: requests per second and latency are not theirs alone")
    foreign = statistics.median(one["foreign_share"] for one in stretches)
    if foreign > 0.05:
        print(f"other programs kept the machine {foreign:.0%} busy: trust the ratios of CPU and instructions, not the latencies")
    for name in names:
        loads = [one[name][stretch] for one in result["rounds"] for stretch in ("saturated", "paced")]
        logged = sum(load["log_lines"] for load in loads) / sum(load["requests"] for load in loads)
        if logged < 0.995:
            print(f"{name} logged only {logged:.1%} of the requests")
        kept = statistics.median(one[name]["paced"]["per_second"] for one in result["rounds"]) / result["rate"]
        if kept < 0.95:
            print(f"{name} got only {kept:.0%} of the paced rate: the machine was too busy, or the rate too high")


def print_profile(result: dict, base: str):
    """Where the instructions go, for all but `base`, which has no symbols; and everybody's system calls."""
    titles = {
        "owner": "by source file of ours, crate or library",
        "self": "by function, without what it calls",
        "inclusive": "by function, with what it calls",
    }
    for name, profile in result["profile"].items():
        total = result["instructions"][name]
        for kind, title in titles.items() if name != base else ():
            print(f"\n{painted(name, BOLD)}: instructions per request {title}")
            rows = [[f"{value:,.0f}", f"{value / total:.1%}", where[:110]] for where, value in profile[kind][:PROFILE_ROWS]]
            print_rows(rows, text_last=True)
    for name, profile in result["profile"].items():
        calls = ", ".join(f"{count:.2f} {call}" for call, count in profile["calls"] if count >= 0.005)
        print(f"\n{painted(name, BOLD)}: system calls per request, one connection: {calls}")


def shown(values: dict, factor: float, decimals: int) -> str:
    median, low, high = (f"{values[key] * factor:.{decimals}f}" for key in ("median", "low", "high"))
    return f"{median} ({low}–{high})"


def print_rows(rows: list[list[str]], text_last: bool = False):
    """Columns of numbers to the right; the first column is text, or with `text_last` the last one."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = len(widths) - 1 if text_last else 0
    for row in rows:
        cells = [cell.ljust(width) if at == text else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def painted(text: str, code: str) -> str:
    """Coloured on a terminal only."""
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() else text
