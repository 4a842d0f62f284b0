"""What a person sees: progress while it runs, tables afterwards, and which goals were missed."""

import statistics
import sys

from kinds import Goal, Measure
from rows import MIB

PROFILE_ROWS = 20
BOLD, RED, GREEN = "1", "31", "32"


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


def summarise(rounds: list[dict], measures: tuple[Measure, ...], names: list[str], base: str) -> dict:
    """For each measure: the spread for each peer, and that of its ratio to `base`, round by round."""
    summary = {}
    for measure in measures:
        rows = {name: [one[name][measure.key] for one in rounds] for name in names}
        ratios = {
            name: spread([ours / theirs if theirs else 0.0 for ours, theirs in zip(rows[name], rows[base])])
            for name in names
            if name != base
        }
        summary[measure.key] = {"peers": {name: spread(row) for name, row in rows.items()}, "ratios": ratios}
    return summary


def judge(goal: Goal, result: dict, base: str) -> dict:
    """Whether weirgate meets the goal in this result, and a sentence that says so."""
    most = "at least" if goal.is_least else "at most"
    unit = f" {goal.unit_name}" if goal.unit_name else f" × {base}" if goal.is_ratio else ""
    bound = f"{most} {goal.bound / goal.unit:g}{unit}"
    if goal.aim is not None:
        bound += f" (aim {goal.aim})"
    if "weirgate" in result["missing"]:
        return {"met": False, "text": f"{goal.title}: not measured; {bound}"}
    if goal.key in result["sizes"]:
        value = result["sizes"][goal.key]["weirgate"]
    else:
        summary = result["summary"][goal.key]
        value = (summary["ratios"] if goal.is_ratio else summary["peers"])["weirgate"]["median"]
    met = value >= goal.bound if goal.is_least else value <= goal.bound
    return {"met": met, "text": f"{goal.title}: {value / goal.unit:.2f}{unit}, {bound}"}


def print_table(result: dict, measures: tuple[Measure, ...], sizes: dict[str, str], base: str):
    """The measures as rows; each peer's median and quartiles, then each ratio to `base`."""
    names = result["peers"]
    others = [name for name in names if name != base]
    rows = [["", *names, *(f"{name} / {base}" for name in others)]]
    for measure in measures:
        summary = result["summary"][measure.key]
        row = [measure.title]
        row += [shown(summary["peers"][name], measure.factor, measure.decimals) for name in names]
        rows.append(row + [shown(summary["ratios"][name], 1, 2) if measure.has_ratio else "" for name in others])
    for key, title in sizes.items():
        values = result["sizes"][key]
        ratios = [f"{values[name] / values[base]:.2f}" if values[base] else "" for name in others]
        rows.append([title, *(f"{values[name] / MIB:.1f}" for name in names), *ratios])
    if "instructions" in result:
        values = result["instructions"]
        row = ["instructions per request, user space", *(f"{values[name]:,.0f}" for name in names)]
        rows.append(row + [f"{values[name] / values[base]:.2f}" for name in others])
    print(f"{painted(result['row'], BOLD)}: {result['description']}")
    print_rows(rows)
    for name, reason in result["missing"].items():
        print(f"{painted('missing', RED)}: {name}, because {reason}")
    for goal in result["goals"]:
        print(f"goal {painted('met', GREEN) if goal['met'] else painted('missed', RED)}: {goal['text']}")
    print_notes(result)


def print_notes(result: dict):
    """How it was measured, and what makes the numbers worth less than they look."""
    names, rounds, cpus = result["peers"], result["rounds"], result["cpus"]
    for sentence in result["told"]:
        print(sentence)
    apart = "apart" if cpus["proxy"] != cpus["upstream and load"] else "the same, for there is only one"
    print(f"median (quartiles) of {len(rounds)} interleaved rounds; "
          f"proxies on CPU {cpus['proxy']}, upstream and load on CPU {cpus['upstream and load']} ({apart})")

    def all_of(key: str) -> list[float]:
        return [value for one in rounds for name in names for found, value in one[name].items() if found.endswith(key)]

    busy = [one[name]["saturated.busy_share"] for one in rounds for name in names if "saturated.busy_share" in one[name]]
    if busy and statistics.median(busy) < 0.9:
        print(f"even saturated, the proxies ran only {statistics.median(busy):.0%} of the time: "
              "what was reached per second and latency are not theirs alone")
    foreign = all_of("foreign_share")
    if foreign and statistics.median(foreign) > 0.05:
        print(f"other programs kept the machine {statistics.median(foreign):.0%} busy: "
              "trust the ratios of CPU and instructions, not the latencies")
    if result["kind"] in ("calls", "lists"):
        print_calls_notes(result)


def print_calls_notes(result: dict):
    """Where a peer did less than the others: requests that it did not log, or did not get."""
    for name in result["peers"]:
        rounds = [one[name] for one in result["rounds"]]
        logged, sent = (sum(one[f"{part}.{key}"] for one in rounds for part in ("saturated", "paced")) for key in ("log_lines", "requests"))
        if logged < 0.995 * sent:
            print(f"{name} logged only {logged / sent:.1%} of the requests")
        kept = statistics.median(one["paced.per_second"] for one in rounds) / result["rate"]
        if kept < 0.95:
            print(f"{name} got only {kept:.0%} of the paced rate: the machine was too busy, or the rate too high")


def print_profile(result: dict, base: str):
    """Where the instructions go, for weirgate and its stand-ins, which have symbols; and everybody's system calls."""
    titles = {
        "owner": "by source file of ours, crate or library",
        "self": "by function, without what it calls",
        "inclusive": "by function, with what it calls",
    }
    for name, profile in result.get("profile", {}).items():
        total = result["instructions"][name]
        for kind, title in titles.items() if name not in (base, "haproxy") else ():
            print(f"\n{painted(name, BOLD)}: instructions per request {title}")
            rows = [[f"{value:,.0f}", f"{value / total:.1%}", where[:110]] for where, value in profile[kind][:PROFILE_ROWS]]
            print_rows(rows, text_last=True)
    for name, profile in result.get("profile", {}).items():
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
