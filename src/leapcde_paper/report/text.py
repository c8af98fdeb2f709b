"""`leapcde report --out NAME.md`: tables and figures as a page of Markdown, with the drawings in the folder NAME beside it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from leapcde.files import atomic, write_text
from leapcde_paper.budgets import BUDGETS
from leapcde_paper.figures import draw
from leapcde_paper.figures.figures import figure
from leapcde_paper.reproduce import experiments_of, grid_of, read_found
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables import render
from leapcde_paper.tables.differences import against_paper
from leapcde_paper.tables.table import by_key, spent


def write_text_page(folder: Path, path: Path) -> Path:
    """The page about all records of a folder, and its drawings."""
    found = read_found(folder)
    drawings = path.with_suffix("")
    names = []
    for one in (one for one in experiments_of(found) if one.kind == "figure"):
        made = figure(one, by_key(found), folder)
        if made["charts"]:
            names.append(one.name)
            with atomic(drawings / f"{one.name}.svg") as temporary:
                temporary.write_bytes(draw.files(made)["svg"])
    write_text(path, text_page(found, folder, drawings.name, names))
    return path


def text_page(found: Sequence[Record], folder: Path, drawings: str, names: Collection[str]) -> str:
    """The page. `names` are the figures that there are drawings of, in the folder `drawings`."""
    experiments = experiments_of(found)
    tables = [grid for one in experiments if one.kind == "table" and (grid := grid_of(one, found, folder)[1])]
    shown = [one for one in experiments if one.kind == "figure" and one.name in names]
    parts = ["# Results", _intro(found), "## Tables", *(render.markdown(grid).strip() for grid in tables)]
    if shown:
        parts += ["## Figures", *(_figure(one, drawings) for one in shown)]
    return "\n\n".join([*parts, *_against(experiments, found)]) + "\n"


def _intro(found: Sequence[Record]) -> str:
    cost = spent(found)
    budgets = dict.fromkeys(record["budget"] for record in found)
    about = "; ".join(f"{name}: {BUDGETS[name].about}" if name in BUDGETS else name for name in budgets)
    where = f" on {', '.join(cost['processors'])}" if cost["processors"] else ""
    head = f"{cost['done']} cells, {cost['hours']:.1f} processor hours{where}, one thread each. Budget {about}."
    return f"{head}\n\nMade by `leapcde report`; do not edit. Each cell is a record, and `leapcde rerun RECORD` proves it."


def _figure(one: Experiment, drawings: str) -> str:
    note = f"\n\n{one.note}" if one.note else ""
    return f"### {one.title}\n\n![{one.title}]({drawings}/{one.name}.svg)\n\nBudget {one.budget}.{note}"


def _against(experiments: Sequence[Experiment], found: Sequence[Record]) -> list[str]:
    rows = against_paper(experiments, by_key(found))
    if not rows:
        return []
    lines = ["| where | ours | paper | difference |", "|---|---:|---:|---:|"]
    for row in rows:
        where = f"{row['table']}, {row['column']}: {row['row']}"
        lines.append(f"| {where} | {row['ours']:.4g} | {row['paper']:.4g} | {row['difference']:+.4f} |")
    return ["## The paper against ours", "\n".join(lines)]
