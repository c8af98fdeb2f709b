"""How well LeapImputer fills what was forgotten of real series, and LeapDetector finds spikes in them: benchmarks/holes.json.

    python benchmarks/holes.py DATA_DIR [NAME …]

Training sees series with the same kind of holes, never the truth. Errors are mean squares in deviations of each channel.
The tables of docs/guide/holes.md are made of it.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from leapcde import LeapDetector, LeapImputer, LeapWarning, Series, as_series
from leapcde.data.drop import without_empty_rows
from leapcde.data.scale import Scaler
from leapcde.data.split import hold_out
from leapcde.datasets import character_trajectories, hopper, sepsis
from leapcde.estimators.holes.asked import NAMES, own_times, path_of, questions

HERE = Path(__file__).parent
RECORD = HERE / "holes.json"
SPIKES = 0.01  # of observations, that are moved by up to two deviations of their channel
SMALLEST, LARGEST = 0.2, 2.0
TITLES = {
    "character-trajectories": "Character Trajectories, 70 % dropped",
    "sepsis": "PhysioNet Sepsis (3,000 stays), 30 % of values hidden",
    "hopper": "Hopper (600 simulations), 50 % dropped",
}


def letters(folder: Path) -> tuple[Series, float, int]:
    return character_trajectories.read(folder, character_trajectories.Options()).series, 0.7, 1


def stays(folder: Path) -> tuple[Series, float, int]:
    whole = sepsis.read(folder, sepsis.Options()).series
    return whole.take(np.sort(np.random.default_rng(0).permutation(len(whole))[:3000])), 0.3, whole.values.shape[1]


def hoppers(folder: Path) -> tuple[Series, float, int]:
    return as_series(hopper.bundled()[:600].astype(float)), 0.5, 1


DATA: dict[str, Callable[[Path], tuple[Series, float, int]]] = {
    "character-trajectories": letters,
    "sepsis": stays,
    "hopper": hoppers,
}


def forgotten(series: Series, rate: float, width: int, seed: int) -> Series:
    """Without a share of the rows (`width` 1) or of single observations; each sample's first and last row stay."""
    gone = np.random.default_rng(seed).random((len(series.times), width)) < rate
    gone[series.offsets[:-1]] = gone[series.offsets[1:] - 1] = False
    return replace(series, values=np.where(gone, np.nan, series.values), target=None, static=None)


def fill(name: str, folder: Path) -> dict[str, Any]:
    """Errors of every path at what was forgotten of test samples."""
    whole, rate, width = DATA[name](folder)
    train, test = hold_out(replace(whole, target=None, static=None), 0.2, seed=7)
    began = time.perf_counter()
    imputer = LeapImputer().fit(forgotten(train, rate, width, 1) if width == 1 else train)
    seconds = time.perf_counter() - began
    seen, scaler = forgotten(test, rate, width, 2), imputer.fitted_.preprocessor.scaler
    asked = np.isnan(seen.values) & ~np.isnan(test.values)
    off = lambda values: (values - scaler.scale(test.values))[asked]
    questioned = questions(imputer.fitted_.preprocessor, seen, own_times(seen))
    inside = np.arange(seen.lengths.max()) < seen.lengths[:, None]
    found = {n: off(path_of(imputer.fitted_.model, n, *questioned)[inside]) for n in NAMES}
    found["chosen"] = off(scaler.scale(imputer.transform(seen).values))
    near = np.abs(imputer.transform(seen).values - test.values)[asked] < imputer.spread(seen).values[asked]
    errors = {n: float(np.mean(error**2)) for n, error in found.items()}
    learned = sum(chosen == "learned" for chosen in imputer.chosen_.values())
    about = {"within spread": float(near.mean()), "channels": len(imputer.chosen_), "learned channels": learned}
    return {"errors": errors, **about, "seconds": round(seconds, 1), "epochs": imputer.n_iter_}


def find(name: str, folder: Path) -> dict[str, Any]:
    """Spikes in test samples: how well scores tell them apart, how many raise an alarm, and how often there is a false one."""
    whole, rate, width = DATA[name](folder)
    train, test = (replace(part, target=None, static=None) for part in hold_out(whole, 0.2, seed=7))
    if width == 1:
        train, test = (without_empty_rows(forgotten(part, rate, width, 1)) for part in (train, test))
    rng = np.random.default_rng(3)
    detector = LeapDetector().fit(train)
    scaler = detector.fitted_.preprocessor.scaler
    seen = ~np.isnan(test.values)
    spike = (rng.random(test.values.shape) < SPIKES) & seen
    size = rng.uniform(SMALLEST, LARGEST, spike.shape) * rng.choice([-1, 1], spike.shape) * np.array(scaler.std)
    moved = replace(test, values=test.values + spike * size)
    scores = {"LeapDetector": np.concatenate(detector.score_samples(moved)), "straight line": line_scores(moved, scaler)}
    scores["far from the mean"] = np.abs(scaler.scale(moved.values))
    alarm = np.concatenate(detector.predict(moved))
    false = np.concatenate(detector.predict(test))[seen].mean()
    ranking = {n: float(average_precision_score(spike[seen], np.nan_to_num(s[seen]))) for n, s in scores.items()}
    return {"precision": ranking, "found": float(alarm[spike].mean()), "false alarms": float(false)}


def line_scores(series: Series, scaler: Scaler) -> np.ndarray:
    """Distance of each observation from the straight line between those before and after it, in usual distances."""
    off = np.full(series.values.shape, np.nan)
    for start, end in pairwise(series.offsets):
        t, x = series.times[start:end], scaler.scale(series.values[start:end])
        for c in range(x.shape[1]):
            there = np.flatnonzero(~np.isnan(x[:, c]))
            if len(there) > 2:
                i, before, after = there[1:-1], there[:-2], there[2:]
                share = (t[i] - t[before]) / (t[after] - t[before])
                off[start + i, c] = np.abs(x[i, c] - (1 - share) * x[before, c] - share * x[after, c])
    return off / np.maximum(np.nanmedian(off, 0), 1e-9)


def found_table(record: dict[str, Any]) -> str:
    names = [name for name in TITLES if name in record]
    lines = [f"| scored by | {' | '.join(TITLES[name].partition(',')[0] for name in names)} |", "|---|" + "---:|" * len(names)]
    for n in ("far from the mean", "straight line", "LeapDetector"):
        title = (
            f"**{n}**"
            if n == "LeapDetector"
            else "distance from " + ("the mean" if "mean" in n else "the line between neighbours")
        )
        best = lambda name: max(record[name]["precision"].values())
        cells = [f"**{x:.2f}**" if (x := record[name]["precision"][n]) == best(name) else f"{x:.2f}" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for key, title in (("found", "spikes that raise an alarm"), ("false alarms", "false alarms, of 1 % allowed")):
        cells = [f"{100 * record[name][key]:.2g} %" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(record: dict[str, Any]) -> str:
    """Markdown, the best of each column in bold."""
    rows = {"last value": "last value", "hermite": "backward Hermite", "natural cubic": "natural cubic spline"}
    rows |= {
        "straight line": "straight line",
        "learned": "learned path",
        "chosen": "**LeapImputer** (the best for each channel)",
    }
    mean = {name: run["errors"] for name, run in record.items()}
    names = [name for name in TITLES if name in record]
    lines = [f"| filled by | {' | '.join(TITLES[name] for name in names)} |", "|---|" + "---:|" * len(names)]
    for n, title in rows.items():
        cells = [f"**{x:.3g}**" if (x := mean[name][n]) == min(mean[name].values()) else f"{x:.3g}" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    best = [min(mean[name][n] for n in list(rows)[:4]) for name in names]
    ratio = [f"{mean[name]['chosen'] / other:.2f} ×" for name, other in zip(names, best, strict=True)]
    within = [f"{100 * record[name]['within spread']:.0f} %" for name in names]
    lines.append(f"| LeapImputer / best interpolation | {' | '.join(ratio)} |")
    lines.append(f"| truth within the spread | {' | '.join(within)} |")
    return "\n".join(lines)


def main(folder: str, *names: str) -> None:
    warnings.simplefilter("ignore", LeapWarning)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"filled": {}, "found": {}}
    for name in names or DATA:
        for part, what in (("filled", fill), ("found", find)):
            record[part][name] = what(name, Path(folder))
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    page = HERE.parent / "docs" / "guide" / "holes.md"
    page.write_text(filled(page.read_text(), record))


def filled(page: str, record: dict[str, Any]) -> str:
    """The page with its tables."""
    for part, text in (("filled", table(record["filled"])), ("found", found_table(record["found"]))):
        page = re.sub(rf"(?<=<!-- {part} -->\n).*?(?=<!-- end -->)", lambda _: text + "\n", page, count=1, flags=re.S)  # noqa: B023
    return page


if __name__ == "__main__":
    main(*sys.argv[1:])
