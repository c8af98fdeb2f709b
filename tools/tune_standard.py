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

from leapcde.checkpoint import json_text, write_text
from leapcde.experiments import budgets
from leapcde.experiments.memory import forget_programs
from leapcde.experiments.run import RunConfig, load_data
from leapcde.experiments.tune import Space, search
from leapcde.metrics import LOWER_IS_BETTER
from leapcde.models import options_of

ROOT = Path(__file__).parent.parent
RECORDS, CHOSEN = ROOT / "results" / "standard" / "tuning", ROOT / "src" / "leapcde" / "experiments" / "chosen.json"
TRIALS, SEED = 6, 0
DROP = {"character-trajectories": 0.3, "mujoco-as-run": 0.3}
EPOCHS = {"character-trajectories": 20, "mujoco-as-run": 12, "speech-commands": 8, "sepsis": 4}
SPACE: Space = {"rate": (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3), "weight_penalty": (0.0, 0.003)}
# LEAP's own question, within the same number of trials: how closely Y follows the observations.
ALPHA = {"mujoco-as-run": (1e-4, 1e-3, 1e-2, 1e-1)}
USUAL_ALPHA = (1e-2, 1e-1, 1.0, 10.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=EPOCHS)
    parser.add_argument("--models", nargs="+", default=list(budgets.thirteen()), choices=budgets.thirteen())
    parser.add_argument("--journals", type=Path, default=ROOT / "tuning", help="where unfinished studies lie")
    arguments = parser.parse_args()
    for model in arguments.models:
        path = RECORDS / arguments.data / f"{model}.json"
        if not path.exists():
            config, space = asked(arguments.data, model)
            data = load_data(config)
            tell = lambda done, model=model: print(f"{arguments.data} {model}: {done} of {TRIALS} trials done", flush=True)
            journal = arguments.journals / f"{arguments.data}-{model}"
            study, metric = search(config, data, journal, trials=TRIALS, space=space, progress=tell)
            write_text(path, json_text(record(config, space, metric, study), indent=1) + "\n")
            forget_programs()
        found = json.loads(path.read_text())
        print(arguments.data, model, found["metric"], f"{found['best']['value']:.4f}", found["best"]["settings"], flush=True)
    write_text(CHOSEN, json.dumps(chosen(), indent=1) + "\n")


def asked(data: str, model: str) -> tuple[RunConfig, Space]:
    """What is tried: the budget's config with fewer epochs, and the values to choose from."""
    config = budgets.config(budgets.budget("standard"), data, DROP.get(data, 0.0), model, {}, {})
    space = {**SPACE, "alpha": ALPHA.get(data, USUAL_ALPHA)} if "alpha" in options_of(model) else SPACE
    options = {key: value for key, value in config.options.items() if key not in space}
    train = replace(config.train, epochs=EPOCHS[data], seed=SEED, rate=1e-3, weight_penalty=0.0)  # the last two are chosen
    return replace(config, options=options, train=train), space


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
    return {"config": config.to_json(), "space": space, "metric": metric, "best": best, "trials": trials}


def chosen() -> dict[str, Any]:
    """The best settings by data set and model, from the records."""
    found: dict[str, Any] = {}
    for path in sorted(RECORDS.glob("*/*.json")):
        found.setdefault(path.parent.name, {})[path.stem] = json.loads(path.read_text())["best"]["settings"]
    return found


if __name__ == "__main__":
    main()
