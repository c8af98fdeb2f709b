"""The first thing on the page of the report: every model on every data set, as points on one line each."""

from __future__ import annotations

import math
from html import escape

from leapcde_paper.rows import BASELINES, PLUS
from leapcde_paper.tables.summary import Errors, best_others

KINDS = {"plus": "LEAP+", "leap": "LEAP, the paper's", "other": "other networks", "simple": "no network"}
LONGEST = 25.0  # times the error of LEAP+: what makes more stands at the end of its line
NOTE = "Test error in units of LEAP+'s, mean over seeds, logarithmic; further left is better. Point at one for its name."
MARKS = (1, 2, 5, 10, 20)


def summary(errors: Errors) -> str:
    """Lines of points; nothing where there is nothing to compare."""
    if not errors:
        return ""
    lowest = min(0.9, *(min(mine.values()) for mine in errors.values()))
    place = lambda error: 100 * math.log(min(error, LONGEST) / lowest) / math.log(LONGEST / lowest)
    legend = "".join(f'<span><i class="{kind}"></i>{escape(label)}</span>' for kind, label in KINDS.items())
    marks = "".join(f'<span style="left:{place(mark):.1f}%">{mark}{" ×" if mark > 1 else ""}</span>' for mark in MARKS)
    lines = ""
    for title, mine in errors.items():
        points = "".join(_point(row, error, place(error)) for row, error in sorted(mine.items(), key=lambda item: -item[1]))
        best = ", ".join(f"{row} {mine[row]:.2f} ×" for row in best_others(mine))
        lines += f'<dt>{escape(title)}</dt><dd><div class="line">{points}</div><p class="tip">{escape(best)}</p></dd>'
    drawn = f'<dl class="summary">{lines}<dt></dt><dd class="marks">{marks}</dd></dl>'
    return f'<div class="legend">{legend}</div>{drawn}<p class="note">{NOTE}</p>'


def _point(row: str, error: float, left: float) -> str:
    kind = "plus" if row == PLUS.label else "leap" if row == "LEAP" else "simple" if row in BASELINES.values() else "other"
    words = escape(f"{row}: {error:.2f} times LEAP+'s error", quote=True)
    return f'<i class="{kind}" style="left:{left:.1f}%" tabindex="0" role="img" title="{words}" aria-label="{words}"></i>'
