"""docs/faults.md from results/faults.json: `python tests/faults/page.py` writes it, `make test` compares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPORT, PAGE = ROOT / "results" / "faults.json", ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- faults -->", "<!-- end -->"
TITLES = {
    "sweep: loky": "sweep, its worker processes",
    "sweep: parent": "sweep, its parent",
    "sweep: dask": "sweep, Dask workers",
}
MOMENTS = ("before training", "in training", "with a file half written", "in what follows training")


def kills(found: dict[str, Any]) -> list[str]:
    """A row for each thing that was killed."""
    rows = ["| killed | kills | in training or writing | runs | with an equal end |", "|---|---:|---:|---:|---:|"]
    total = [0, 0, 0, 0]
    for name, of in found.items():
        within = of["kills"] if name in TITLES else sum(of.get(moment, 0) for moment in MOMENTS[1:])
        numbers = [of.get("kills", 0), within, of.get("runs", 0), of.get("runs with an equal end", 0)]
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        rows.append(_row(TITLES.get(name, name), numbers))
    return [*rows, _row("all", total)]


def odd(found: dict[str, Any]) -> list[str]:
    """A row for each kind of input."""
    rows = ["| input | mutated | guided by coverage | accepted, and as the oracle says |", "|---|---:|---:|---:|"]
    for name, of in found.items():
        accepted = [of["accepted"]] if "accepted" in of else ["–"]
        rows.append(_row(name, [of.get("inputs", 0), of.get("inputs guided by coverage", 0), *accepted]))
    total = [sum(of.get(key, 0) for of in found.values()) for key in ("inputs", "inputs guided by coverage")]
    return [*rows, _row("all", [*total, "–"])]


def full(found: dict[str, Any]) -> list[str]:
    rows = ["| run | writes that failed, one by one | of | with an equal end afterwards |", "|---|---:|---:|---:|"]
    for name, of in found.items():
        rows.append(
            _row(name, [of.get("writes that failed", 0), of.get("writes of a run", "not all"), of.get("equal ends", 0)])
        )
    return rows


def others(report: dict[str, Any]) -> list[str]:
    """What has no table."""
    lines = []
    if pairs := report.get("two processes"):
        count = lambda key: sum(of.get(key, 0) for of in pairs.values())
        told = f"{count('told so')} times the second was told so, {count('both went through')} times both went through"
        lines.append(f"**Two processes in one folder**: {count('pairs')} pairs; {told}.")
    if memory := report.get("limits of memory"):
        counts = ", ".join(f"{value} {key}" for key, value in memory.items() if key != "limits")
        lines.append(f"**Limits of memory** (25 to 800 MB more than at the start): {memory['limits']}; {counts}.")
    if rows := report.get("pushes"):
        first, last = rows[0], rows[-1]
        cost = f"{first['microseconds each']} µs and {first['megabytes']} MB at first"
        cost += f", {last['microseconds each']} µs and {last['megabytes']} MB at the end"
        lines.append(f"**Pushes into one stream**: {last['pushes']:,}; {cost}.")
    return lines


def text(report: dict[str, Any]) -> str:
    """The numbers of a report, as the page has them."""
    head = f"{report['round']} rounds, {report['minutes']:g} minutes, seed {report['seed']};"
    parts = [f"{head} {report.get('defects', 0)} things were wrong in these rounds."]
    parts += ["\n".join(make(report[key])) for key, make in PARTS.items() if key in report]
    return "\n\n".join([*parts, *others(report)])


def _row(name: str, numbers: list[Any]) -> str:
    shown = [f"{number:,}" if isinstance(number, int) else str(number) for number in numbers]
    return f"| {name} | {' | '.join(shown)} |"


PARTS = {"kills": kills, "full disk": full, "odd input": odd}


def page(old: str, report: dict[str, Any]) -> str:
    """The page with the numbers of a report put in."""
    before, rest = old.split(BEGIN)
    return f"{before}{BEGIN}\n{text(report)}\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(REPORT.read_text())))
