"""One run: data in, trained model and numbers out. A run is a config, and everything it makes lies in one folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leapcde.data import files as table_file
from leapcde.data.dataset import Dataset
from leapcde.datasets import registry as datasets
from leapcde.datasets._io.cache import digest
from leapcde.errors import CheckpointError, InputError
from leapcde.estimators.intervals import Conformal
from leapcde.files import json_text, write_text
from leapcde.models.baselines import baselines_for, fit_baseline
from leapcde.models.registry import count_parameters
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel, Trainer
from leapcde.training.history import History
from leapcde.training.preprocess import Preprocessor

CONFIG, MODEL, TRAINING, RESULT = "config.json", "model.safetensors", "training.safetensors", "result.json"


@dataclass(frozen=True)
class RunConfig:
    """What is run. `data` is the name of a data set or a file; a table needs `columns`, a data set has `dataset_options`."""

    data: str
    model: str = "leap"
    drop: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    train: TrainConfig = field(default_factory=TrainConfig)
    columns: table_file.Columns | None = None
    data_dir: str | None = None
    digest: str | None = None  # of the file: a run stays bound to the data it saw
    dataset_options: dict[str, Any] = field(default_factory=dict)  # of the data set's protocol, where not its defaults

    def to_json(self) -> dict[str, Any]:
        parts = {"recipe": self.recipe.to_json(), "train": self.train.to_json()}
        columns = None if self.columns is None else self.columns.to_json()
        plain = {
            key: getattr(self, key) for key in ("data", "model", "drop", "options", "data_dir", "digest", "dataset_options")
        }
        return {**plain, **parts, "columns": columns}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunConfig:
        columns = data["columns"] and table_file.Columns.from_json(data["columns"])
        parts = {"recipe": Recipe(**data["recipe"]), "train": TrainConfig(**data["train"]), "columns": columns}
        return cls(**{**data, **parts})


class Result(NamedTuple):
    trainer: Trainer  # with the data as it was trained on
    fitted: FittedModel
    history: History
    metrics: dict[str, dict[str, float]]  # by split
    metric: str
    parameters: int
    seconds: float
    stopped: str


def load_data(config: RunConfig) -> Dataset:
    if config.digest is not None and config.digest != digest_of(config.data):
        raise InputError(f"{config.data} has changed since this run was trained; its split would be another one. Train again")
    if config.columns is not None:
        return table_file.load(Path(config.data), config.columns, drop_rate=config.drop)
    return datasets.load(config.data, data_dir=config.data_dir, drop_rate=config.drop, **config.dataset_options)


def digest_of(file: str) -> str:
    """SHA-256 of a file's bytes."""
    if not Path(file).is_file():
        raise InputError(f"there is no file {file}")
    return digest(Path(file))


def run(
    config: RunConfig,
    data: Dataset,
    *,
    folder: Path | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> Result:
    """Train and test. With `folder`, the run is saved there, and goes on from where it was if it is there already."""
    config = _settled(config, data)
    if folder is not None:
        _check_folder(folder, config)
    trainer = trainer_of(config, data)
    if data.test.target is not None:
        trainer.preprocessor.encode_target(data.test.target)  # a label that training never sees must fail now, not after hours
    if folder is not None:
        write_text(folder / CONFIG, json.dumps(config.to_json(), indent=2))
    checkpoint = None if folder is None else folder / TRAINING
    fitted, trained = trainer.fit(on_epoch=on_epoch, on_step=on_step, checkpoint=checkpoint)
    seconds = sum(trained.history.column("seconds"))
    metrics = {"validation": fitted.evaluate(data.validation), "test": fitted.evaluate(data.test)}
    result = Result(
        trainer, fitted, trained.history, metrics, trainer.metric, count_parameters(trained.model), seconds, trained.stopped
    )
    if folder is not None:
        conformal = calibrated(fitted, data)
        save_model(folder / MODEL, config, data, fitted, conformal)
        write_text(folder / RESULT, json_text(summary(config, result, data, conformal), indent=2))
    return result


def trainer_of(config: RunConfig, data: Dataset) -> Trainer:
    """What trains a config: training and validation data only, because what is tested must not choose."""
    parts = {"task": data.task, "model": config.model, "options": config.options, "recipe": config.recipe}
    return Trainer.make(data.train, data.validation, config=config.train, **parts)


def save_model(path: Path, config: RunConfig, data: Dataset, fitted: FittedModel, conformal: Conformal | None) -> None:
    """The model as `leapcde.load` reads it: an estimator that knows the file's columns, with errors for intervals.

    These are errors on the validation data, which chose the weights: the coverage in the result says how well they hold.
    """
    columns = {} if config.columns is None else config.columns.to_json()
    names = ("id", "time", "values", "static", *(() if data.task == "forecasting" else ("target",)))
    names += ("horizon", "window") if data.task == "forecasting" else ()
    params = {name: columns[name] or None for name in names if name in columns}
    arrays = {} if conformal is None else {"conformal": {"errors": conformal.errors}}
    fitted.save(path, about={"estimator": {"params": params, "window": columns.get("window")}}, arrays=arrays)


def calibrated(fitted: FittedModel, data: Dataset) -> Conformal | None:
    """How far off the predictions of numbers are on the validation data."""
    if data.task == "classification":
        return None
    return Conformal.learn(np.asarray(data.validation.target, float), fitted.predict(data.validation))


def coverage(fitted: FittedModel, data: Dataset, conformal: Conformal | None, share: float = 0.9) -> float | None:
    """How many of the test's truths lie in intervals that promise `share`; None for classes."""
    if conformal is None:
        return None
    truth = np.asarray(data.test.target, float)
    low, high = conformal.around(fitted.predict(data.test), share)
    return float(np.mean(((low <= truth) & (truth <= high))[~np.isnan(truth)]))


def baseline_metrics(data: Dataset, preprocessor: Preprocessor) -> dict[str, dict[str, float]]:
    """Test metrics of what needs no learning, by name."""
    found, known = {}, preprocessor.encode_target(np.asarray(data.train.target))
    for name in baselines_for(data.task):
        model = fit_baseline(name, preprocessor.spec, known)
        found[name] = FittedModel(preprocessor, model, name, {}).evaluate(data.test)
    return found


def summary(config: RunConfig, result: Result, data: Dataset, conformal: Conformal | None) -> dict[str, Any]:
    """What a run's result file holds."""
    return {
        "config": config.to_json(),
        "protocol": data.options,
        "samples": {"train": len(data.train), "validation": len(data.validation), "test": len(data.test)},
        "metric": result.metric,
        "metrics": result.metrics,
        "baselines": baseline_metrics(data, result.fitted.preprocessor),
        "coverage of 90 % intervals": coverage(result.fitted, data, conformal),
        "parameters": result.parameters,
        "seconds": result.seconds,
        "stopped": result.stopped,
        "history": result.history.rows,
    }


def open_run(folder: Path) -> tuple[RunConfig, FittedModel]:
    """A saved run: what was asked, and the trained model."""
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}; 'leapcde fit' and 'leapcde train' make one")
    config = read_config(folder)
    if not (folder / MODEL).exists():
        raise CheckpointError(f"the training of {folder} is not finished: repeat the command that made it to go on with it")
    return config, FittedModel.load(folder / MODEL)


def read_config(folder: Path) -> RunConfig:
    path = folder / CONFIG
    try:
        return RunConfig.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is not a run folder: it has no {CONFIG}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged ({error})") from None


def _settled(config: RunConfig, data: Dataset) -> RunConfig:
    """With the window that the data suggested if none was given: predictions look back as far as training did."""
    if config.columns is None or "window" not in data.options:
        return config
    return replace(config, columns=replace(config.columns, window=data.options["window"]))


def _check_folder(folder: Path, config: RunConfig) -> None:
    """A folder belongs to one config; another one's results are never overwritten."""
    if (folder / CONFIG).exists():
        if read_config(folder) != RunConfig.from_json(json.loads(json.dumps(config.to_json()))):
            raise InputError(f"{folder} holds a run with other settings; give another --out, or remove that folder")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty and not a run folder; give another --out")
