"""The default estimator on PhysioNet Sepsis beside the baselines: are its probabilities frequencies, and is it ahead?

    LEAPCDE_DATA=data python benchmarks/sepsis_probabilities.py     # five minutes on one core; writes results/

Test data is looked at once; nothing is chosen by it.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from leapcde import LeapClassifier
from leapcde.baselines.fitted import fit_baselines
from leapcde.datasets.registry import load
from leapcde.errors import LeapWarning
from leapcde.files import json_text, write_text

STAYS = 12_000  # of the training part, so that it takes minutes
RESULTS = Path(__file__).parent.parent / "results" / "sepsis-probabilities.json"


def main() -> None:
    warnings.simplefilter("ignore", LeapWarning)
    data = load("sepsis")
    train = data.train.take(np.arange(STAYS))
    fitted = LeapClassifier(intensity=True).fit(train, validation=data.validation).fitted_
    found = {"leap+": fitted, **fit_baselines(train, data.validation, fitted.preprocessor)}
    rows = {
        name: {key: round(float(value), 4) for key, value in one.evaluate(data.test).items()} for name, one in found.items()
    }
    write_text(RESULTS, json_text({"training stays": STAYS, "test": rows}, indent=2))


if __name__ == "__main__":
    main()
