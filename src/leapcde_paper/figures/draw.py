"""Charts drawn with Matplotlib, all charts of a figure on one sheet."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from leapcde.errors import need

ACROSS = 2
# Told apart by people who see colours differently, and by their markers too.
COLOURS = ("#2563eb", "#ea580c", "#059669", "#7c3aed", "#db2777", "#ca8a04", "#0891b2", "#4b5563", "#65a30d", "#b91c1c")
MARKERS = "osD^vPX<>*"


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
    for i, one in enumerate(chart["series"]):
        look = {"color": COLOURS[i % len(COLOURS)], "label": one["name"], "ms": 4}
        mark = "" if chart.get("plain") else MARKERS[i % len(MARKERS)]
        line = f"{mark}-" if chart["kind"] == "line" else mark
        if one["err"] and None not in one["err"]:
            axis.errorbar(one["x"], one["y"], one["err"], fmt=line, capsize=2, **look)
        else:
            axis.plot(one["x"], one["y"], line, **look)
    axis.set_title(chart["title"], fontsize=10, parse_math=False)
    axis.set_xlabel(chart["x"])
    axis.set_ylabel(chart["y"], parse_math=False)
    if chart["logx"]:
        _log_ticks(axis, [x for one in chart["series"] for x in one["x"]])
    if chart["logy"] and all(y > 0 for one in chart["series"] for y in one["y"]):
        axis.set_yscale("log")
    axis.legend(frameon=False, fontsize=7, ncols=1 + len(chart["series"]) // 7)


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
    for i, one in enumerate(chart["series"]):
        x, y = one["x"][0], one["y"][0]
        axis.plot([x - chart["critical"] / 2, x + chart["critical"] / 2], [y, y], color="#d1d5db", lw=5, solid_capstyle="butt")
        axis.plot(x, y, MARKERS[0], color=COLOURS[i % len(COLOURS)], ms=6)
    axis.set_yticks([one["y"][0] for one in chart["series"]], [one["name"] for one in chart["series"]])
    axis.set_title(chart["title"], fontsize=8)
    axis.set_xlabel("average rank (1 is best); bars that do not overlap differ")
    axis.set_xlim(left=min(0.5, *np.ravel([one["x"] for one in chart["series"]])))
