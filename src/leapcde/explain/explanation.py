"""What the model made of a sample: the path X it was given, the path Y it learned, where Y stands still, what counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError, Problems
from leapcde.explain import html as report
from leapcde.explain import plots
from leapcde.explain.attribution import Attribution, attribute
from leapcde.files import atomic, write_text
from leapcde.training.fitted import Fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Explanation:
    """Arrays, plots and a page about some samples. Made by an estimator's `explain`.

    `importance[i]` is (time, channel) for sample i, NaN where nothing was observed: how far each observation moved the
    answer, in the unit that `unit` names. `paths` is what `path` returns, or None for a model without a learned path.
    """

    fitted: Fitted
    series: Series
    predicted: np.ndarray
    attribution: Attribution
    paths: dict[str, np.ndarray] | None

    @property
    def importance(self) -> list[np.ndarray]:
        found = self.attribution
        return np.split(found.values, found.series.offsets[1:-1])

    @property
    def times(self) -> list[np.ndarray]:
        """The times of the rows of `importance`."""
        return np.split(self.attribution.series.times, self.attribution.series.offsets[1:-1])

    @property
    def by_channel(self) -> np.ndarray:
        """The sum of each channel's absolute importance, (sample, channel)."""
        return np.stack([np.nansum(np.abs(rows), 0) for rows in self.importance])

    @property
    def unit(self) -> str:
        return self.attribution.unit

    @property
    def calm(self) -> list[list[tuple[float, float]]]:
        """Stretches of time in which dY/dt ≈ 0, for each sample; none for a model without a learned path."""
        if self.paths is None:
            return [[] for _ in range(len(self.series))]
        return [plots.calm_stretches(t, s) for t, s in zip(self.paths["t"], self.paths["speed"], strict=True)]

    def plot(self, sample: int = 0, channels: Sequence[str] = ()) -> Figure:
        """X, Y and the speed of Y; for a model without a learned path, what counted."""
        picked = _pick_channels(self.series, channels)
        if self.paths is None:
            return self.plot_importance(sample, channels)
        one = {key: array[sample] for key, array in self.paths.items()}
        return plots.plot_paths(one, self.series.sample(sample), picked)

    def plot_importance(self, sample: int = 0, channels: Sequence[str] = ()) -> Figure:
        """What each observation added to the answer."""
        picked = _pick_channels(self.series, channels or self.most_important(sample))
        return plots.plot_importance(self.times[sample], self.importance[sample], picked, self.unit)

    def most_important(self, sample: int, count: int = 4) -> list[str]:
        """Channels by their importance for a sample, the most important first."""
        order = np.argsort(-self.by_channel[sample], kind="stable")
        return [self.series.channels[c] for c in order[:count]]

    def html(self, path: Path | str, *, channels: Sequence[str] = ()) -> Path:
        """Write one self-contained page about all samples."""
        parts = [report.paragraph(_WHAT if self.paths is not None else _WHAT_COUNTED)]
        for i in range(len(self.series)):
            parts += self.section(i, _title(self.series, i), channels)
        write_text(Path(path), report.page("What the model saw", parts))
        return Path(path)

    def section(self, i: int, title: str, channels: Sequence[str] = ()) -> list[str]:
        """What a page says about one sample."""
        parts = [report.heading(title), report.paragraph(_answer(self.fitted, self.series, i, self.predicted[i]))]
        if self.paths is not None:
            image = plots.as_image(self.plot(i, channels), f"X, Y and speed: {title}")
            parts.append(report.figure(image, _calm(self.calm[i], self.paths["t"][i])))
        image = plots.as_image(self.plot_importance(i, channels), f"importance: {title}")
        return [*parts, report.figure(image, f"What each observation {self.unit} (integrated gradients).")]


def explanation(fitted: Fitted, series: Series, *, of: Any = None, steps: int = 32) -> Explanation:
    """Explain all samples of a series."""
    paths = fitted.path(series) if fitted.has_path else None
    found = attribute(fitted, series, of=of, steps=steps)
    return Explanation(fitted, series, fitted.predict(series), found, paths)


def explain(
    fitted: Fitted, series: Series, folder: Path, *, samples: Sequence[int] = (0,), channels: Sequence[str] = ()
) -> list[Path]:
    """Write a PNG for each sample and one self-contained `explain.html`. Returns the files written."""
    _pick_channels(series, channels)
    _check_samples(series, samples)
    found = explanation(fitted, series.take(list(samples)))
    parts = [report.paragraph(_WHAT if found.paths is not None else _WHAT_COUNTED)]
    written = []
    for row, sample in enumerate(samples):
        path = folder / f"sample-{sample}.png"
        with atomic(path) as temporary:
            temporary.write_bytes(plots.png(found.plot(row, channels)))
        written.append(path)
        parts += found.section(row, _title(series, sample), channels)
    page = folder / "explain.html"
    write_text(page, report.page("What the model saw", parts))
    return [*written, page]


def _pick_channels(series: Series, names: Sequence[str]) -> list[tuple[int, str]]:
    names = list(names) or list(series.channels[:4])
    problems = Problems()
    for name in names:
        if name not in series.channels:
            problems.add(f"no channel {name!r}; there are: {', '.join(series.channels)}")
    problems.raise_if_any("cannot explain")
    return [(series.channels.index(name), name) for name in names]


def _check_samples(series: Series, samples: Sequence[int]) -> None:
    wrong = [str(s) for s in samples if not 0 <= s < len(series)]
    if wrong:
        raise InputError(f"no sample {', '.join(wrong)}: the split has samples 0 to {len(series) - 1}")


def _title(series: Series, sample: int) -> str:
    return f"Sample {sample}" if series.ids is None else f"Sample {sample} (id {series.ids[sample]})"


def _answer(fitted: Fitted, series: Series, sample: int, predicted) -> str:
    if fitted.preprocessor.task == "forecasting":
        return f"Forecast of {len(predicted)} steps for {len(series.channels)} channels."
    truth = "" if series.target is None else f" (true: {series.target[sample]})"
    return f"Predicted: {predicted}{truth}."


def _calm(stretches: list[tuple[float, float]], t: np.ndarray) -> str:
    if not stretches:
        return "Y moves all the time."
    # Four digits of the sample's span, so that times which are dates, in seconds, differ in what is shown.
    places = 3 - int(np.floor(np.log10(np.ptp(t) or 1.0)))
    text = ", ".join(f"{round(a, places):.12g}–{round(b, places):.12g}" for a, b in stretches)
    return f"Shaded: Y hardly moves at times {text}; there it brings little that is new."


_WHAT_COUNTED = "Bars show how far each observation moved the answer away from that to a series at the training mean."
_WHAT = (
    "Grey is X, the interpolation of what was observed (black). Blue is Y, the path that the model learned, "
    "which drives it in the place of X. Below is the speed of Y over all its channels. " + _WHAT_COUNTED
)
