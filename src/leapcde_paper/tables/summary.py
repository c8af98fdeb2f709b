"""The main column of each data set, and how many times the error of LEAP+ every row makes there: all results at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from leapcde.training.metrics import LOWER_IS_BETTER
from leapcde_paper import paper_numbers as paper
from leapcde_paper.rows import BASELINES, PLUS
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.tables.table import Found, table

MAIN = {  # title: table, its column
    "Character Trajectories, 30 % dropped, accuracy": ("character", "30 %"),
    "Speech Commands, accuracy": ("speech", paper.SPEECH),
    f"{paper.OTHER_SPEECH}, accuracy": ("speech", paper.OTHER_SPEECH),
    "Sepsis, AUROC": ("sepsis", paper.SEPSIS),
    "MuJoCo as run, 30 % dropped, MSE": ("mujoco", "30 %"),
    "10,000 simulations, 30 % dropped, MSE": ("simulations", "30 %"),
}
Errors = dict[str, dict[str, float]]  # by data set and row


def main_columns(experiments: Sequence[Experiment], found: Found) -> dict[str, dict[str, Any]]:
    """The main columns by title; those of which these experiments have none are left out."""
    columns = {}
    for title, (study, label) in MAIN.items():
        mine = [one for one in experiments if one.name == study and label in one.columns]
        if mine:
            columns[title] = next(column for column in table(mine[0], found)["columns"] if column["label"] == label)
    return columns


def relative_errors(columns: dict[str, dict[str, Any]], ours: str = PLUS.label) -> Errors:
    """By data set and row: the share of wrong answers (1 − AUROC on Sepsis) or the MSE, in units of ours. Without ours, or
    where it makes no error, a data set is left out."""
    found = {}
    for title, column in columns.items():
        lower = column["metric"] == "mse_units" or column["metric"] in LOWER_IS_BETTER
        error = lambda mean: mean if lower else 1 - mean  # noqa: B023
        errors = {row: error(cell["mean"]) for row, cell in column["cells"].items() if cell and cell["scores"]}
        if errors.get(ours, 0.0) > 0:
            relative = {row: one / errors[ours] for row, one in errors.items()}
            found[title.rsplit(",", 1)[0]] = {row: one for row, one in relative.items() if math.isfinite(one) and one > 0}
    return found


def best_others(mine: dict[str, float], ours: str = PLUS.label) -> list[str]:
    """Of the rows of a data set, the best network beside ours, and the best that is no network."""
    simple = [row for row in mine if row in BASELINES.values()]
    networks = [row for row in mine if row not in (*simple, ours)]
    return [min(rows, key=mine.__getitem__) for rows in (networks, simple) if rows]
