"""Pictures: X against Y with ‖dY/dt‖ below, training curves, forecasts. Matplotlib is imported when asked for."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leapcde.errors import InputError, need
from leapcde.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BLUE, ORANGE, GREY, GREEN = "#2563eb", "#ea580c", "#6b7280", "#059669"
SLOW = 0.1  # a stretch is calm where the speed of Y is below this share of its maximum


def plot_paths(
    found: dict[str, np.ndarray], observed: tuple[np.ndarray, np.ndarray], channels: Sequence[tuple[int, str]]
) -> Figure:
    """X and Y of one sample, a row for each channel, and the speed of Y below. `found` is one sample of `FittedModel.path`.

    Lines stay where the channel was observed in this sample, or near it: see `believable`.
    """
    figure, axes = subplots(len(channels) + 1, height=1.9)
    times, values = observed
    for axis, (c, name) in zip(axes[:-1], channels, strict=True):
        axis.plot(
            found["t"], between(found["t"], found["X"][:, c], times, values[:, c]), color=GREY, lw=1.4, label="X, interpolated"
        )
        axis.plot(found["t"], believable(found["Y"][:, c], values[:, c]), color=BLUE, lw=2.0, label="Y, learned")
        axis.plot(times, values[:, c], "o", color="black", ms=3, label="observed")
        axis.set_ylabel(name, parse_math=False)  # a channel's name may hold dollar signs
    speed = axes[-1]
    speed.plot(found["t"], found["speed"], color=ORANGE)
    for start, end in calm_stretches(found["t"], found["speed"]):
        speed.axvspan(start, end, color=GREEN, alpha=0.15, lw=0)
    speed.set(ylabel="‖dY/dt‖", xlabel="time")
    speed.set_ylim(bottom=0)
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8, frameon=False, ncols=3)
    return figure


def between(t: np.ndarray, X: np.ndarray, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """X of one channel as it is drawn: itself where it stays within what was observed, else a monotone curve.

    A cubic spline through few points swings far beyond them, which says nothing about the channel.

    >>> t = np.linspace(0, 2, 5)
    >>> wild = np.array([10.0, -900.0, 12.0, 700.0, 12.0])
    >>> between(t, wild, np.array([0.0, 1, 2]), np.array([10.0, 12, 12])).round(1).tolist()
    [10.0, 11.4, 12.0, 12.0, 12.0]
    """
    seen = ~np.isnan(values)
    if not seen.any():
        return np.full(len(t), np.nan)
    low, high = values[seen].min(), values[seen].max()
    slack = 1e-3 * (high - low) + 1e-6 * max(abs(low), abs(high))  # rounding
    if ((low - slack <= X) & (high + slack >= X)).all():
        return X
    if seen.sum() == 1:
        return np.full(len(t), low)
    from scipy.interpolate import PchipInterpolator

    curve = PchipInterpolator(times[seen], values[seen])
    return curve(np.clip(t, times[seen][0], times[seen][-1]))


def believable(Y: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Y of one channel as it is drawn: not where it leaves the values that were observed by more than their span.

    Of a channel that was observed once, or always the same, no further away than the value itself is from 0.

    >>> believable(np.array([9.0, -1100.0, 12.0]), np.array([10.0, np.nan, np.nan])).tolist()
    [9.0, nan, 12.0]
    """
    seen = values[~np.isnan(values)]
    if not len(seen):
        return np.full(len(Y), np.nan)
    low, high = seen.min(), seen.max()
    span = high - low or abs(high) or 1.0
    return np.where((low - span <= Y) & (high + span >= Y), Y, np.nan)


def plot_reliability(said: np.ndarray, came: np.ndarray, count: np.ndarray, what: str) -> Figure:
    """Probability against frequency, and below how many samples each point stands for; see `training.metrics.reliability`.

    Bars are two standard errors of a frequency: points on the line within them are probabilities that came true.
    """
    figure, (axis, below) = subplots(2, height=2.4)
    axis.plot([0, 1], [0, 1], color=GREY, lw=1.0, ls="--", label="probability = frequency")
    error = 2 * np.sqrt(np.maximum(came * (1 - came), 0.25 / (count + 1)) / count)
    error = np.stack([np.minimum(error, came), np.minimum(error, 1 - came)])  # no frequency is below 0 or above 1
    axis.errorbar(said, came, yerr=error, fmt="o-", color=BLUE, ms=4, lw=1.2, elinewidth=0.8, label="observed")
    axis.set(ylabel="frequency", xlim=(-0.02, 1.02), ylim=(-0.05, 1.05))
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    below.vlines(said, 0, count, color=BLUE, lw=4)
    below.set_ylabel("samples")
    below.set_ylim(bottom=0)
    below.set_xlabel(f"probability of {what}", parse_math=False)
    return figure


def plot_filled(
    found: dict[str, np.ndarray],
    observed: tuple[np.ndarray, np.ndarray],
    hidden: tuple[np.ndarray, np.ndarray],
    forecast: tuple[np.ndarray, np.ndarray, np.ndarray],
    channels: Sequence[tuple[int, str]],
) -> Figure:
    """X and Y of one sample, what was hidden from them, and Y going on: `forecast` is (times, what came, what was said)."""
    figure, axes = subplots(len(channels), height=2.2)
    ahead, came, said = forecast
    for axis, (c, name) in zip(axes, channels, strict=True):
        axis.plot(found["t"], found["X"][:, c], color=GREY, lw=1.4, label="X, interpolated")
        axis.plot(found["t"], found["Y"][:, c], color=BLUE, lw=2.0, label="Y, learned")
        start, end = np.append(found["t"][-1], ahead), np.append(found["Y"][-1, c], said[:, c])
        axis.plot(start, end, color=BLUE, lw=2.0, ls="--", label="Y, forecast")
        axis.plot(observed[0], observed[1][:, c], "o", color="black", ms=3, label="observed")
        axis.plot(hidden[0], hidden[1][:, c], "o", color=ORANGE, ms=5, mfc="none", label="hidden")
        axis.plot(ahead, came[:, c], "o", color=GREY, ms=4, mfc="white", label="what came")
        axis.axvline(found["t"][-1], color=GREY, lw=0.6)
        axis.set_ylabel(name, parse_math=False)
    axes[-1].set_xlabel("time")
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8, frameon=False, ncols=6)
    return figure


def plot_importance(
    times: np.ndarray,
    importance: np.ndarray,
    channels: Sequence[tuple[int, str]],
    unit: str,
    span: tuple[float, float] | None = None,
) -> Figure:
    """What each observation of one sample added to the answer: a row for each channel, bars up for more, down for less.

    `span` is the stretch of time to show, for pictures that stand below each other.
    """
    figure, axes = subplots(len(channels), height=1.3)
    if span is not None and span[1] > span[0]:
        axes[-1].set_xlim(span[0] - 0.05 * (span[1] - span[0]), span[1] + 0.05 * (span[1] - span[0]))
    top = float(np.nanmax(np.abs(importance), initial=0.0)) or 1.0
    for axis, (c, name) in zip(axes, channels, strict=True):
        seen = ~np.isnan(importance[:, c])
        colours = np.where(importance[seen, c] >= 0, BLUE, ORANGE)
        axis.vlines(times[seen], 0.0, importance[seen, c], colors=list(colours), lw=2)
        axis.axhline(0.0, color=GREY, lw=0.6)
        axis.set_ylim(-1.05 * top, 1.05 * top)
        axis.set_ylabel(name, parse_math=False)
    axes[-1].set_xlabel(f"time; bars: {unit}", parse_math=False)
    return figure


def calm_stretches(t: np.ndarray, speed: np.ndarray) -> list[tuple[float, float]]:
    """Where Y hardly moves (below a tenth of its top speed): there the model reads nothing from the path.

    >>> calm_stretches(np.arange(5.0), np.array([1.0, 0.0, 0.0, 1.0, 1.0]))
    [(1.0, 2.0)]
    """
    calm = np.concatenate([[False], speed <= SLOW * speed.max(), [False]])  # <=: where Y never moves, all is calm
    edges = np.flatnonzero(np.diff(calm.astype(int)))
    return [(float(t[a]), float(t[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - 1 > a]


def plot_history(histories: dict[str, list[dict[str, float]]], metric: str) -> Figure:
    """Training loss and validation metric by epoch, one line a model."""
    figure, axes = subplots(2, height=2.4)
    for name, rows in histories.items():
        epochs = [row["epoch"] + 1 for row in rows]
        axes[0].plot(epochs, [row["train_loss"] for row in rows], label=name)
        axes[1].plot(epochs, [row[metric] for row in rows], label=name)
    axes[0].set(ylabel="training loss", yscale="log")
    axes[1].set(ylabel=f"validation {metric}", xlabel="epoch")
    axes[0].legend(frameon=False)
    return figure


def plot_horizon(errors: dict[str, np.ndarray], title: str) -> Figure:
    """Error against how far ahead the forecast is, one line a model."""
    figure, (axis,) = subplots(1, height=3.2)
    for name, error in errors.items():
        axis.plot(np.arange(1, len(error) + 1), error, "o-", ms=4, label=name)
    axis.set(xlabel="steps ahead", ylabel=title)
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)
    return figure


def plot_forecast(t: np.ndarray, past: np.ndarray, future: np.ndarray, forecasts: dict[str, np.ndarray], name: str) -> Figure:
    """One channel: what was seen, what came, what was forecast. Times of the future follow those of the past by ones."""
    figure, (axis,) = subplots(1, height=2.6)
    axis.plot(t, past, "o", color="black", ms=3, label="observed")
    ahead = t[-1] + np.arange(1, len(future) + 1)
    axis.plot(ahead, future, "o", color=GREY, ms=4, mfc="white", label="what came")
    for label, values in forecasts.items():
        axis.plot(ahead, values, lw=2, label=label)
    axis.set_xlabel("time")
    axis.set_ylabel(name, parse_math=False)
    axis.legend(frameon=False, fontsize=8)
    return figure


def plot_survival(times: np.ndarray, curves: dict[str, np.ndarray], unit: str, beside: np.ndarray | None = None) -> Figure:
    """Curves of survival, one line a sample; `beside` is that of everybody together."""
    figure, (axis,) = subplots(1, height=3.2)
    for name, curve in curves.items():
        axis.plot(times, curve, lw=2, label=name)
    if beside is not None:
        axis.plot(times, beside, color=GREY, lw=1.2, ls="--", label="all together")
    axis.set(xlabel=f"{unit} after the last row", ylabel="share without an event", ylim=(0, 1.02))
    axis.legend(frameon=False, fontsize=8)
    return figure


def plot_interval(
    t: np.ndarray,
    past: np.ndarray,
    ahead: np.ndarray,
    came: np.ndarray,
    said: tuple[np.ndarray, np.ndarray, np.ndarray],
    name: str,
) -> Figure:
    """One channel: what was seen, what came at the times `ahead`, and what was said: (lower, forecast, upper)."""
    figure, (axis,) = subplots(1, height=2.6)
    axis.plot(t, past, "o", color="black", ms=3, label="observed")
    axis.fill_between(ahead, said[0], said[2], color=BLUE, alpha=0.2, lw=0, label="90 % interval")
    axis.plot(ahead, said[1], color=BLUE, lw=2, label="forecast")
    axis.plot(ahead, came, "o", color=GREY, ms=4, mfc="white", label="what came")
    axis.set_xlabel("time")
    axis.set_ylabel(name, parse_math=False)
    axis.legend(frameon=False, fontsize=8)
    return figure


def plot_samples(
    samples: Sequence[tuple[np.ndarray, np.ndarray]], labels: Sequence[str], channels: Sequence[tuple[int, str]]
) -> Figure:
    """Observations of a few samples, a row for each channel."""
    figure, axes = subplots(len(channels), height=1.4)
    for axis, (c, name) in zip(axes, channels, strict=True):
        for (times, values), label in zip(samples, labels, strict=True):
            seen = ~np.isnan(values[:, c])
            axis.plot(times[seen], values[seen, c], ".-", lw=0.9, ms=3, label=label.replace("$", r"\$"))
        axis.set_ylabel(name, parse_math=False)
    axes[-1].set_xlabel("time")
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8, frameon=False, ncols=min(len(labels), 6))
    return figure


def png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()


def save_png(figure: Figure, path: Path) -> None:
    """Written whole or not at all."""
    if path.suffix.lower() != ".png":
        raise InputError(f"{path}: pictures are PNG files; give a name that ends in .png")
    drawn = png(figure)
    with atomic(path) as temporary:
        temporary.write_bytes(drawn)


def as_image(figure: Figure, alt: str) -> str:
    """An HTML image that carries its own data."""
    data = base64.b64encode(png(figure)).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'


def subplots(rows: int, *, height: float) -> tuple[Figure, list[Any]]:
    """A figure with so many pictures above each other, each so high."""
    # Figure() and not pyplot: no window, no global list of open figures.
    figure = need("matplotlib.figure", "plot").Figure(figsize=(8, height * rows + 0.4), layout="constrained")
    axes = list(np.ravel(figure.subplots(rows, 1, sharex=rows > 1)))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes
