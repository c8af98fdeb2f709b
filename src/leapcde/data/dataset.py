"""A task on data, split into what trains, what chooses and what tests; and how to ask for one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from leapcde.data.columns import Columns
from leapcde.data.series import Series


@dataclass(frozen=True)
class Dataset:
    """A task on data, split. `options` names every choice made on the way; a run keeps them."""

    name: str
    task: str
    train: Series
    validation: Series
    test: Series
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Series]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


@dataclass(frozen=True)
class DataRequest:
    """Which data a run is about, as JSON can hold it, so that the same data is found again.

    `data` is the name of a data set, or a file. A table needs `columns`, and for forecasts `horizon` and `window`;
    a data set may have `dataset_options`. `digest` is that of the file: a run stays bound to the data it saw.
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

    def to_json(self) -> dict[str, Any]:
        columns = None if self.columns is None else {"time_format": None, **self.columns.to_json()}
        return {**asdict(self), "columns": columns}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DataRequest:
        """What `to_json` wrote, after a journey through a file."""
        horizon, columns = data["horizon"], data["columns"]
        lists = {
            "horizon": tuple(horizon) if isinstance(horizon, list) else horizon,
            "columns": None if columns is None else Columns.of(columns),
        }
        return cls(**{**data, **lists})
