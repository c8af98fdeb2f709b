"""Choose the training settings of the standard budget: as many trials for every model, judged by validation data.

`python -m leapcde_paper.tune character-trajectories` runs the trials that are not in results/standard/tuning.parquet yet, adds
them, and prints what is best: that goes into presets/DATA.toml, where the budget reads it. Test data is not looked at.
Trainings are shorter than the budget's own, and their seed is none of those that are reported. The trials are a list, the
same for everybody, so no sampler chooses them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leapcde.data.dataset import Dataset
from leapcde.models.registry import MODELS
from leapcde.training.fitted import train_model
from leapcde.training.metrics import LOWER_IS_BETTER, main_metric
from leapcde_paper import budgets
from leapcde_paper.paper_numbers import LABELS
from leapcde_paper.run.cell import Cell, CellConfig
from leapcde_paper.run.collected import read_rows, write_rows
from leapcde_paper.run.data import cell_data
from leapcde_paper.run.memory import forget_programs

FILE, OUT = "tuning.parquet", Path("results") / "standard"
SEED = 0
DROP = {"character-trajectories": 0.3, "mujoco-as-run": 0.3, "mujoco": 0.3}
DATASET_OPTIONS = {"mujoco": {"stride": 50}}  # as in `reproduce simulations`
TRAIN = {"speech-commands": {"batch_size": 32, "noise": 0.0}}  # four epochs are too few to learn through noise
EPOCHS = {"character-trajectories": 12, "mujoco-as-run": 8, "mujoco": 8, "speech-commands": 4, "sepsis": 4}
# Of the training data, where there is much; of classes equally many, as far as there are so many.
SAMPLES = {"mujoco": 2000, "speech-commands": 2000, "sepsis": 4000}
# Six of (learning rate, weight penalty). LEAP's α is none of them: short trials favour a small one, which learns faster and
# carries over worse (decision 10); it is the library's default, which knows the number of channels.
TRIED = ((2e-3, 0.003), (1e-3, 0.003), (5e-4, 0.003), (4e-3, 0.003), (2e-3, 0.0), (1e-3, 0.0))
# Forecasting from 70 sequences: everything overfits, and small rates come into question.
SMALL = ((2e-3, 0.003), (2e-3, 0.0), (1e-3, 0.0), (5e-4, 0.0), (2.5e-4, 0.0), (5e-4, 0.003))
# Where a trial takes minutes, three: the rates. Simulations without end do not overfit.
RATES, FREE = (tuple((rate, penalty) for rate in (4e-3, 2e-3, 1e-3)) for penalty in (0.003, 0.0))
TRIED_ON = {
    "character-trajectories": TRIED,
    "mujoco-as-run": SMALL,
    "speech-commands": RATES,
    "sepsis": RATES,
    "mujoco": FREE,
}
Trial = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=EPOCHS)
    parser.add_argument("--models", nargs="+", default=[*LABELS, "leap+"], choices=sorted(MODELS))
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of {FILE}")
    asked = parser.parse_args()
    for model in asked.models:
        best = best_trial(tune(asked.data, model, asked.out))
        settings = f"learning_rate = {best['learning_rate']:g}, weight_penalty = {best['weight_penalty']:g}"
        print(f"{asked.data} {model}: {best['metric']} {best['value']:.4f} with {{ {settings} }}", flush=True)


def tune(data: str, model: str, out: Path) -> list[Trial]:
    """All trials of a model on a data set; those that are not there are run, and added one by one."""
    config = asked(data, model)
    for number, (rate, penalty) in enumerate(TRIED_ON[data]):
        there = read_trials(out)
        mine = [trial for trial in there if (trial["data"], trial["model"]) == (data, model)]
        if any(trial["trial"] == number and is_current(trial, config) for trial in mine):
            continue
        made = _tried(config, number, rate, penalty, cell_data(Cell(config, samples=SAMPLES.get(data))))
        kept = [trial for trial in there if trial not in mine or (trial["trial"] != number and is_current(trial, config))]
        write_rows(out / FILE, sorted([*kept, made], key=lambda trial: (trial["data"], trial["model"], trial["trial"])))
        forget_programs()
    return by_model(read_trials(out))[data, model]


def asked(data: str, model: str) -> CellConfig:
    """The budget's config with fewer epochs; its learning rate and weight penalty are what is chosen."""
    spend, options = budgets.budget("standard"), DATASET_OPTIONS.get(data, {})
    config = budgets.config(spend, data, DROP.get(data, 0.0), model, {}, options)
    own = {"epochs": EPOCHS[data], **TRAIN.get(data, {})}
    return replace(config, train=replace(config.train, **own, seed=SEED, learning_rate=1e-3, weight_penalty=0.0))


def is_current(trial: Trial, config: CellConfig) -> bool:
    """Whether a trial was of the model as it is now, with what the budget gives it now."""
    return json.loads(trial["config"]) == config.to_json() and trial["revision"] == MODELS[config.model].revision


def read_trials(folder: Path) -> list[Trial]:
    """All trials, by data set, model and number."""
    return read_rows(folder / FILE)


def by_model(trials: Sequence[Trial]) -> dict[tuple[str, str], list[Trial]]:
    """Trials by data set and model."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        found.setdefault((trial["data"], trial["model"]), []).append(trial)
    return found


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The one that validation data prefers."""
    lower = trials[0]["metric"] in LOWER_IS_BETTER
    return (min if lower else max)(_complete(trials), key=lambda trial: trial["value"])


def worst_trial(trials: Sequence[Trial]) -> Trial:
    """The one that validation data likes least."""
    lower = trials[0]["metric"] in LOWER_IS_BETTER
    return (max if lower else min)(_complete(trials), key=lambda trial: trial["value"])


def _complete(trials: Sequence[Trial]) -> list[Trial]:
    """Without those that an earlier form of this tool stopped early."""
    return [trial for trial in trials if trial["state"] == "complete"]


def _tried(config: CellConfig, number: int, learning_rate: float, weight_penalty: float, data: Dataset) -> Trial:
    chosen = {"learning_rate": learning_rate, "weight_penalty": weight_penalty}
    found = judged(replace(config, train=replace(config.train, **chosen)), data)
    head = {"data": config.data, "model": config.model, "trial": number, **chosen, **found, "state": "complete"}
    about = {"revision": MODELS[config.model].revision, "samples": SAMPLES.get(config.data)}
    return {**head, **about, "config": json.dumps(config.to_json(), sort_keys=True)}


def judged(config: CellConfig, data: Dataset) -> Trial:
    """What a training reaches on validation data at its best epoch."""
    parts = {"task": data.task, "model": config.model, "options": config.options, "recipe": config.recipe}
    fitted, trained = train_model(data.train, data.validation, **parts, config=config.train)
    metric = main_metric(data.task, len(fitted.preprocessor.classes))
    return {"metric": metric, "value": trained.history.best(metric)[metric], "epochs": len(trained.history.rows)}


if __name__ == "__main__":
    main()
