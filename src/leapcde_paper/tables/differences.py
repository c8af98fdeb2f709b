"""The paper's figures beside ours, each with what is known about why they may differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leapcde_paper.paper_numbers import TABLES
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.tables.table import Found, table

_BUDGET = {
    "smoke": "The smoke budget trains tiny models for one epoch: its numbers mean nothing.",
    "standard": "The standard budget trains fewer epochs, with a cosine schedule; every model's rate and weight penalty are "
    "the best of equally many trials on validation data.",
    "full": "",
}
_DATA = {
    "mujoco-as-run": "The released code adds a weight penalty to the MSE it reports; ours has none. Standing still beats every "
    "figure of the paper's table, so models that forecast at all do too.",
    "sepsis": "Test samples are all evaluated; the released code drops the last, incomplete batch.",
    "speech-commands": "The paper has 34,975 clips of ten words; the dataset_options of a record say how many were used here.",
    "character-trajectories": "Test samples are all evaluated; the released code drops the last, incomplete batch.",
}
_LEAP = (
    "The paper's released code does not compute its equations (z and h are cross-wired, the α term has no gradient); ours does."
)
_BASELINES = (
    "The released code of this baseline differs from its own paper (inputs, masks or read-outs; see docs/models.md), "
    "ours follows the paper."
)
_OURS = ("RNN", "LSTM", "GRU", "GRU-Δt", "GRU-D", "GRU-ODE", "ODE-RNN", "Latent-ODE", "Augmented-ODE", "ACE-NODE", "ANCDE")


def against_paper(experiments: Sequence[Experiment], found: Found) -> list[dict[str, Any]]:
    """One row for each figure of the paper for which there is one of ours."""
    rows = []
    for one in experiments:
        if one.name not in TABLES:
            continue
        for column in table(one, found)["columns"]:
            for row, cell in column["cells"].items():
                if cell and cell["scores"] and cell["paper"]:
                    about = {"table": one.title, "column": column["label"], "row": row, "budget": one.budget}
                    ours, paper = cell["mean"], cell["paper"][0]
                    about |= {"ours": ours, "paper": paper, "difference": ours - paper}
                    rows.append({**about, "why": _why(one.budget, column["data"], row, cell)})
    return rows


def _why(budget: str, data: str, row: str, cell: dict[str, Any]) -> list[str]:
    """One reason a sentence or two, so that a page can list each once."""
    ours, (paper, spread) = cell["mean"], cell["paper"]
    if budget == "smoke":
        return [_BUDGET["smoke"]]
    if abs(ours - paper) <= (spread or 0.0) + (cell["std"] or 0.0):
        return ["Within the deviations of both."]
    model = _LEAP if row.startswith("LEAP") else _BASELINES if row in _OURS else ""
    return [reason for reason in (_BUDGET.get(budget, ""), model, _DATA.get(data, "")) if reason]
