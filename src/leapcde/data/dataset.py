"""A task on data, split into what trains, what chooses and what tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leapcde.data.series import Series


@dataclass(frozen=True)
class Dataset:
    """A task on data, split. `protocol` names every option made on the way; it is kept in each run's record."""

    name: str
    task: str
    train: Series
    validation: Series
    test: Series
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Series]:
        return {"train": self.train, "validation": self.validation, "test": self.test}
