"""As many trials of LEAP+'s training for its strongest rivals as LEAP+ had, judged by validation data.

`python -m leapcde_paper.rivals sepsis` runs the trials that are not in results/standard/rivals.parquet yet, adds them, and
prints what is best: that goes into presets/DATA.toml (`rivals`), where `reproduce same-training` reads it. Test data is not
looked at. Trainings are as long as the budget's own, on a part of the data where there is much; their seed is none of those
that are reported. The trials are a list, the same for every rival of a data set.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from leapcde.datasets.registry import source_of
from leapcde.models.registry import MODELS
from leapcde.training.metrics import LOWER_IS_BETTER
from leapcde_paper import budgets
from leapcde_paper.presets import preset
from leapcde_paper.rows import SETS, SIMULATED, as_plus
from leapcde_paper.run.cell import Cell, CellConfig
from leapcde_paper.run.collected import read_rows, write_rows
from leapcde_paper.run.data import cell_data
from leapcde_paper.run.memory import forget_programs
from leapcde_paper.tune import OUT, SAMPLES, SEED, judged

FILE = "rivals.parquet"
COLUMNS = {column.data: column for column in (*SETS, SIMULATED)}
# LEAP+ had about 14, 5, 10, 2 and 3 (decision 16).
TRIALS = {"character-trajectories": 14, "mujoco-as-run": 6, "mujoco": 10, "speech-commands": 4, "sepsis": 4}
Trial = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=TRIALS)
    parser.add_argument("--models", nargs="+", help="only these of the rivals")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of {FILE}")
    asked = parser.parse_args()
    for model in asked.models or preset(asked.data)["rivals"]:
        best = best_trial(tried(asked.data, model, asked.out))
        print(f"{asked.data} {model}: {best['metric']} {best['value']:.4f} with {best['settings']}", flush=True)


def tried(data: str, model: str, out: Path) -> list[Trial]:
    """All trials of a rival; those that are not there are run, and added one by one."""
    samples = cell_data(Cell(configs(data, model)[0], samples=SAMPLES.get(data)))
    for number, config in enumerate(configs(data, model)):
        there = read_trials(out)
        if any(is_current(trial, config) for trial in there):
            continue
        about = {"data": data, "model": model, "trial": number, "settings": json.dumps(variations(data, model)[number])}
        about |= {"revision": MODELS[model].revision, "samples": SAMPLES.get(data), "config": _text(config)}
        kept = [trial for trial in there if (trial["data"], trial["model"], trial["trial"]) != (data, model, number)]
        added = [*kept, {**about, **judged(config, samples)}]
        write_rows(out / FILE, sorted(added, key=lambda trial: (trial["data"], trial["model"], trial["trial"])))
        forget_programs()
    return of_rival(data, model, out)


def variations(data: str, model: str) -> list[dict[str, Any]]:
    """What is tried of LEAP+'s training, what matters most first: as it is, and with one thing otherwise."""
    usual = _plain(data, model).train
    rate, forecasts = usual.learning_rate, source_of(data).task == "forecasting"
    theirs = preset(data)["standard"]["training"].get("noise")  # what the other training of the data set is made of
    asked: list[dict[str, Any]] = [
        {},
        *([{"noise": theirs}] if theirs else []),
        {"hide": 0.0},
        {"learning_rate": rate / 2},
        {"learning_rate": rate * 2},
        {"optimizer": "adamw", "weight_decay": 0.1},
        {"optimizer": "adam", "weight_decay": 0.0, "weight_penalty": 0.003},
        {"in_window": 0.0} if forecasts else {"channel_drop": 0.1},
        {"ema": 0.0 if usual.ema else 0.99},
        {"noise": 0.1},
        {"batch_size": usual.batch_size // 2},
        {"warp": 0.0 if usual.warp else 0.3},
        {"label_smoothing": 0.1},
        {"spans": 0.3},
        {"hide": 0.0, "learning_rate": rate / 2},
    ]
    return asked[: TRIALS[data]]


def configs(data: str, model: str) -> list[CellConfig]:
    """The settings of all trials."""
    plain = _plain(data, model)
    return [replace(plain, train=replace(plain.train, **own)) for own in variations(data, model)]


def _plain(data: str, model: str) -> CellConfig:
    column = COLUMNS[data]
    config = budgets.config(budgets.budget("standard"), data, column.drop, model, {}, dict(column.dataset_options))
    return replace(config, train=replace(config.train, **as_plus(data), seed=SEED))


def is_current(trial: Trial, config: CellConfig) -> bool:
    """Whether a trial was of these settings and of the model as it is now."""
    return trial["config"] == _text(config) and trial["revision"] == MODELS[config.model].revision


def read_trials(folder: Path) -> list[Trial]:
    """All trials, by data set, model and number."""
    return read_rows(folder / FILE)


def of_rival(data: str, model: str, folder: Path) -> list[Trial]:
    """Those of one rival."""
    return [trial for trial in read_trials(folder) if (trial["data"], trial["model"]) == (data, model)]


def best_trial(trials: list[Trial]) -> Trial:
    """The one that validation data prefers; the earlier of two that are level."""
    lower = trials[0]["metric"] in LOWER_IS_BETTER
    return (min if lower else max)(trials, key=lambda trial: trial["value"])


def _text(config: CellConfig) -> str:
    return json.dumps(config.to_json(), sort_keys=True)


if __name__ == "__main__":
    main()
