"""An alarm in every hour of an intensive-care stay, six hours before sepsis: the default model beside boosted trees.

    LEAPCDE_DATA=data python benchmarks/sepsis_hourly.py     # about ten minutes on one core; writes results/ and docs/guide/

The threshold of alarms is chosen on validation data; test data is looked at once, and nothing is chosen by it.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from leapcde import LeapClassifier
from leapcde.baselines.fitted import fit_baselines
from leapcde.data.series import Series
from leapcde.datasets.registry import load
from leapcde.errors import LeapWarning
from leapcde.estimators.run import judged
from leapcde.explain.over_time import plot_over_time
from leapcde.files import json_text, write_text

STAYS = 12_000  # of the training part, so that it takes minutes
STREAMED = 20  # test stays that are streamed, hour by hour
ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "results" / "sepsis-hourly.json", ROOT / "docs" / "guide" / "every-row.md"
PICTURE = PAGE.with_suffix(".svg")
COLUMNS = {"auroc": "AUROC", "auprc": "AUPRC", "brier": "Brier score", "ece": "calibration error", "utility": "utility"}
TITLES = {"leap+": "`leap+`, causal", "class-prior": "*class prior*", "boosted-trees": "*boosted trees on running summaries*"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stays", type=int, default=STAYS)
    parser.add_argument("--epochs", type=int, default=None, help="default: chosen from the data")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", LeapWarning)
    data = load("sepsis-hourly")
    train = data.train.take(np.arange(asked.stays))
    began = time.process_time()
    classifier = LeapClassifier(target_per="row", epochs=asked.epochs, verbose=1).fit(train, validation=data.validation)
    seconds = {"leap+": time.process_time() - began}
    began = time.process_time()
    fitted = {"leap+": classifier.fitted_, **fit_baselines(train, data.validation, classifier.fitted_.preprocessor)}
    seconds["baselines"] = time.process_time() - began
    found = {name: _rounded(judged(one, data)["test"]) for name, one in fitted.items()}
    about = {"training stays": asked.stays, "training hours": len(train.times), "epochs": classifier.n_iter_}
    about["largest difference from streaming"] = _streamed(classifier, data.test.take(np.arange(STREAMED)))
    write_text(RESULTS, json_text({**about, "processor seconds": _rounded(seconds, 0), "test": found}, indent=2))
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))))
    _draw(classifier, data.test, found["leap+"]["threshold"])


def filled(text: str, record: dict[str, Any]) -> str:
    """The page with the table of a record."""
    rows = record["test"]
    cells = lambda of: " | ".join(f"{of[key]:.3f}" for key in COLUMNS)
    lines = [f"| {record['training stays']:,} stays train | {' | '.join(COLUMNS.values())} |", "|---|" + "---:|" * len(COLUMNS)]
    lines += [f"| {TITLES[name]} | {cells(of)} |" for name, of in rows.items()]
    table = "\n".join(lines)
    text = re.sub(r"(<!-- hourly -->\n).*?(<!-- end -->)", lambda found: f"{found[1]}{table}\n{found[2]}", text, flags=re.S)
    return re.sub(r"largest difference was [^ ]+\.", f"largest difference was {_small(record)}.", text)


def _small(record: dict[str, Any]) -> str:
    return f"{record['largest difference from streaming']:.0e}".replace("e-0", "e-")


def _rounded(numbers: dict[str, float], places: int = 4) -> dict[str, float]:
    return {key: round(float(value), places) for key, value in numbers.items()}


def _streamed(classifier: LeapClassifier, stays: Series) -> float:
    """How far the answers of a stream are from those of `predict_proba`, at most."""
    most = 0.0
    for i, said in enumerate(classifier.predict_proba(stays)):
        stream = classifier.stream(static=None if stays.static is None else stays.static[i])
        for row, (t, x) in enumerate(zip(*stays.sample(i), strict=True)):
            most = max(most, float(np.abs(stream.push(t, x).predict_proba() - said[row]).max()))
    return most


def _draw(classifier: LeapClassifier, test: Series, threshold: float) -> None:
    """The first test stay of 30 hours or more whose sepsis comes late enough to be seen coming."""
    ill = np.minimum.reduceat(np.where(test.target == 1, test.times, np.inf), test.offsets[:-1])
    i = int(np.flatnonzero((ill > 24) & np.isfinite(ill) & (test.lengths >= 30))[0])
    figure = plot_over_time(classifier.fitted_, test, i, ["HR", "Resp", "Temp"], threshold=threshold)
    with matplotlib.rc_context({"svg.hashsalt": "leapcde", "svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
