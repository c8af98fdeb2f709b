"""The picture of docs/speed.md: how accurate each model is in the end, against all the seconds that its training took.

`make numbers` draws it from the records (`python -m leapcde_paper.figures.time_picture`). Seconds are processor time on one
core where the record holds it, and those of the machine that made the record: they say which model is cheap, no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leapcde.errors import need
from leapcde.files import write_text
from leapcde_paper.figures.look import OURS, PAPERS, SIMPLE
from leapcde_paper.figures.readme_picture import as_svg
from leapcde_paper.paper_numbers import LABELS, OTHER_SPEECH
from leapcde_paper.rows import BASELINES, PLUS
from leapcde_paper.run.records import Record, read_all
from leapcde_paper.studies import preset
from leapcde_paper.tables.table import by_key, of_settings, score

PANELS = {"Character Trajectories, 30 % dropped": ("character", "30 %"), OTHER_SPEECH: ("speech", OTHER_SPEECH)}
SHOWN = {*LABELS.values(), PLUS.label, BASELINES["minirocket"]}
COLOURS = {PLUS.label: OURS, "LEAP": PAPERS, BASELINES["minirocket"]: SIMPLE}
OTHERS = "#6b7280"
TICKS = (10, 20, 50, 100, 200, 500, 1000)
LETTER = 6.0  # pixels of a letter's width, on average, at the size of these names and 100 dots an inch
NOTE = "Seconds are processor time of the machines that made the records (results/standard), compilation included."


class Point(NamedTuple):
    seconds: float  # mean over seeds, of a whole training
    accuracy: float  # on test data, mean over seeds


def seconds_of(record: Record) -> float:
    """Processor time of a whole training; the time that it lasted where a record holds nothing else."""
    rows = record["history"]
    if rows and all("cpu_seconds" in row for row in rows):
        return sum(row["cpu_seconds"] for row in rows)
    return record["seconds"]


def seconds_until(record: Record, accuracy: float) -> float | None:
    """Processor time until validation data was first classified so well; None if that never was."""
    spent = np.cumsum([row.get("cpu_seconds", row["seconds"]) for row in record["history"]])
    there = [row["accuracy"] >= accuracy for row in record["history"]]
    return float(spent[np.argmax(there)]) if any(there) else None


def points(folder: Path) -> dict[str, dict[str, Point]]:
    """By panel and row: what a training took, and what it reached."""
    records, found = by_key(read_all(folder)), {}
    for title, (study, column) in PANELS.items():
        there = of_settings(preset(study, "standard"), records)
        mine = {row: some for (row, label), some in there.items() if label == column and row in SHOWN and some}
        mean = lambda numbers: float(np.mean(list(numbers)))
        found[title] = {row: Point(mean(map(seconds_of, some)), mean(map(score, some))) for row, some in mine.items()}
    return found


def draw(found: dict[str, dict[str, Point]]) -> Any:
    """A Matplotlib figure, a panel for each data set."""
    made = need("matplotlib.figure", "plot").Figure(figsize=(10.0, 4.4), layout="constrained")
    for i, (title, mine) in enumerate(found.items()):
        axis = made.add_subplot(1, len(found), i + 1)
        axis.spines[["top", "right"]].set_visible(False)
        for row, point in mine.items():
            axis.plot(point.seconds, point.accuracy, "o", ms=5, color=COLOURS.get(row, OTHERS))
        axis.set_xscale("log")
        low, high = axis.get_xlim()
        axis.set_xticks(ticks := [tick for tick in TICKS if low <= tick <= high], map(str, ticks))
        axis.minorticks_off()
        lowest = sorted(point.accuracy for point in mine.values())[1]  # one that is far below would squeeze all others
        axis.set_ylim(lowest - 0.01, max(point.accuracy for point in mine.values()) + 0.01)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("seconds of training")
    made.axes[0].set_ylabel("test accuracy")
    made.supxlabel(NOTE, fontsize=7)
    made.draw_without_rendering()  # from here on it is known where each point lies
    for axis, mine in zip(made.axes, found.values(), strict=True):
        name(axis, mine)
    return made


def name(axis: Any, mine: dict[str, Point]) -> None:
    """Names beside their points, on the first side where none lies over another name or point."""
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in (axis.transData.transform(point) for point in mine.values())]
    for row, point in sorted(mine.items(), key=lambda item: item[1].seconds):
        x, y = axis.transData.transform(point)
        wide, high = LETTER * len(row), 1.5 * LETTER
        places = [(x + 5, y - high / 2), (x - 5 - wide, y - high / 2)]
        places += [(x + dx, y + dy) for dy in (5, -5 - high, 14, -14 - high) for dx in (-wide / 2, 2, -wide - 2)]
        places = [at for at in places if at[0] > axis.bbox.x0]
        free = [at for at in places if not any(_over((*at, at[0] + wide, at[1] + high), other) for other in taken)]
        left, low = (free or places)[0]
        taken.append((left, low, left + wide, low + high))
        shift = {"xytext": (72 * (left - x) / axis.figure.dpi, 72 * (low - y) / axis.figure.dpi), "textcoords": "offset points"}
        axis.annotate(row, point, **shift, fontsize=7, color=COLOURS.get(row, OTHERS))


def _over(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return bool(one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3])


if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    write_text(ROOT / "docs" / "speed-accuracy.svg", as_svg(draw(points(ROOT / "results" / "standard"))))
