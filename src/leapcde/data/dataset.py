"""A task on data, split into what trains, what chooses and what tests; and how to ask for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from leapcde.data.columns import Columns
from leapcde.data.series import Series

FORMER = "former"  # how forecasts were split before there was a choice: windows half a horizon apart, whole ids at random
LATER = ("split", "stride", "forecast", "known", "more")


# Of validation data and what was said of it, which may set a threshold, and of a part and what was said of that.
More = Callable[[Series, np.ndarray, Series, np.ndarray], dict[str, float]]


@dataclass(frozen=True)
class Dataset:
    """A task on data, split. `options` names every choice made on the way; a run keeps them."""

    name: str
    task: str
    train: Series
    validation: Series
    test: Series
    options: dict[str, Any] = field(default_factory=dict)
    sequences: Series | None = None  # whole ones, where `train` holds some of their windows and others may be cut
    more: More | None = None  # metrics of class probabilities that only this data has

    @property
    def to_fit(self) -> Series:
        """What an estimator is to learn from: whole sequences where it may cut fresh windows of them in every epoch."""
        return self.train if self.sequences is None else self.sequences

    @property
    def parts(self) -> dict[str, Series]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


@dataclass(frozen=True)
class DataRequest:
    """Which data a run is about, as JSON can hold it, so that the same data is found again.

    `data` is the name of a data set, or a file. A table needs `columns`, and for forecasts `horizon` and `window`;
    a data set may have `dataset_options`. `digest` is that of the file: a run stays bound to the data it saw. `split` says
    how a table is split, and `stride` how its windows lie apart; see `table_file.load`.
    """

    data: str
    drop: float = 0.0
    columns: Columns | None = None
    horizon: int | tuple[float, ...] | None = None
    window: int | None = None
    task: str | None = None
    dataset_options: dict[str, Any] = field(default_factory=dict)
    data_dir: str | None = None
    digest: str | None = None
    split: str | None = None
    stride: int | None = None
    forecast: tuple[str, ...] | None = None  # channels; all if not given
    known: tuple[str, ...] | None = None  # channels whose future is known
    more: tuple[str, ...] | None = None  # files that belong to `data`

    def to_json(self) -> dict[str, Any]:
        """Without later fields that say nothing: runs from before there were any stay what they were."""
        columns = None if self.columns is None else {"time_format": None, **self.columns.to_json()}
        made = {**asdict(self), "columns": columns}
        return {key: value for key, value in made.items() if key not in LATER or value is not None}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DataRequest:
        """What `to_json` wrote, after a journey through a file."""
        horizon, columns = data["horizon"], data["columns"]
        if horizon is not None and "split" not in data:
            data = {**data, "split": FORMER}
        lists = {
            "horizon": tuple(horizon) if isinstance(horizon, list) else horizon,
            **{name: tuple(data[name]) for name in ("forecast", "known", "more") if data.get(name)},
            "columns": None if columns is None else Columns.of(columns),
        }
        return cls(**{**data, **lists})
