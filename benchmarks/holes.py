"""How well LeapImputer fills what was forgotten of real series, beside four interpolations: benchmarks/holes.json.

    python benchmarks/holes.py DATA_DIR [NAME …]

Training sees series with the same kind of holes, never the truth. Errors are mean squares in deviations of each channel.
`table` is the table of docs/guide/holes.md.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leapcde import LeapImputer, LeapWarning, Series, as_series
from leapcde.data.split import hold_out
from leapcde.datasets import character_trajectories, hopper, sepsis
from leapcde.estimators.holes.asked import NAMES, own_times, path_of, questions

HERE = Path(__file__).parent
RECORD = HERE / "holes.json"
SEEDS = (0, 1, 2)
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


def measure(name: str, folder: Path, seed: int) -> dict[str, Any]:
    whole, rate, width = DATA[name](folder)
    train, test = hold_out(replace(whole, target=None), 0.2, seed=7)
    began = time.perf_counter()
    imputer = LeapImputer(seed=seed).fit(forgotten(train, rate, width, 1) if width == 1 else train)
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


def table(record: dict[str, list[dict[str, Any]]]) -> str:
    """Markdown, the best of each column in bold."""
    rows = {"last value": "last value", "hermite": "backward Hermite", "natural cubic": "natural cubic spline"}
    rows |= {
        "straight line": "straight line",
        "learned": "learned path",
        "chosen": "**LeapImputer** (the best for each channel)",
    }
    mean = {name: {n: np.mean([run["errors"][n] for run in runs]) for n in rows} for name, runs in record.items()}
    names = [name for name in TITLES if name in record]
    lines = [f"| filled by | {' | '.join(TITLES[name] for name in names)} |", "|---|" + "---:|" * len(names)]
    for n, title in rows.items():
        cells = [f"**{x:.3g}**" if (x := mean[name][n]) == min(mean[name].values()) else f"{x:.3g}" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    best = [min(mean[name][n] for n in list(rows)[:4]) for name in names]
    ratio = [f"{mean[name]['chosen'] / other:.2f} ×" for name, other in zip(names, best, strict=True)]
    within = [f"{np.mean([run['within spread'] for run in record[name]]):.0%}".replace("%", " %") for name in names]
    lines.append(f"| LeapImputer / best interpolation | {' | '.join(ratio)} |")
    lines.append(f"| truth within the spread | {' | '.join(within)} |")
    return "\n".join(lines)


def main(folder: str, *names: str) -> None:
    warnings.simplefilter("ignore", LeapWarning)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for name in names or DATA:
        record[name] = [measure(name, Path(folder), seed) for seed in SEEDS]
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    page = HERE.parent / "docs" / "guide" / "holes.md"
    page.write_text(filled(page.read_text(), record))


def filled(page: str, record: dict[str, list[dict[str, Any]]]) -> str:
    """The page with its table."""
    return re.sub(r"(?<=<!-- holes -->\n).*?(?=<!-- end -->)", lambda _: table(record) + "\n", page, count=1, flags=re.S)


if __name__ == "__main__":
    main(*sys.argv[1:])
