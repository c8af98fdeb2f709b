"""Answers after each row, drawn over time: an alarm as it rises."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leapcde.data.series import Series, known_targets, name_of
from leapcde.explain import html as report
from leapcde.explain import plots
from leapcde.files import atomic, write_text
from leapcde.training.fitted import Fitted
from leapcde.training.metrics import softmax

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 3  # channels, of which most was observed


def plot_over_time(
    fitted: Fitted, series: Series, sample: int, channels: Sequence[str] = (), *, threshold: float | None = None
) -> Figure:
    """The answer after each row of a sample, and channels below it.

    Parameters
    ----------
    fitted : Fitted
        What learned from targets per row.
    series : Series
        Where the sample is; its targets are shown if it has some: of two classes, where the second is true.
    sample : int
        Its number.
    channels : sequence of str
        Drawn below; the three of which most was observed if none are named.
    threshold : float, optional
        Of an alarm, drawn as a line.

    Returns
    -------
    matplotlib.figure.Figure
    """
    one = series.take([sample])
    times, values = one.sample(0)
    names = list(channels) or [one.channels[c] for c in np.argsort(-(~np.isnan(values)).sum(0), kind="stable")[:DRAWN]]
    figure, axes = plots.subplots(len(names) + 1, height=1.5)
    _answers(axes[0], fitted, one, threshold)
    for axis, name in zip(axes[1:], names, strict=True):
        column = values[:, one.channels.index(name)]
        axis.plot(times[~np.isnan(column)], column[~np.isnan(column)], ".-", color="black", lw=0.8, ms=4)
        axis.set_ylabel(name, parse_math=False)
    axes[-1].set_xlabel("time")
    return figure


def draw_rows(
    fitted: Fitted, series: Series, folder: Path, samples: Sequence[int], channels: Sequence[str], more: list[str]
) -> list[Path]:
    """A PNG for each sample and one page with all of them, which ends with `more`. Returns the files written."""
    parts, written = [report.paragraph(_WHAT)], []
    for sample in samples:
        title, path = name_of(series, sample).capitalize(), folder / f"sample-{sample}.png"
        figure = plot_over_time(fitted, series, sample, channels)
        with atomic(path) as temporary:
            temporary.write_bytes(plots.png(figure))
        written.append(path)
        parts += [report.heading(title), report.figure(plots.as_image(figure, title), "")]
    page = folder / "explain.html"
    write_text(page, report.page("What the model said", [*parts, *more]))
    return [*written, page]


def _answers(axis: Any, fitted: Fitted, one: Series, threshold: float | None) -> None:
    """Probabilities, or numbers; and the truth where it is known."""
    preprocessor, times = fitted.preprocessor, one.times
    outputs = fitted.outputs(one)
    if preprocessor.task == "regression":
        axis.plot(times, preprocessor.decode(outputs), color=plots.BLUE, label="predicted")
        _truth(axis, one, None)
    else:
        drawn = range(1, 2) if len(preprocessor.classes) == 2 else range(len(preprocessor.classes))
        for c in drawn:
            axis.plot(times, softmax(outputs.astype(np.float64))[:, c], label=f"p({preprocessor.classes[c]})", lw=1.8)
        _truth(axis, one, preprocessor.classes[1] if len(preprocessor.classes) == 2 else None)
        axis.set_ylim(bottom=0)
        axis.set_ylabel("probability")
    if threshold is not None:
        axis.axhline(threshold, color=plots.ORANGE, lw=1.0, ls="--", label="alarm")
    axis.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8, frameon=False, ncols=6)


def _truth(axis: Any, one: Series, shaded: Any) -> None:
    """Rows of one class shaded, from each to the next; or numbers as points."""
    if one.target is None or not one.per_row:
        return
    there = known_targets(one.target)
    if shaded is None:
        if one.target.dtype.kind in "fiu":
            axis.plot(one.times[there], one.target[there], "o", color="black", ms=3, label="true")
        return
    ends = np.append(one.times[1:], one.times[-1])
    for row in np.flatnonzero(there & (one.target == shaded)):
        axis.axvspan(one.times[row], ends[row], color=plots.GREEN, alpha=0.15, lw=0)


_WHAT = (
    "Each picture shows the answer after each row, from the rows so far alone, as a stream would give it. Of two classes it is "
    "the probability of the second, and its rows are shaded. Below are the channels of which most was observed."
)
