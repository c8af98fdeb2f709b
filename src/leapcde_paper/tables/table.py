"""Tables of records: mean ± deviation over seeds, what it cost, the paper's figure beside ours, the best in bold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from leapcde.training.metrics import LOWER_IS_BETTER
from leapcde_paper import paper_numbers as paper
from leapcde_paper.baselines import is_fixed
from leapcde_paper.rows import BASELINES
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables.statistics import same_as_best

Found = dict[str, Record]  # by key of the cell
METRICS = {"accuracy": "accuracy", "auroc": "AUROC", "mse": "MSE", "mse_units": "MSE", "mae": "MAE"}
UNITS = ("mujoco-as-run",)  # data whose published errors are in its own units, not in standardised ones


def by_key(records: Sequence[Record]) -> Found:
    """Records by the settings of their cells; of several, on different data, the last one."""
    return {record["key"]: record for record in records}


def metric_of(record: Record) -> str:
    return "mse_units" if record["dataset"] in UNITS and "mse_units" in record["metrics"]["test"] else record["metric"]


def score(record: Record) -> float:
    found = record["metrics"]["test"][metric_of(record)]
    return float("nan") if found is None else found


def of_settings(experiment: Experiment, found: Found) -> dict[tuple[str, str], list[Record]]:
    """The records that there are, by row and column, in the order of the seeds."""
    made: dict[tuple[str, str], list[Record]] = {}
    for row, column, cell in experiment.entries():
        made.setdefault((row, column), [])
        if cell.key in found:
            made[row, column].append(found[cell.key])
    return made


def table(experiment: Experiment, found: Found) -> dict[str, Any]:
    """A table as plain data: what Markdown, LaTeX, HTML and the report are written from."""
    there, columns = of_settings(experiment, found), []
    for label in experiment.columns:
        mine = {row: there.get((row, label), []) for row in experiment.rows}
        columns.append({"label": label, **_column(experiment.name, label, mine)})
    about = {"name": experiment.name, "title": experiment.title, "budget": experiment.budget, "note": experiment.note}
    about |= {"rows": experiment.rows, "baselines": list(BASELINES.values()), "columns": columns}
    return {
        **about,
        "cells": sum(len(setting.seeds) for setting in experiment.settings),
        **spent([one for each in there.values() for one in each]),
    }


def spent(records: Sequence[Record]) -> dict[str, Any]:
    """What cells have cost together, and on what."""
    processors = dict.fromkeys(filter(None, ((record.get("hardware") or {}).get("processor") for record in records)))
    return {"done": len(records), "hours": sum(_seconds(record) for record in records) / 3600, "processors": list(processors)}


def _seconds(record: Record) -> float:
    """Of a processor; what was trained without epochs has only its total."""
    return sum(row["cpu_seconds"] for row in record["history"]) if record["history"] else record["seconds"] or 0.0


def _column(name: str, label: str, mine: dict[str, list[Record]]) -> dict[str, Any]:
    some = next((records[0] for records in mine.values() if records), None)
    metric = metric_of(some) if some else None
    cells: dict[str, dict[str, Any] | None] = {row: _cell(name, row, label, records) for row, records in mine.items()}
    _mark_best(cells, lower=metric == "mse_units" or metric in LOWER_IS_BETTER)
    return {"metric": metric, "data": some and some["dataset"], "drop": some and some["drop"], "cells": cells}


def _cell(name: str, row: str, column: str, records: list[Record]) -> dict[str, Any] | None:
    printed = {"paper": paper.cell(name, row, column), "paper_mb": paper.memory(name, row, column)}
    if not records:
        return {**printed, "scores": []} if printed["paper"] else None
    seeds = {"seeds": [record["seed"] for record in records], "fixed": is_fixed(records[0]["model"])}
    return {**printed, **seeds, **spread([score(record) for record in records]), **costs(records)}


def spread(scores: list[float]) -> dict[str, Any]:
    """Mean and deviation (n − 1) over seeds.

    >>> spread([1.0, 3.0])["std"]
    1.4142135623730951
    """
    std = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
    return {"scores": scores, "mean": float(np.mean(scores)) if scores else float("nan"), "std": std}


def costs(records: list[Record]) -> dict[str, Any]:
    """Seconds of a processor for an epoch (the first, which compiles, left out where there are more), megabytes, parameters."""
    each = [[row["cpu_seconds"] for row in record["history"]] for record in records]
    seconds = [second for rows in each for second in rows[1:] or rows]
    most = lambda key: max((r["memory"][key] for r in records if r["memory"][key] is not None), default=None)
    return {
        "seconds": float(np.median(seconds)) if seconds else None,
        "step_mb": _megabytes(most("step_bytes")),
        "process_mb": _megabytes(most("process_bytes")),
        "parameters": records[0]["parameters"],
    }


def _megabytes(count: int | None) -> float | None:
    return None if count is None else count / 1e6


def _mark_best(cells: dict[str, dict[str, Any] | None], *, lower: bool) -> None:
    """The best mean, and all rows not significantly different from it."""
    there = {row: cell for row, cell in cells.items() if cell and cell["scores"] and not np.isnan(cell["mean"])}
    if len(there) < 2:
        return
    best = (min if lower else max)(there.values(), key=lambda cell: cell["mean"])
    for cell in there.values():
        cell["best"] = cell is best or same_as_best(*_paired(best, cell)) is True


def _paired(a: dict[str, Any], b: dict[str, Any]) -> tuple[list[float], list[float]]:
    """Scores of the seeds that both have; one that no seed can change stands beside every seed of the other."""
    if a["fixed"] or b["fixed"]:
        return a["scores"], b["scores"]
    mine, other = (dict(zip(cell["seeds"], cell["scores"], strict=True)) for cell in (a, b))
    both = [seed for seed in mine if seed in other]
    return [mine[seed] for seed in both], [other[seed] for seed in both]


def model_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One row a model over records of one data set: test metric over seeds, lowest seed, cost, the paper's figure."""
    rows = []
    for model in dict.fromkeys(record["model"] for record in records):
        mine = [record for record in records if record["model"] == model]
        first, spent = mine[0], costs(mine)
        found = spread([record["metrics"]["test"][first["metric"]] for record in mine])
        own = {"model": model, "metric": first["metric"], "mean": found["mean"], "std": found["std"] or 0.0}
        own |= {"lowest": min(found["scores"]), "seeds": len(mine), "seconds_per_epoch": spent["seconds"]}
        rows.append({**own, "parameters": first["parameters"], "paper": paper.figure(first["dataset"], first["drop"], model)})
    return rows
