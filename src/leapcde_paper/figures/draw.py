"""Charts drawn with Matplotlib, all charts of a figure on one sheet."""

from __future__ import annotations

import io
import textwrap
from typing import Any

import numpy as np

from leapcde.errors import need
from leapcde_paper.figures.look import look

ACROSS = 2
MANY = 12  # points of a line: more of them have no markers
LETTERS = 40  # of a title, in a line above one chart


def sheet(figure: dict[str, Any]) -> Any:
    """A Matplotlib figure with all charts, its budget below the title."""
    charts = figure["charts"]
    down = -(-len(charts) // ACROSS) or 1
    across = min(ACROSS, len(charts)) or 1
    made = need("matplotlib.figure", "plot").Figure(figsize=(5.2 * across, 3.4 * down + 0.5), layout="constrained")
    made.suptitle(f"{figure['title']}\nbudget {figure['budget']}", fontsize=11)
    for i, chart in enumerate(charts):
        axis = made.add_subplot(down, across, i + 1)
        axis.spines[["top", "right"]].set_visible(False)
        (_ranks if chart["kind"] == "ranks" else _plot)(axis, chart)
    _legend(made)
    return made


def files(figure: dict[str, Any]) -> dict[str, bytes]:
    """The sheet as PNG and SVG."""
    made, found = sheet(figure), {}
    for kind in ("png", "svg"):
        file = io.BytesIO()
        # Without a date and without random names in it, the same numbers give the same file.
        with need("matplotlib", "plot").rc_context({"svg.hashsalt": "leapcde"}):
            made.savefig(file, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)
        found[kind] = file.getvalue()
    return found


def _plot(axis: Any, chart: dict[str, Any]) -> None:
    for one in chart["series"]:
        shown = look(one["name"])
        size, width, order = (7, 1.8, 3) if shown.front else (4, 1.0, 2)
        style = {"color": shown.colour, "label": one["name"], "ms": size, "lw": width, "zorder": order}
        dots = one.get("dots", chart["kind"] == "scatter")
        if dots and len(one["x"]) > MANY:  # a cloud
            style |= {"ms": 3, "alpha": 0.7}
        line = shown.marker if dots else "-" if chart.get("plain") or len(one["x"]) > MANY else f"{shown.marker}-"
        if one["err"] and None not in one["err"]:
            axis.errorbar(one["x"], one["y"], one["err"], fmt=line, capsize=2, **style)
        else:
            axis.plot(one["x"], one["y"], line, **style)
    axis.set_title(chart["title"], fontsize=10, parse_math=False)
    axis.set_xlabel(chart["x"])
    axis.set_ylabel(chart["y"], parse_math=False)
    _scales(axis, chart)


def _scales(axis: Any, chart: dict[str, Any]) -> None:
    xs, ys = ([value for one in chart["series"] for value in one[key]] for key in ("x", "y"))
    if chart["logx"]:
        _log_ticks(axis, xs)
    elif all(float(x).is_integer() for x in xs):
        axis.xaxis.set_major_locator(need("matplotlib.ticker", "plot").MaxNLocator(integer=True))
    if chart["logy"] and all(y > 0 for y in ys):
        axis.set_yscale("log")
    if chart.get("reach"):  # what is nearly level looks so
        low, high = axis.get_ylim()
        missing = max(0.0, chart["reach"] * abs(np.mean(ys)) - (high - low)) / 2
        axis.set_ylim(low - missing, high + missing)


def _legend(made: Any) -> None:
    """One for all charts, below them: within a chart it would lie on what is drawn."""
    known = {label: line for axis in made.axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if len(known) > 1:
        made.legend(
            known.values(), known.keys(), loc="outside lower center", frameon=False, fontsize=8, ncols=min(5, len(known))
        )


def _log_ticks(axis: Any, values: list[float]) -> None:
    """Plain numbers, and few of them: powers of ten, with 2 and 5 between them where the range is small."""
    ticker = need("matplotlib.ticker", "plot")
    axis.set_xscale("log")
    steps = (1.0, 2.0, 5.0) if max(values) < 100 * min(values) else (1.0,)
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=steps))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())


def _ranks(axis: Any, chart: dict[str, Any]) -> None:
    """A point for each model at its average rank; a bar behind it reaches as far as no difference is established."""
    for one in chart["series"]:
        x, y = one["x"][0], one["y"][0]
        axis.plot([x - chart["critical"] / 2, x + chart["critical"] / 2], [y, y], color="#d1d5db", lw=5, solid_capstyle="butt")
        axis.plot(x, y, "o", color=look(one["name"]).colour, ms=6)
    axis.set_yticks([one["y"][0] for one in chart["series"]], [one["name"] for one in chart["series"]])
    axis.set_title(textwrap.fill(chart["title"], LETTERS), fontsize=8)
    axis.set_xlabel("average rank (1 is best)\nbars that do not overlap differ")
    axis.set_xlim(left=min(0.5, *np.ravel([one["x"] for one in chart["series"]])))
