"""An alarm in every hour of an intensive-care stay, six hours before sepsis: the default model beside boosted trees.

    LEAPCDE_DATA=data python benchmarks/sepsis_hourly.py  # half an hour on a slow core; writes a record and a picture
    make numbers                                          # puts the record into docs/guide/every-row.md

What was learned is kept in --keep: a run that was stopped goes on from there. The threshold of alarms is chosen on validation
data; test data is looked at once, and nothing is chosen by it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
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

STAYS, EPOCHS = 28_235, 7  # all stays of the training part
CHOOSING = 2_000  # validation stays that choose the weights and the rounds, and calibrate; all of them set the threshold
STREAMED = 20  # test stays that are streamed, hour by hour
ROOT = Path(__file__).parent.parent
RESULTS, PICTURE = ROOT / "results" / "sepsis-hourly.json", ROOT / "docs" / "guide" / "every-row.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stays", type=int, default=STAYS, help="that train, the model and the trees")
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
    found = {name: kept(asked, f"{name} in numbers", lambda one=one: _plain(judged(one, data))) for name, one in fitted.items()}
    found = {part: {name: _rounded(of[part]) for name, of in found.items()} for part in ("validation", "test")}
    _draw(classifier, data.test, found["test"]["leap+"]["threshold"])
    return {
        "training stays": len(train),
        "all training stays": len(data.train),
        "training hours": len(train.times),
        "test stays": len(data.test),
        "streamed stays": STREAMED,
        "epochs": asked.epochs,
        "seed": asked.seed,
        "minutes": {name: round(json.loads((asked.keep / f"{name} minutes.json").read_text()), 1) for name in fitted},
        "largest difference from streaming": kept(asked, "streams", lambda: _streamed(classifier, some(data.test, STREAMED))),
        **found,
    }


def kept(asked: argparse.Namespace, name: str, found: Callable[[], Any]) -> Any:
    """What was found, from its file if it is there."""
    path = asked.keep / f"{name}.json"
    if not path.exists():
        write_text(path, json_text(found(), indent=1))
    return json.loads(path.read_text())


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
    kept(asked, "leap+ minutes", lambda: sum(row["seconds"] for row in made.history_) / 60)
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
            kept(asked, f"{name} minutes", lambda began=began: (time.process_time() - began) / 60)
        found[name] = leapcde.load(path).fitted_
    return found


def _rounded(numbers: dict[str, float | None]) -> dict[str, float | None]:
    return {key: None if value is None else round(value, 4) for key, value in numbers.items()}


def _plain(parts: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {part: {key: float(value) for key, value in of.items()} for part, of in parts.items()}


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
