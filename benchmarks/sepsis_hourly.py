"""An alarm in every hour of an intensive-care stay, six hours before sepsis: the default model beside boosted trees.

    LEAPCDE_DATA=data python benchmarks/sepsis_hourly.py  # half an hour on one core; writes a record and a picture
    make numbers                                          # puts the record into docs/guide/every-row.md

What was learned is kept in --keep: a run that was stopped goes on from there. The threshold of alarms is chosen on validation
data; test data is looked at once, and nothing is chosen by it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import leapcde
from leapcde import LeapClassifier
from leapcde.baselines.fitted import fit_baseline, kinds_of
from leapcde.data.series import Series
from leapcde.data.split import hold_out, sample_labels
from leapcde.datasets.registry import load
from leapcde.errors import LeapWarning
from leapcde.estimators.certainty.calibrate import calibrated
from leapcde.estimators.run import judged
from leapcde.explain.over_time import plot_over_time
from leapcde.files import json_text, write_text
from leapcde.training.fitted import Fitted

EPOCHS = 6
CHOOSING = 2_000  # validation stays that choose the weights and the rounds, and calibrate; all of them set the threshold
STREAMED = 20  # test stays that are streamed, hour by hour
ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = ROOT / "results" / "sepsis-hourly.json", ROOT / "docs" / "guide" / "every-row.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stays", type=int, help="that train, model and trees; all if not given")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("runs/sepsis-hourly"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore", LeapWarning)
    write_text(RESULTS, json_text(measured(asked), indent=2) + "\n")


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """All numbers of the record, and the picture."""
    data = load("sepsis-hourly")
    train, choosing = some(data.train, asked.stays), some(data.validation, CHOOSING)
    classifier = learned(train, choosing, asked)
    fitted = {"leap+": classifier.fitted_, **beside(train, choosing, classifier, asked)}
    found = {name: _rounded(judged(one, data)["test"]) for name, one in fitted.items()}
    _draw(classifier, data.test, found["leap+"]["threshold"])
    return {
        "training stays": len(train),
        "all training stays": len(data.train),
        "training hours": len(train.times),
        "test stays": len(data.test),
        "streamed stays": STREAMED,
        "epochs": asked.epochs,
        "seed": asked.seed,
        "minutes": json.loads((asked.keep / "minutes.json").read_text()),
        "largest difference from streaming": _streamed(classifier, some(data.test, STREAMED)),
        "test": found,
    }


def some(part: Series, stays: int | None) -> Series:
    """So many stays at random, with their share of those who fall ill: the records of one hospital come before the other's."""
    if stays is None or stays >= len(part):
        return part
    chosen = hold_out(part, stays / len(part), labels=sample_labels(part), seed=0)[1]
    assert chosen is not None
    return chosen


def learned(train: Series, choosing: Series, asked: argparse.Namespace) -> LeapClassifier:
    """The default model, from where its training was stopped, if it was."""
    path = asked.keep / f"leap+-{asked.seed}.safetensors"
    if path.exists():
        return leapcde.load(path)
    made = LeapClassifier(target_per="row", epochs=asked.epochs, seed=asked.seed, verbose=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.fit(train, validation=choosing, checkpoint=asked.keep / f"training-{asked.seed}.safetensors")
    _keep_minutes(asked, "leap+", sum(row["seconds"] for row in made.history_) / 60)
    made.save(path)
    return made


def beside(train: Series, choosing: Series, classifier: LeapClassifier, asked: argparse.Namespace) -> dict[str, Fitted]:
    """The baselines, calibrated on the stays that calibrated the model."""
    found = {}
    for name in kinds_of(classifier.fitted_.preprocessor):
        path = asked.keep / f"{name}-{asked.seed}.safetensors"
        if not path.exists():
            began = time.process_time()
            one = fit_baseline(name, train, choosing, classifier.fitted_.preprocessor, seed=asked.seed)
            calibrated(one, choosing, np.zeros(2))[0].save(path)
            _keep_minutes(asked, name, (time.process_time() - began) / 60)
        found[name] = leapcde.load(path).fitted_
    return found


def _keep_minutes(asked: argparse.Namespace, name: str, minutes: float) -> None:
    path = asked.keep / "minutes.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    write_text(path, json_text({**known, name: round(minutes, 1)}, indent=2))


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
