"""The picture of README.md: a letter of which most was lost, the path X through the rest, and the path Y that LEAP+ learned.

    LEAPCDE_DATA=data python -m leapcde_paper.figures.readme_picture learn     # a minute; writes results/front.json

`make numbers` draws it from that record (`python -m leapcde_paper.figures.readme_picture`).
"""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.datasets.registry import load
from leapcde.errors import need
from leapcde.files import json_text, write_text
from leapcde.training.fitted import train_model
from leapcde_paper import budgets

DATA, DROP, SEED = "character-trajectories", 0.7, 7  # a seed that no table has
CHANNEL = 2  # how hard the pen presses
POINTS = 200
RECORD = Path("results", "front.json")


def learn() -> dict[str, Any]:
    """What LEAP+ and a natural spline make of every other row of the first test sample, of which 70 % were lost already."""
    config = budgets.config(budgets.budget("standard"), DATA, DROP, "leap+", {}, {})
    data, whole = load(DATA, drop_rate=DROP), load(DATA).test
    settings = {"model": "leap+", "options": config.options, "recipe": config.recipe, "task": data.task}
    fitted, _ = train_model(data.train, data.validation, **settings, config=replace(config.train, seed=SEED))
    (seen_t, seen), (all_t, all_of_it) = _rows(data.test, every=2), _rows(whole)
    path = fitted.path(as_series([(seen_t, seen)], channels=data.test.channels), POINTS)
    lost = ~np.isin(all_t, seen_t)
    found = {name: path[name][0] for name in ("t", "X", "Y")}
    found |= {"seen_t": seen_t, "seen": seen, "lost_t": all_t[lost], "lost": all_of_it[lost]}
    return {key: np.asarray(value, float).round(4).tolist() for key, value in found.items()}


def _rows(series: Series, every: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of every so manieth row of the first sample that holds something, and of its last."""
    times, values = series.sample(0)
    there = np.flatnonzero(~np.isnan(values).all(1))
    kept = np.union1d(there[::every], there[-1:])
    return times[kept], values[kept]


def draw(found: dict[str, Any]) -> Any:
    """A Matplotlib figure of one channel of that sample, with the error of both paths where rows were lost."""
    found = {key: np.asarray(value) for key, value in found.items()}
    made = need("matplotlib.figure", "plot").Figure(figsize=(9.0, 2.8), layout="constrained")
    axis = made.add_subplot()
    axis.spines[["top", "right"]].set_visible(False)
    lost = found["lost_t"] < found["seen_t"].max()  # what comes later is no hole
    found |= {"lost_t": found["lost_t"][lost], "lost": found["lost"][lost, CHANNEL]}
    axis.plot(found["lost_t"], found["lost"], "o", mfc="white", color="#f59e0b", ms=4, label="lost: never shown")
    axis.plot(found["t"], found["Y"][:, CHANNEL], color="#2563eb", lw=2.4, label=f"learned path: error {_error(found, 'Y')}")
    axis.plot(found["t"], found["X"][:, CHANNEL], color="#6b7280", lw=1.0, ls="--", label=f"spline: error {_error(found, 'X')}")
    axis.plot(found["seen_t"], found["seen"][:, CHANNEL], ".", color="black", ms=7, label="observed")
    axis.set_ylabel("pressure of the pen")
    axis.set_xlabel("time")
    axis.legend(frameon=False, fontsize=8)
    return made


def _error(found: dict[str, Any], path: str) -> str:
    """Mean squared, at what was lost."""
    return f"{np.mean((np.interp(found['lost_t'], found['t'], found[path][:, CHANNEL]) - found['lost']) ** 2):.4f}"


def as_svg(figure: Any) -> str:
    """The same figure always gives the same text: no date and no random names in it."""
    file = io.StringIO()
    with need("matplotlib", "plot").rc_context({"svg.hashsalt": "leapcde"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def front(root: Path) -> str:
    """The picture from the record in a source tree."""
    return as_svg(draw(json.loads((root / RECORD).read_text())))


if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    if sys.argv[1:] == ["learn"]:
        write_text(ROOT / RECORD, json_text(learn()))
    write_text(ROOT / "docs" / "front.svg", front(ROOT))
