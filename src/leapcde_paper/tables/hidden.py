"""How well paths fill in observations that were hidden from them: learned ones, and four interpolations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leapcde.explain.hidden import CLASSICAL, LEARNED
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables.margins import OURS
from leapcde_paper.tables.render import Grid, Text, score
from leapcde_paper.tables.table import Found, of_settings, spread

SHARE = "LEAP+ / best interpolation"


def hidden(experiment: Experiment, found: Found, folder: Path) -> dict[str, Any] | None:
    """Mean squared errors at hidden observations by column and row, over seeds. None where no record has any."""
    there = of_settings(experiment, found)
    columns = {column: _column(experiment, column, there) for column in experiment.columns}
    about = {"name": experiment.name, "title": experiment.title, "budget": experiment.budget, "note": experiment.note}
    rows = [*CLASSICAL, *experiment.rows]
    return {**about, "rows": rows, "columns": columns} if any(columns.values()) else None


def _column(experiment: Experiment, column: str, there: dict[tuple[str, str], list[Record]]) -> dict[str, Any]:
    mine = {row: [one["hidden"] for one in there.get((row, column), []) if one.get("hidden")] for row in experiment.rows}
    some = next((errors for errors in mine.values() if errors), None)
    if some is None:
        return {}
    learned = {row: spread([one[LEARNED] for one in errors]) for row, errors in mine.items() if errors}
    return {**{name: spread([some[0][name]]) for name in CLASSICAL}, **learned}


def hidden_grid(found: dict[str, Any]) -> Grid:
    """One row a path, the best of each column in bold, and how LEAP+ stands to the best interpolation."""
    rows = [[Text(row), *(_text(row, column) for column in found["columns"].values())] for row in found["rows"]]
    rows.append([Text(SHARE), *(_share(column, OURS["margins-plus"]) for column in found["columns"].values())])
    note = (
        f"Budget {found['budget']}. Mean squared error on test data, standardised units: 30 % of each sample's rows are hidden "
        "and asked for, never its first or last. ± is the deviation over seeds."
    )
    header = ["path", *found["columns"]]
    return Grid(found["name"], found["title"], header, rows, [note, *([found["note"]] if found["note"] else [])])


def _text(row: str, column: dict[str, Any]) -> Text:
    if row not in column:
        return Text("–")
    best = min(one["mean"] for one in column.values())
    return score({**column[row], "best": column[row]["mean"] == best})


def _share(column: dict[str, Any], row: str) -> Text:
    if row not in column:
        return Text("–")
    share = column[row]["mean"] / float(np.min([column[name]["mean"] for name in CLASSICAL]))
    return Text(f"{share:.2f} ×", value=share)
