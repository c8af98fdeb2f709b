"""Callbacks for experiment trackers: MLflow and TensorBoard, each imported when it is made. Extra `[track]`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from leapcde.errors import need
from leapcde.training.track.callbacks import Callback, Row

LONGEST = 500  # letters that MLflow takes for the value of a setting
CLOCKS = ("epoch", "seconds", "cpu_seconds")


class MLflow(Callback):
    """A run of MLflow for each training: settings, a point an epoch, and how it ended.

    Parameters
    ----------
    experiment : str, optional
        MLflow's active experiment if None.
    name : str, optional
        Of the run; MLflow invents one if None.
    uri : str, optional
        Where runs are kept: a database or a server; what MLflow has been told otherwise.

    >>> from leapcde.errors import MissingDependencyError
    >>> try:
    ...     kept = MLflow(experiment="sepsis")
    ... except MissingDependencyError as error:
    ...     assert "leapcde[track]" in str(error)
    """

    def __init__(self, experiment: str | None = None, *, name: str | None = None, uri: str | None = None):
        self.mlflow: Any = need("mlflow", "track")
        self.experiment, self.name, self.uri = experiment, name, uri
        self.client: Any = None
        self.run: str | None = None

    def on_start(self, settings: dict[str, Any]) -> None:
        # A client of our own, and not mlflow.start_run: what else the program tracks stays as it is.
        self.client = self.mlflow.MlflowClient(tracking_uri=self.uri)
        self.run = self.client.create_run(self._experiment(), run_name=self.name).info.run_id
        for key, value in flat(settings).items():
            self.client.log_param(self.run, key, str(value)[:LONGEST])

    def on_epoch(self, row: Row) -> None:
        for key, value in numbers(row).items():
            self.client.log_metric(self.run, key, value, step=int(row["epoch"]))

    def on_end(self, outcome: dict[str, Any]) -> None:
        if self.run is None:
            return
        self.client.set_tag(self.run, "stopped", outcome["stopped"])
        for key, value in numbers(outcome["best"] or {}).items():
            self.client.log_metric(self.run, f"best_{key}", value)
        self.client.set_terminated(self.run, "FAILED" if outcome["failed"] else "FINISHED")
        self.run = None

    def _experiment(self) -> str:
        if self.experiment is None:
            return "0"
        found = self.client.get_experiment_by_name(self.experiment)
        return self.client.create_experiment(self.experiment) if found is None else found.experiment_id


class TensorBoard(Callback):
    """Curves of each training in a folder, for `tensorboard --logdir FOLDER`.

    Parameters
    ----------
    folder : Path or str
        One for each training, below a common one to compare them.

    >>> from leapcde.errors import MissingDependencyError
    >>> try:
    ...     kept = TensorBoard("curves/first")
    ... except MissingDependencyError as error:
    ...     assert "leapcde[track]" in str(error)
    """

    def __init__(self, folder: Path | str):
        self.summary: Any = need("tensorboard.summary", "track")
        self.folder = Path(folder)
        self.writer: Any = None

    def on_start(self, settings: dict[str, Any]) -> None:
        self.writer = self.summary.Writer(str(self.folder))

    def on_epoch(self, row: Row) -> None:
        for key, value in numbers(row).items():
            self.writer.add_scalar(key, value, int(row["epoch"]))
        self.writer.flush()

    def on_end(self, outcome: dict[str, Any]) -> None:
        if self.writer is not None:
            self.writer.close()


def flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings under names with dots.

    >>> flat({"train": {"epochs": 3}, "seed": 0})
    {'train.epochs': 3, 'seed': 0}
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


def numbers(row: Row) -> dict[str, float]:
    """What a curve can be drawn of: finite numbers, and no clocks.

    >>> numbers({"epoch": 1, "val_loss": 0.5, "auroc": float("nan"), "seconds": 3.0})
    {'val_loss': 0.5}
    """
    return {key: float(value) for key, value in row.items() if key not in CLOCKS and math.isfinite(value)}
