"""How far LEAP is ahead of every other row on the same test samples, and how much of that another test set could take away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leapcde_paper.run import records
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables.render import Grid, Text
from leapcde_paper.tables.statistics import Lead, lead
from leapcde_paper.tables.table import Found, metric_of, of_settings
from leapcde_paper.tables.ttests import OURS


def margins(experiment: Experiment, found: Found, folder: Path) -> dict[str, Any] | None:
    """LEAP's lead by column and row. None where LEAP or all others are missing."""
    there = of_settings(experiment, found)
    leads: dict[str, dict[str, Any]] = {}
    for column in experiment.columns:
        mine = {row: there[row, column] for row in experiment.rows if there.get((row, column))}
        ours = mine.pop(OURS, None)
        leads[column] = {row: _lead(ours, other, folder)._asdict() for row, other in mine.items()} if ours else {}
    about = {"name": experiment.name, "title": experiment.title, "budget": experiment.budget, "note": experiment.note}
    return {**about, "rows": [row for row in experiment.rows if row != OURS], "leads": leads} if any(leads.values()) else None


def _lead(ours: Sequence[Record], other: Sequence[Record], folder: Path) -> Lead:
    mine, its = ([records.arrays(folder, record) for record in each] for each in (ours, other))
    return lead(metric_of(ours[0]), mine[0]["truth"], [one["answer"] for one in mine], [one["answer"] for one in its])


def margin_grid(found: dict[str, Any]) -> Grid:
    """One row a model: LEAP's lead and its interval."""
    rows = [[Text(row), *(_text(column.get(row)) for column in found["leads"].values())] for row in found["rows"]]
    note = (
        f"Budget {found['budget']}. LEAP's test score minus the row's (accuracy; AUROC on Sepsis), seeds averaged, and the "
        "95 % interval for other test samples of the same kind (both answer the same samples; for AUROC as DeLong has it). "
        "Bold where it does not contain 0. What other seeds would change is not in it."
    )
    notes = [note, *([found["note"]] if found["note"] else [])]
    return Grid(found["name"], found["title"], ["LEAP against", *found["leads"]], rows, notes)


def _text(one: dict[str, Any] | None) -> Text:
    if one is None:
        return Text("–")
    ends = [f"{one[key]:+.3f}".replace("-", "−") for key in ("difference", "low", "high")]
    return Text("{} ({} to {})".format(*ends), one["low"] > 0 or one["high"] < 0, one["difference"])
