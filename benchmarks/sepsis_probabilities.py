"""The default on PhysioNet Sepsis beside the baselines: are its probabilities frequencies, and is it ahead?

    LEAPCDE_DATA=data python benchmarks/sepsis_probabilities.py     # about fifteen minutes on one core; writes results/

Two defaults: `leap+`, that of the estimators, and the race, that of `leapcde fit`, with its five minutes. Rows that are in the
record are not made again; each has the commit that made it. Test data is looked at once; nothing is chosen by it.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from leapcde import LeapClassifier
from leapcde.baselines.fitted import fit_baselines
from leapcde.data.dataset import Dataset
from leapcde.datasets.registry import load
from leapcde.errors import LeapWarning
from leapcde.files import json_text, write_text
from leapcde.training.fitted import Fitted

STAYS = 12_000  # of the training part, so that it takes minutes
RESULTS = Path(__file__).parent.parent / "results" / "sepsis-probabilities.json"


def judged(fitted: Fitted, data: Dataset) -> dict[str, float]:
    return {key: round(float(value), 4) for key, value in fitted.evaluate(data.test).items()}


def commit() -> str:
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    warnings.simplefilter("ignore", LeapWarning)
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"training stays": STAYS, "test": {}}
    data = load("sepsis")
    train = data.train.take(np.arange(STAYS))
    for name, model in (("leap+", "leap+"), ("the race", "auto")):
        if name in found["test"]:
            continue
        made = LeapClassifier(model, intensity=True).fit(train, validation=data.validation)
        rows = {name: judged(made.fitted_, data)}
        if model == "leap+":
            beside = fit_baselines(train, data.validation, made.fitted_.preprocessor)
            rows |= {key: judged(one, data) for key, one in beside.items()}
        else:
            found["race"] = [
                {key: row.get(key) for key in ("candidate", "loss", "seconds", "weight", "why")} for row in made.race_
            ]
        found["test"] |= rows
        found["commit"] = {**found.get("commit", {}), **dict.fromkeys(rows, commit())}
        write_text(RESULTS, json_text(found, indent=2))


if __name__ == "__main__":
    main()
