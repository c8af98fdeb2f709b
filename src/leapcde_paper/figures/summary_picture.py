"""All models on all data sets in one picture: how many times LEAP+'s error each makes. Writes docs/summary.svg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leapcde.errors import need
from leapcde.files import write_text
from leapcde_paper.figures.look import OTHER, OURS, PAPERS, SIMPLE
from leapcde_paper.figures.readme_picture import as_svg
from leapcde_paper.rows import BASELINES, PLUS
from leapcde_paper.run.records import read_all
from leapcde_paper.studies import preset
from leapcde_paper.tables.summary import MAIN, Errors, best_others, main_columns, relative_errors
from leapcde_paper.tables.table import by_key

COLOURS = {PLUS.label: OURS, "LEAP": PAPERS}
KINDS = {
    "LEAP+": ("o", COLOURS[PLUS.label]),
    "LEAP, the paper's": ("o", COLOURS["LEAP"]),
    "twelve other networks": ("o", OTHER),
    "no network": ("D", SIMPLE),
}
FAR = 30  # times LEAP+'s error: the picture ends there
NOTE = "Error: the share of wrong answers (of wrongly ordered pairs on Sepsis), or the mean squared error. Means over seeds."


def errors(folder: Path) -> Errors:
    """From the records of a folder."""
    return relative_errors(main_columns([preset(study, "standard") for study, _ in MAIN.values()], by_key(read_all(folder))))


def draw(found: Errors) -> Any:
    """A Matplotlib figure, a line for each data set; the best network and the best of what is none have their names."""
    made = need("matplotlib.figure", "plot").Figure(figsize=(9.0, 3.4), layout="constrained")
    axis = made.add_subplot()
    axis.spines[["top", "right", "left"]].set_visible(False)
    for y, mine in enumerate(reversed(found.values())):
        axis.axhline(y, color="#e5e7eb", lw=1, zorder=0)
        for row, error in mine.items():
            colour = SIMPLE if row in BASELINES.values() else COLOURS.get(row, OTHER)
            axis.plot(error, y, "D" if row in BASELINES.values() else "o", color=colour, ms=8 if row == PLUS.label else 5)
        _name_the_best(axis, mine, y)
        beyond = sum(error > FAR for error in mine.values())
        there = {"xy": (FAR, y), "xytext": (0, -11), "textcoords": "offset points", "ha": "right"}
        axis.annotate(f"{beyond} more →" if beyond else "", **there, fontsize=7, color="#374151")
    axis.axvline(1, color=COLOURS[PLUS.label], lw=1, ls=":", zorder=0)
    axis.set_xscale("log")
    axis.set_xlim(right=FAR)
    axis.set_xticks([0.5, 1, 2, 5, 10, 20], ["½", "1", "2", "5", "10", "20 ×"])
    axis.set_yticks(range(len(found)), list(reversed(found)))
    axis.tick_params(left=False, which="both")
    axis.set_ylim(-0.6, len(found) - 0.6)
    axis.set_xlabel("test error divided by LEAP+'s (left is better)")
    for label, (mark, colour) in KINDS.items():
        axis.plot([], [], mark, color=colour, label=label)
    axis.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=4, frameon=False, fontsize=8)
    made.supxlabel(NOTE, fontsize=7)
    return made


def _name_the_best(axis: Any, mine: dict[str, float], y: int) -> None:
    for row in best_others(mine):
        above, colour = (-13, SIMPLE) if row in BASELINES.values() else (7, "#374151")
        axis.annotate(row, (mine[row], y), xytext=(0, above), textcoords="offset points", fontsize=7, color=colour)


if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    write_text(ROOT / "docs" / "summary.svg", as_svg(draw(errors(ROOT / "results" / "standard"))))
