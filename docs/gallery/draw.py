"""The pictures of docs/gallery.md: python docs/gallery/draw.py NAME … [--out FOLDER] (all if none is named).

Each trains a model for about a minute on data that is bundled or simulated; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import io
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from leapcde import LeapClassifier, LeapForecaster, LeapSurvival, LeapWarning
from leapcde.datasets import hopper
from leapcde.datasets.simulated import patients
from leapcde.explain import plots
from leapcde.explain.explanation import reliability_figure
from leapcde.files import write_text
from leapcde.training.events.metrics import at_times, calibration_curve, kaplan_meier

CHANNELS = (1, 3)  # of the hopper: its angle, and one of its joints


@cache
def falls() -> tuple[Any, np.ndarray, np.ndarray]:
    """Which hoppers lie low at the end, from 40 % of their first 25 rows; a classifier, and the series that it did not see."""
    whole, rng = hopper.bundled()[:500].astype(float), np.random.default_rng(0)
    X, y = whole[:, :25, :5], (whole[:, -1, 0] < np.median(whole[:, -1, 0])).astype(int)
    X = np.where(rng.random(X.shape[:2])[..., None] < 0.6, np.nan, X)
    X[:, [0, -1]] = whole[:, [0, 24], :5]
    names = np.array(["stands", "fell"])[y]
    return LeapClassifier(epochs=20).fit(X[:300], names[:300]), X[300:], names[300:]


@cache
def survival() -> tuple[Any, Any]:
    return LeapSurvival(epochs=20).fit(patients(400, 1).series), patients(600, 2)


def path():
    classifier, X, _ = falls()
    return classifier.explain(X[:1]).plot(0, ["x1", "x3"])


def attribution():
    classifier, X, _ = falls()
    return classifier.explain(X[:1]).plot_importance(0, ["x0", "x1", "x3"])


def reliability():
    classifier, X, y = falls()
    return reliability_figure(classifier.fitted_, classifier._training_series(X, y))[0]


def curves():
    fitted, new = survival()
    times, target = np.linspace(0.0, 20.0, 101), np.asarray(new.series.target)
    ranked = np.argsort(fitted.predict(new.series))
    some = {f"risk {share:.0%} from below": ranked[int(share * len(ranked))] for share in (0.05, 0.5, 0.95)}
    found = fitted.predict_survival_function(new.series.take(list(some.values())), times)
    beside = at_times(*kaplan_meier(target[:, 0] > 0, target[:, 1]), times)
    return plots.plot_survival(times, dict(zip(some, found, strict=True)), "months", beside)


def calibration():
    fitted, new = survival()
    target = np.asarray(new.series.target)
    said = fitted.predict_survival_function(new.series, [6.0])[:, 0]
    return plots.plot_reliability(*calibration_curve(target[:, 0] > 0, target[:, 1], said, 6.0), "no event in six months")


def intervals():
    whole = hopper.bundled()[:200, :60, :4].astype(float)
    forecaster = LeapForecaster(horizon=12, window=24, epochs=12, calibration=0.2).fit(whole[:160])
    past, came = whole[190:191, 20:44], whole[190, 44:56, 1]
    low, high = forecaster.predict_interval(past)
    said = (low[0, :, 1], forecaster.predict(past)[0, :, 1], high[0, :, 1])
    return plots.plot_interval(np.arange(24.0), past[0, :, 1], np.arange(24.0, 36.0), came, said, "x1")


PICTURES: dict[str, Callable[[], Any]] = {
    "path": path,
    "attribution": attribution,
    "reliability": reliability,
    "survival": curves,
    "survival-calibration": calibration,
    "intervals": intervals,
}


def svg(figure: Any) -> str:
    """As text that is the same every time: no date, no random names."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "leapcde", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.M)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *PICTURES], metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    for name in given.names or PICTURES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeapWarning)
            write_text(given.out / f"{name}.svg", svg(PICTURES[name]()))
        print(given.out / f"{name}.svg")


if __name__ == "__main__":
    main()
