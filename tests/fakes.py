"""Records without training: scores that a test chooses, and arrays of the right shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from leapcde.explain.hidden import CLASSICAL, LEARNED
from leapcde_paper.baselines import is_baseline
from leapcde_paper.run import records
from leapcde_paper.run.experiment import Entry
from leapcde_paper.studies import preset

CHANNELS = ("x", "y </script> $z$")
METRIC = {"sepsis": "auroc", "mujoco-as-run": "mse", "mujoco": "mse"}


def fake_records(
    folder: Path, studies: list[str], score: Callable[[Entry], float], budget: str = "standard"
) -> list[records.Record]:
    """A record for each cell of the studies, written to `folder`."""
    entries = {entry.cell.key: entry for name in studies for entry in preset(name, budget).entries()}
    return [_write(folder, entry, score(entry)) for entry in entries.values()]


def _write(folder: Path, entry: Entry, score: float) -> records.Record:
    config, cell = entry.cell.config, entry.cell
    metric = METRIC.get(config.data, "accuracy")
    rng = np.random.default_rng([config.train.seed, len(entry.row)])
    history = (
        []
        if is_baseline(config.model)
        else [{"epoch": e, "train_loss": 1 / (e + 1), "cpu_seconds": 2.0 + e, "seconds": 3.0, metric: score} for e in range(3)]
    )
    arrays = {}
    if metric == "mse":
        arrays = {"error": score + rng.normal(0, 0.1 * score, (30, 10)), "sequence": np.repeat(np.arange(6), 5)}
    else:
        truth = np.arange(200) % 2
        arrays = {"truth": truth, "answer": np.where(rng.random(200) < score, truth, 1 - truth)}
    if cell.paths:
        t = np.tile(np.linspace(0, 9, 20), (3, 1))
        X = np.stack([np.sin(t), np.cos(t)], -1) * np.arange(1, 4)[:, None, None] + np.arange(3)[:, None, None] * t[..., None]
        arrays |= {
            "path_t": t,
            "path_X": X,
            "path_Y": X * 0.9,
            "path_dY": X * 0.1,
            "path_seen_t": t[:, ::4],
            "path_seen": X[:, ::4],
        }
        arrays |= {"many_X": rng.normal(size=(12, 5, 2)), "many_Y": rng.normal(size=(12, 5, 2))}
    name = cell.name(cell.identity("fake"))
    found = {
        "name": name,
        "metric": metric,
        "metrics": {"test": {metric: score, **({"mse_units": score} if metric == "mse" else {})}},
        "history": history,
        "parameters": None if is_baseline(config.model) else 1000,
        "memory": {"step_bytes": None if is_baseline(config.model) else 5_000_000, "process_bytes": 700_000_000},
        "seconds": 9.0,
        "channels": list(CHANNELS),
        "split_sizes": {"train": 100},
        "arrays": f"{name}.safetensors" if arrays else None,
    }
    if config.model in ("leap", "leap+"):
        found["hidden"] = {LEARNED: score, **{path: 2 * (i + 1) * score for i, path in enumerate(CLASSICAL)}}
    record = records.make(cell, "fake", found)
    records.write(folder, name, record, arrays)
    return record
