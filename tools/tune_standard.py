"""Choose the training settings of the standard budget: as many Optuna trials for every model, judged by validation data.

`python tools/tune_standard.py character-trajectories` goes on where it was, writes results/standard/tuning/DATA/MODEL.json
with every trial, and puts the best settings into src/leapcde/experiments/chosen.json, where the budget reads them. Test
data is not looked at. Trainings are shorter than the budget's own, and their seed is none of those that are reported.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from leapcde.cli.run import RunConfig
from leapcde.cli.tune import Space, search
from leapcde_paper.run.config import Cell

from leapcde.files import json_text, write_text
from leapcde.models.registry import MODELS as REGISTRY
from leapcde.training.metrics import LOWER_IS_BETTER
from leapcde_paper import budgets
from leapcde_paper.run.cell import cell_data
from leapcde_paper.run.memory import forget_programs

ROOT = Path(__file__).parent.parent
RECORDS, CHOSEN = ROOT / "results" / "standard" / "tuning", ROOT / "src" / "leapcde" / "experiments" / "chosen.json"
SEED = 0
DROP = {"character-trajectories": 0.3, "mujoco-as-run": 0.3, "mujoco": 0.3}
CHOICES = {"mujoco": {"stride": 50}}  # as in `reproduce simulations`
TRAIN = {"speech-commands": {"batch_size": 32, "noise": 0.0}}  # four epochs are too few to learn through noise
EPOCHS = {"character-trajectories": 12, "mujoco-as-run": 8, "mujoco": 8, "speech-commands": 4, "sepsis": 4}
# Of the training data, where there is much; of classes equally many, as far as there are so many.
SAMPLES = {"mujoco": 2000, "speech-commands": 2000, "sepsis": 4000}
# The same trials for everybody: six of (rate, weight penalty), spread by hand, since six random draws from so small a
# space repeat themselves. LEAP's α is none of them: short trials favour a small one, which learns faster and carries over
# worse (decision 10); it is the library's default, which knows the number of channels.
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
MODELS = (*budgets.thirteen(), "leap+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", options=EPOCHS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), options=MODELS)
    parser.add_argument("--journals", type=Path, default=ROOT / "tuning", help="where unfinished studies lie")
    arguments = parser.parse_args()
    trials = len(TRIED_ON[arguments.data])
    for model in arguments.models:
        path = RECORDS / arguments.data / f"{model}.json"
        config, space, first = asked(arguments.data, model)
        if not path.exists() or not is_current(json.loads(path.read_text()), config):
            data = cell_data(Cell(config, samples=SAMPLES.get(arguments.data)))
            tell = lambda done, model=model: print(f"{arguments.data} {model}: {done} of {trials} trials done", flush=True)
            journal = arguments.journals / f"{arguments.data}-{model}"
            study, metric = search(config, data, journal, trials=trials, space=space, first=first, progress=tell)
            write_text(path, json_text(record(config, space, metric, study), indent=1) + "\n")
            forget_programs()
        found = json.loads(path.read_text())
        print(arguments.data, model, found["metric"], f"{found['best']['value']:.4f}", found["best"]["settings"], flush=True)
    write_text(CHOSEN, json.dumps(chosen(), indent=1) + "\n")


def asked(data: str, model: str) -> tuple[RunConfig, Space, list[dict[str, Any]]]:
    """The budget's config with fewer epochs, the values that come into question, and the trials."""
    config = budgets.config(budgets.budget("standard"), data, DROP.get(data, 0.0), model, {}, CHOICES.get(data, {}))
    first = [dict(zip(("learning_rate", "weight_penalty"), one, strict=True)) for one in TRIED_ON[data]]
    space = {name: tuple(sorted({one[name] for one in first})) for name in first[0]}
    own = {"epochs": EPOCHS[data], **TRAIN.get(data, {})}
    train = replace(config.train, **own, seed=SEED, learning_rate=1e-3, weight_penalty=0.0)  # the last two are chosen
    return replace(config, train=train), space, first


def is_current(record: dict[str, Any], config: RunConfig) -> bool:
    """Whether trials were of the model as it is now, with what the budget gives it now."""
    same = record["config"] == json.loads(json_text(config.to_json()))
    return same and record.get("revision", 1) == REGISTRY[config.model].revision


def record(config: RunConfig, space: Space, metric: str, study: optuna.Study) -> dict[str, Any]:
    trials = [
        {
            "number": t.number,
            "settings": t.params,
            "value": t.value,
            "state": t.state.name.lower(),
            "epochs": len(t.intermediate_values),
        }
        for t in study.trials
        if t.state.is_finished()
    ]
    whole = [trial for trial in trials if trial["state"] == "complete"]
    best = (min if metric in LOWER_IS_BETTER else max)(whole, key=lambda trial: trial["value"])
    return {
        "config": config.to_json(),
        "revision": REGISTRY[config.model].revision,
        "samples": SAMPLES.get(config.data),
        "space": space,
        "metric": metric,
        "best": best,
        "trials": trials,
    }


def chosen() -> dict[str, Any]:
    """The best settings by data set and model, from the records."""
    found: dict[str, Any] = {}
    for path in sorted(RECORDS.glob("*/*.json")):
        found.setdefault(path.parent.name, {})[path.stem] = json.loads(path.read_text())["best"]["settings"]
    return found


if __name__ == "__main__":
    main()
