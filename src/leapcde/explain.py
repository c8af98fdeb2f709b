"""What the model made of a sample: the path X it was given, the path Y it learned, and where Y stands still."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from . import plots, report
from .checkpoint import atomic, write_text
from .errors import InputError, Problems
from .predictor import Predictor
from .series import Series


def explain(
    predictor: Predictor, series: Series, folder: Path, *, samples: Sequence[int] = (0,), channels: Sequence[str] = ()
) -> list[Path]:
    """Write a PNG for each sample and one self-contained `explain.html`. Returns the files written."""
    picked = _pick_channels(series, channels)
    _check_samples(series, samples)
    found = predictor.path(series.take(list(samples)))
    predicted = predictor.predict(series.take(list(samples)))
    written, parts = [], [report.paragraph(_WHAT)]
    for row, sample in enumerate(samples):
        one = {key: array[row] for key, array in found.items()}
        drawn = plots.plot_paths(one, series.sample(sample), picked)
        path = folder / f"sample-{sample}.png"
        with atomic(path) as temporary:
            temporary.write_bytes(plots.png(drawn))
        written.append(path)
        parts += [report.heading(_title(series, sample)), report.paragraph(_answer(predictor, series, sample, predicted[row]))]
        parts.append(report.figure(plots.as_image(drawn, f"X, Y and speed of sample {sample}"), _calm(one)))
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


def _answer(predictor: Predictor, series: Series, sample: int, predicted) -> str:
    if predictor.frame.task == "forecasting":
        return f"Forecast of {len(predicted)} steps for {len(series.channels)} channels."
    truth = "" if series.target is None else f" (true: {series.target[sample]})"
    return f"Predicted: {predicted}{truth}."


def _calm(one: dict) -> str:
    stretches = plots.calm_stretches(one["t"], one["speed"])
    if not stretches:
        return "Y moves all the time: every part of the path counts."
    # Four digits of the sample's span, so that times which are dates, in seconds, differ in what is shown.
    places = 3 - int(np.floor(np.log10(np.ptp(one["t"]) or 1.0)))
    text = ", ".join(f"{round(a, places):.12g}–{round(b, places):.12g}" for a, b in stretches)
    return f"Shaded: Y hardly moves at times {text}; there it adds little to the state z from which the answer is read."


_WHAT = (
    "Grey is X, the interpolation of what was observed (black). Blue is Y, the path that LEAP learned in its place: "
    "from its start X(0) on, the model is driven by Y alone. Below is the speed of Y over all its channels, time among them."
)
