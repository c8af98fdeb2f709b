"""How far LEAP or LEAP+ is ahead of every other row on the same test samples, and what another test set could take away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leapcde_paper.paper_numbers import CHARACTERS, OTHER_SPEECH, SEPSIS, SPEECH
from leapcde_paper.run import records
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables.render import Grid, Text
from leapcde_paper.tables.statistics import Lead, error_lead, lead
from leapcde_paper.tables.table import Found, metric_of, of_settings

CLASSES = (CHARACTERS, OTHER_SPEECH, SEPSIS, SPEECH)  # columns of classes
OURS = {"margins": "LEAP", "margins-plus": "LEAP+ (ours)"}  # by table, the row whose lead it shows


def margins(experiment: Experiment, found: Found, folder: Path) -> dict[str, Any] | None:
    """The lead of our row by column and row. None where it or all others are missing."""
    there, row_of_ours = of_settings(experiment, found), OURS[experiment.name]
    leads: dict[str, dict[str, Any]] = {}
    for column in experiment.columns:
        mine = {row: there[row, column] for row in experiment.rows if there.get((row, column))}
        ours = mine.pop(row_of_ours, None)
        made = {row: _lead(ours, other, folder) for row, other in mine.items()} if ours else {}
        leads[column] = {row: one._asdict() for row, one in made.items() if one is not None}
    about = {"name": experiment.name, "title": experiment.title, "budget": experiment.budget, "note": experiment.note}
    about["ours"] = row_of_ours
    rows = [row for row in experiment.rows if row != row_of_ours]
    return {**about, "rows": rows, "leads": leads} if any(leads.values()) else None


def _lead(ours: Sequence[Record], other: Sequence[Record], folder: Path) -> Lead | None:
    """None where errors by sample were not kept."""
    mine, its = ([records.arrays(folder, record) for record in each] for each in (ours, other))
    if all("answer" in one for one in (*mine, *its)):
        return lead(metric_of(ours[0]), mine[0]["truth"], [one["answer"] for one in mine], [one["answer"] for one in its])
    if all("error" in one for one in (*mine, *its)):
        return error_lead([one["error"] for one in mine], [one["error"] for one in its], mine[0]["sequence"])
    return None


def margin_grid(found: dict[str, Any]) -> Grid:
    """One row a model: our lead and its interval."""
    rows = [[Text(row), *(_text(column.get(row)) for column in found["leads"].values())] for row in found["rows"]]
    ours = found["ours"].removesuffix(" (ours)")
    note = (
        f"Budget {found['budget']}. {ours}'s test score minus the row's (accuracy; AUROC on Sepsis), seeds averaged, and the "
        "95 % interval for other test samples of the same kind (both answer the same samples; for AUROC as DeLong has it). "
        "Bold where it does not contain 0. What other seeds would change is not in it."
    )
    if any(data not in CLASSES for data in found["leads"]):
        note += " Forecasts: by how large a share of the row's squared error it is below it; whole sequences are drawn."
    notes = [note, *([found["note"]] if found["note"] else [])]
    return Grid(found["name"], found["title"], [f"{ours} against", *found["leads"]], rows, notes)


def _text(one: dict[str, Any] | None) -> Text:
    if one is None:
        return Text("–")
    ends = [f"{one[key]:+.3f}".replace("-", "−") for key in ("difference", "low", "high")]
    return Text("{} ({} to {})".format(*ends), one["low"] > 0 or one["high"] < 0, one["difference"])
