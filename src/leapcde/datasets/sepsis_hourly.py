"""PhysioNet / CinC Challenge 2019 as it was posed: in every hour, will there be sepsis six hours later?

The same records as `sepsis`, whole, with the label of each hour (which is shifted six hours ahead in the files already). The
score of the challenge, the utility of alarms, is among the metrics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from leapcde.data.series import Series
from leapcde.datasets import sepsis
from leapcde.datasets._io.cache import Arrays, prepared
from leapcde.datasets.alarms import alarm_metrics
from leapcde.datasets.registry import register_dataset
from leapcde.datasets.source import PublishedNumber, Read, Source

EVER = 10**6  # hours


@dataclass(frozen=True)
class Options:
    hours: int | None = None  # what is seen of each stay, and answered in; all if None
    start: Literal["admission", "record"] = "admission"  # the clock starts in hour 1, or with a record's first row
    statics: bool = True  # age, gender, units, hours between hospital and intensive care


def read(data_dir: Path, options: Options) -> Read:
    files, settings = sepsis.files(data_dir), {"version": sepsis.VERSION}
    arrays, notes = prepared(sepsis.FOLDER, files, settings, data_dir, lambda: sepsis.prepare(data_dir))
    return Read(select(arrays, options), notes)


def select(arrays: Arrays, options: Options) -> Series:
    """The records with the label of each hour; the empty row that a late record begins with has none."""
    hours = EVER if options.hours is None else options.hours
    series = sepsis.select(arrays, sepsis.Options(hours=hours, start=options.start, statics=options.statics))
    times, offsets = np.asarray(arrays["times"]), np.asarray(arrays["offsets"])
    early = times <= hours
    chosen = np.repeat(np.add.reduceat(early, offsets[:-1]) >= sepsis.FEWEST, np.diff(offsets))
    labels = np.asarray(arrays["label"])[early & chosen].astype(float)
    target = np.full(len(series.times), np.nan)
    target[_recorded(series, times, offsets, chosen, options)] = labels
    return replace(series, target=target, target_per="row", static_names=sepsis.STATIC if options.statics else ())


def _recorded(series: Series, times: np.ndarray, offsets: np.ndarray, chosen: np.ndarray, options: Options) -> np.ndarray:
    """Which rows of the series are rows of the records."""
    found = np.ones(len(series.times), bool)
    if options.start == "admission":
        starts = times[offsets[:-1]][chosen[offsets[:-1]]]
        found[series.offsets[:-1][starts > 1]] = False
    return found


SOURCE = register_dataset(
    Source(
        name="sepsis-hourly",
        task="classification",
        options=Options,
        files=lambda data_dir, options: sepsis.files(data_dir),
        downloads=sepsis.SOURCE.downloads,
        read=read,
        more=alarm_metrics,
        about=replace(
            sepsis.SOURCE.about,
            title="PhysioNet / CinC Challenge 2019, an hourly alarm six hours before sepsis",
            figures=(
                PublishedNumber("patients", 40_336, len),
                PublishedNumber("hours with a label", 1_552_210, lambda series: int((~np.isnan(series.target)).sum())),
                PublishedNumber("of them positive", 27_916, lambda series: int(np.nansum(series.target))),
                PublishedNumber("channels", 34, lambda series: len(series.channels)),
            ),
        ),
    )
)
