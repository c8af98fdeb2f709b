"""What the model made of a sample: the path X it was given, the path Y it learned, where Y stands still, what counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError, Problems, meant
from leapcde.explain import html as report
from leapcde.explain import plots
from leapcde.explain.attribution import Attribution, attribute
from leapcde.explain.over_time import draw_rows
from leapcde.files import atomic, write_text
from leapcde.training.fitted import Fitted
from leapcde.training.metrics import BINS, frequencies, reliability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURED = "when and how often things were measured"
ENOUGH = 20  # samples from which frequencies can be told
NAMED = 12  # channels that are named


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
    probability: np.ndarray | None = None  # (sample, class), calibrated; None where there are no classes

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
        """X, Y and the speed of Y; for a model without a learned path, what counted. The most important channels first."""
        if self.paths is None:
            return self.plot_importance(sample, channels)
        one = {key: array[sample] for key, array in self.paths.items()}
        return plots.plot_paths(one, self.series.sample(sample), self._drawn(sample, channels))

    def plot_importance(self, sample: int = 0, channels: Sequence[str] = ()) -> Figure:
        """What each observation added to the answer, along the same axis of time."""
        t = self.series.sample(sample)[0]
        parts = self.times[sample], self.importance[sample], self._drawn(sample, channels), self.unit
        return plots.plot_importance(*parts, span=(float(t[0]), float(t[-1])))

    def most_important(self, sample: int, count: int = 4) -> list[str]:
        """Channels by their importance for a sample, the most important first; none that was never measured in it."""
        values = self.series.sample(sample)[1]
        order = np.argsort(-self.by_channel[sample], kind="stable")
        return [self.series.channels[c] for c in order if not np.isnan(values[:, c]).all()][:count]

    def _drawn(self, sample: int, channels: Sequence[str]) -> list[tuple[int, str]]:
        """Channels to draw: those asked for, or the most important ones; of a sample that shows nothing, the first."""
        return _pick_channels(self.series, channels or self.most_important(sample) or self.series.channels[:1])

    def contributions(self, sample: int) -> list[tuple[str, float]]:
        """What moved the answer, and by how much, the most first: channels, static features, and being measured at all."""
        found, first = self.attribution, self.attribution.series.offsets
        rows = found.values[first[sample] : first[sample + 1]]
        seen = {name: rows[:, c] for c, name in enumerate(self.series.channels) if not np.isnan(rows[:, c]).all()}
        parts = [(name, float(np.nansum(column))) for name, column in seen.items()]
        names = self.series.static_names or [f"static {i}" for i in range(found.static.shape[1])]
        parts += [(name, float(value)) for name, value in zip(names, found.static[sample], strict=False)]
        if found.measured is not None:
            parts.append((MEASURED, float(found.measured[sample])))
        return sorted(parts, key=lambda part: -abs(part[1]))

    def html(self, path: Path | str, *, channels: Sequence[str] = ()) -> Path:
        """Write one self-contained page about all samples."""
        parts = [report.paragraph(_WHAT if self.paths is not None else _WHAT_COUNTED)]
        for i in range(len(self.series)):
            parts += self.section(i, _title(self.series, i), channels)
        write_text(Path(path), report.page("What the model saw", parts))
        return Path(path)

    def section(self, i: int, title: str, channels: Sequence[str] = ()) -> list[str]:
        """What a page says about one sample."""
        said = _answer(self.fitted, self.series, i, self.predicted[i], self.probability)
        parts = [report.heading(title), report.paragraph(said), report.paragraph(self.in_words(i))]
        if unseen := _unseen(self.series, i):
            parts.append(report.paragraph(unseen, note=True))
        if self.paths is not None:
            image = plots.as_image(self.plot(i, channels), f"X, Y and speed: {title}")
            parts.append(report.figure(image, _calm(self.calm[i], self.paths["t"][i])))
        image = plots.as_image(self.plot_importance(i, channels), f"importance: {title}")
        return [*parts, report.figure(image, f"What each observation {self.unit} (integrated gradients).")]

    def in_words(self, sample: int, count: int = 5) -> str:
        """The largest contributions in a sentence."""
        parts = self.contributions(sample)
        told = ", ".join(f"{name} {value:+.3g}" for name, value in parts[:count])
        rest = sum(value for _, value in parts[count:])
        more = f", all others together {rest:+.3g}" if len(parts) > count else ""
        return f"What was {self.unit}, the most first: {told}{more}."


def explanation(fitted: Fitted, series: Series, *, of: Any = None, steps: int = 32) -> Explanation:
    """Explain all samples of a series."""
    paths = fitted.path(series) if fitted.has_path else None
    found, bare = attribute(fitted, series, of=of, steps=steps), replace(series, target=None)
    classes = fitted.preprocessor.task in ("classification", "labels")
    probability = fitted.preprocessor.probability(fitted.new_outputs(bare)) if classes else None  # `predict` has warned already
    return Explanation(fitted, series, fitted.predict(series), found, paths, probability)


def explain(
    fitted: Fitted,
    series: Series,
    folder: Path,
    *,
    samples: Sequence[int] = (0,),
    channels: Sequence[str] = (),
) -> list[Path]:
    """Write a PNG for each sample and one self-contained `explain.html`. Returns the files written."""
    _pick_channels(series, channels)
    _check_samples(series, samples)
    if fitted.preprocessor.spec.each_row:
        return draw_rows(fitted, series, folder, samples, channels, reliability_section(fitted, series))
    found = explanation(fitted, series.take(list(samples)))
    parts = [report.paragraph(_WHAT if found.paths is not None else _WHAT_COUNTED)]
    written = []
    for row, sample in enumerate(samples):
        path = folder / f"sample-{sample}.png"
        with atomic(path) as temporary:
            temporary.write_bytes(plots.png(found.plot(row, channels)))
        written.append(path)
        parts += found.section(row, _title(series, sample), channels)
    parts += reliability_section(fitted, series)
    page = folder / "explain.html"
    write_text(page, report.page("What the model saw", parts))
    return [*written, page]


def reliability_section(fitted: Fitted, series: Series) -> list[str]:
    """Whether probabilities come true, over all samples; nothing where there are no classes, or too few samples to say."""
    if fitted.preprocessor.task not in ("classification", "labels") or series.target is None or len(series) < ENOUGH:
        return []
    figure, caption = reliability_figure(fitted, series)
    return [report.heading("Do its probabilities come true?"), report.figure(plots.as_image(figure, "reliability"), caption)]


def reliability_figure(fitted: Fitted, series: Series) -> tuple[Figure, str]:
    """Probability against frequency over all samples, and what there is to say about it."""
    preprocessor = fitted.preprocessor
    if preprocessor.task not in ("classification", "labels") or series.target is None:
        raise InputError(f"reliability is about classes; this model does {preprocessor.task}")
    outputs, truth, _ = preprocessor.known(fitted.outputs(series), series)
    probability = preprocessor.probability(outputs)
    if preprocessor.task == "labels":  # each is two classes
        probability, truth = np.stack([1 - probability.ravel(), probability.ravel()], axis=1), truth.ravel().astype(int)
    two = str(preprocessor.classes[1]) if len(preprocessor.classes) == 2 else "the most probable class"
    what = "a label" if preprocessor.task == "labels" else two
    found = frequencies(probability, truth)
    counted = f"{len(truth)} rows of {len(series)} samples" if series.per_row else f"{len(series)} samples"
    caption = (
        f"{counted}. Each point: how probable {what} was said to be, and how often it was so. Brier score "
        f"{found['brier']:.4f}, expected calibration error {found['ece']:.4f}; 0 is best for both."
    )
    bins = int(np.clip(len(series) // ENOUGH, 3, BINS))
    return plots.plot_reliability(*reliability(probability, truth, bins), what), caption


def _pick_channels(series: Series, names: Sequence[str]) -> list[tuple[int, str]]:
    problems = Problems()
    for name in names:
        if name not in series.channels:
            problems.add(f"no channel {name!r}; {meant(name, series.channels)}there are: {', '.join(series.channels)}")
    problems.raise_if_any("cannot explain")
    return [(series.channels.index(name), name) for name in names]


def _check_samples(series: Series, samples: Sequence[int]) -> None:
    wrong = [str(s) for s in samples if not 0 <= s < len(series)]
    if wrong:
        raise InputError(f"no sample {', '.join(wrong)}: the split has samples 0 to {len(series) - 1}")


def _title(series: Series, sample: int) -> str:
    return f"Sample {sample}" if series.ids is None else f"Sample {sample} (id {series.ids[sample]})"


def _answer(fitted: Fitted, series: Series, sample: int, predicted, probability: np.ndarray | None = None) -> str:
    if fitted.preprocessor.task == "forecasting":
        return f"Forecast of {len(predicted)} steps for {len(series.channels)} channels."
    if fitted.preprocessor.task == "labels" and probability is not None:
        shares = zip(fitted.preprocessor.target_names, probability[sample], strict=True)
        return "Probabilities: " + ", ".join(f"{name} {_percent(share)}" for name, share in shares) + "."
    truth = [] if series.target is None else [f"true: {series.target[sample]}"]
    sure = [] if probability is None else [f"probability {_percent(probability[sample].max())}"]
    more = "; ".join([*sure, *truth])
    return f"Predicted: {predicted} ({more})." if more else f"Predicted: {predicted}."


def _percent(share: float) -> str:
    """A probability in words; nothing is certain.

    >>> _percent(0.834), _percent(0.99999)
    ('83.4 %', 'above 99.9 %')
    """
    return "above 99.9 %" if share > 0.9995 else f"{100 * share:.1f} %"


def _unseen(series: Series, sample: int) -> str:
    """Which channels are not drawn, because nothing was measured."""
    values = series.sample(sample)[1]
    missing = [name for c, name in enumerate(series.channels) if np.isnan(values[:, c]).all()]
    if not missing:
        return ""
    names = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
    return f"Never measured in this sample, and not drawn: {names}."


def _calm(stretches: list[tuple[float, float]], t: np.ndarray) -> str:
    if not stretches:
        return "Y moves all the time."
    # Four digits of the sample's span, so that times which are dates, in seconds, differ in what is shown.
    places = 3 - int(np.floor(np.log10(np.ptp(t) or 1.0)))
    text = ", ".join(f"{round(a, places):.12g}–{round(b, places):.12g}" for a, b in stretches)
    return f"Shaded: Y hardly moves at times {text}; there it brings little that is new."


_WHAT_COUNTED = (
    "Bars show how far each observation moved the answer away from that to a series at the training mean. "
    f"“{MEASURED}” is how far that one lies from the answer if nothing had been measured."
)
_WHAT = (
    "Grey is X, the interpolation of what was observed (black). Blue is Y, the path that the model learned, "
    "which drives it in the place of X. Both are drawn within what was observed, or near it. "
    "Below is the speed of Y over all its channels. " + _WHAT_COUNTED
)
