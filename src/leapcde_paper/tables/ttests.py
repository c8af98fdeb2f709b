"""The paper's table of t-tests, and the test beside it that knows that windows overlap; and ranks over data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leapcde_paper import paper_numbers as paper
from leapcde_paper.run import records
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables.render import Grid, Text, number
from leapcde_paper.tables.statistics import RESAMPLES, Ranks, cluster_bootstrap, paired_t, ranks
from leapcde_paper.tables.table import Found, metric_of, of_settings, score

OURS = {"t-tests": "LEAP", "t-tests-plus": "LEAP+ (ours)"}  # by table, the row that the others are tested against


def t_tests(experiment: Experiment, found: Found, folder: Path) -> dict[str, Any] | None:
    """Both tests of our row against every other, by steps ahead. None where it or all others are missing."""
    there, row_of_ours = of_settings(experiment, found), OURS[experiment.name]
    errors = {row: _errors(mine, folder) for (row, _), mine in there.items() if mine}
    if row_of_ours not in errors or len(errors) < 2:
        return None
    ours, sequence = errors.pop(row_of_ours)
    steps = range(ours.shape[1])
    against = {}
    for row, (other, _) in errors.items():
        against[row] = [
            {
                **paired_t(ours[:, h], other[:, h])._asdict(),
                **{
                    f"boot_{key}": value
                    for key, value in cluster_bootstrap(ours[:, h], other[:, h], sequence)._asdict().items()
                },
            }
            for h in steps
        ]
    about = {"name": experiment.name, "title": experiment.title, "budget": experiment.budget, "note": experiment.note}
    about["ours"] = row_of_ours
    return {**about, "steps": len(steps), "windows": len(ours), "sequences": len(np.unique(sequence)), "against": against}


def _errors(mine: list[Record], folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """L² error of each window and step, averaged over seeds, and the sequence of each window."""
    found = [records.arrays(folder, record) for record in mine]
    return np.mean([arrays["error"] for arrays in found], axis=0), found[0]["sequence"]


def t_grid(tests: dict[str, Any]) -> Grid:
    """Of each model a line of t, of p and of the bootstrap's p, and the paper's t; a column each step ahead."""
    printed = paper.T_TESTS if tests["ours"] == OURS["t-tests"] else {}
    lines = []
    for row, found in tests["against"].items():
        for what, key, form in (("t", "t", "{:.2f}"), ("p", "p", "{:.2g}"), ("bootstrap p", "boot_p", "{:.2g}")):
            lines.append([Text(f"{row}: {what}"), *(number(one[key], form) for one in found)])
        if row in printed:
            figures = [t for t, *_ in printed[row]] + [None] * tests["steps"]
            lines.append([Text(f"{row}: t in the paper"), *(number(t, "{:.2f}") for t in figures[: tests["steps"]])])
    header = ["steps ahead", *(str(h + 1) for h in range(tests["steps"]))]
    df, sequences, ours = tests["windows"] - 1, tests["sequences"], tests["ours"].removesuffix(" (ours)")
    notes = [
        f"Budget {tests['budget']}. Paired t-test over {tests['windows']} windows, one-sided (H₁: {ours}'s error is smaller), "
        f"{df} degrees of freedom; errors: L² norms over channels in the data's units, averaged over seeds.",
        f"Windows overlap in all but one step, so they are not {tests['windows']} independent observations. The bootstrap "
        f"draws the {sequences} test sequences whole ({RESAMPLES:,} times); its p cannot be below {1 / (RESAMPLES + 1):.1g}.",
    ]
    return Grid(tests["name"], tests["title"], header, lines, [*notes, *([tests["note"]] if tests["note"] else [])])


def rank_models(experiment: Experiment, found: Found) -> tuple[Ranks, dict[str, list[float]]] | None:
    """Ranks of the models that have a score in every column of the experiment; columns of one data set are averaged."""
    there = of_settings(experiment, found)
    data = {setting.column: setting.config.data for setting in experiment.settings}
    scores, higher = {}, []
    for row in experiment.rows:
        mine = {column: there.get((row, column), []) for column in experiment.columns}
        if all(mine.values()):
            means: dict[str, list[float]] = {}
            for column, each in mine.items():
                means.setdefault(data[column], []).append(float(np.mean([score(record) for record in each])))
            scores[row] = [float(np.mean(each)) for each in means.values()]
            first = {data[column]: each[0] for column, each in mine.items()}
            higher = [not metric_of(record).startswith("mse") for record in first.values()]
    return (ranks(scores, higher), scores) if len(scores) > 1 else None
