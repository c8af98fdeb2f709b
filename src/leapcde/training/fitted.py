"""A trained model with everything it needs to meet new data: scaling, path recipe, labels. One object, one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from leapcde.compiled import Form, take_apart
from leapcde.data.series import Series, uneven
from leapcde.data.windows import FreshWindows
from leapcde.errors import CheckpointError, InputError, choose
from leapcde.files import DAMAGE, check_sizes, load_file, names_damage, restore, save_file
from leapcde.memory import need_memory
from leapcde.models.base import TASKS, Model
from leapcde.models.registry import MODELS, build, count_parameters, options_of
from leapcde.paths.batch import Recipe
from leapcde.paths.ragged import Bucket
from leapcde.training.calibration import Calibration, header_calibration, read_calibration
from leapcde.training.config import TrainConfig
from leapcde.training.events.metrics import integrated_brier
from leapcde.training.loop import Trained, fit
from leapcde.training.metrics import frequencies, main_metric, measure, softmax
from leapcde.training.predict import FEW, ROUND_TO, answer, checked, predict
from leapcde.training.preprocess import Preprocessor, check_finite, warn_far, warn_unseen


class Fitted(ABC):
    """What has learned and answers in the units of the data: a model, a baseline, or several of them together."""

    preprocessor: Preprocessor
    name: str
    options: dict[str, Any]
    calibration: Calibration | None  # of class scores; learned after training, on data that was held out

    def __getstate__(self) -> dict[str, Any]:
        """What answering leaves behind (a note that was told, what makes the next answer quick) is no part of it."""
        return {part.name: getattr(self, part.name) for part in fields(self)}  # pyright: ignore[reportArgumentType]

    @abstractmethod
    def outputs(self, series: Series) -> np.ndarray:
        """What `raw` says, of data like that of training: nothing is checked or warned about.

        One answer a sample; one a row, end to end, of what learned from targets per row.
        """

    @property
    @abstractmethod
    def parameters(self) -> int:
        """How many numbers were learned."""

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """What a file says about it, as JSON can hold it."""

    @abstractmethod
    def trees(self) -> dict[str, Any]:
        """Its arrays by name, as a file holds them."""

    def leaves(self) -> list[tuple[float, Fitted]]:
        """What it is made of, with the weight of each: itself, unless there are several members."""
        return [(1.0, self)]

    def calibrated(self, scores: np.ndarray) -> np.ndarray:
        """Scores, corrected by what held-out data taught about them."""
        return scores if self.calibration is None else self.calibration(scores)

    def new_outputs(self, series: Series) -> np.ndarray:
        """What `raw` says, of any data."""
        return self.outputs(series)

    def with_calibration(self, calibration: Calibration | None) -> Fitted:
        """The same with another calibration."""
        return replace(self, calibration=calibration)  # pyright: ignore[reportArgumentType]

    def predict(self, series: Series) -> np.ndarray:
        """Labels, numbers, risks, or future values (sample, horizon, channel) in the units of the data."""
        return self.preprocessor.decode(self.raw(series))

    def predict_proba(self, series: Series) -> np.ndarray:
        """Class probabilities, columns in the order of `preprocessor.classes`, or of `target_names` where these are labels."""
        return self.preprocessor.probability(self.raw(series))

    def raw(self, series: Series, outputs: Callable[[Series], np.ndarray] | None = None) -> np.ndarray:
        """What the model (or `outputs`) says before it is decoded: class scores (calibrated logits), or standardised values."""
        if "_told" not in vars(self):
            object.__setattr__(self, "_told", True)  # frozen but for this: whoever predicts often has read it once
            warn_unseen(series)
        warn_far(series, self.preprocessor)
        found = (outputs or self.new_outputs)(replace(series, target=None))
        check_finite(found, series, self.preprocessor)
        return found

    @property
    def metric(self) -> str:
        """The metric that is reported first, and by which weights are chosen where `chosen_by` says no other."""
        return main_metric(self.preprocessor.task, len(self.preprocessor.classes))

    @property
    def chosen_by(self) -> str:
        """What chooses weights: ranks of the few events of validation data are too much a matter of luck (decision 25)."""
        return "val_loss" if self.preprocessor.task == "survival" else self.metric

    def evaluate(self, series: Series) -> dict[str, float]:
        """Metrics over all samples. Errors of a regression are in the target's units, of a forecast in standardised ones.

        Of several targets, "mse" and "mae" are means over all, each in its own deviations, and "mse(name)" in its units.
        """
        return self.judge(self.outputs(series), series)

    def judge(self, outputs: np.ndarray, series: Series) -> dict[str, float]:
        """Metrics of outputs that are there already, in the units of `evaluate`."""
        if series.target is None:
            raise InputError("evaluating needs targets")
        preprocessor = self.preprocessor
        outputs, target, weights = preprocessor.known(outputs, series)
        found = measure(preprocessor.task, outputs, target, weights)
        if preprocessor.task == "classification":
            return found | frequencies(softmax(outputs.astype(np.float64)), target, weights)
        if preprocessor.task == "labels":
            one = lambda j: measure("labels", outputs[:, [j]], target[:, [j]], weights)["auroc"]
            return found | {f"auroc({name})": one(j) for j, name in enumerate(preprocessor.target_names)}
        if preprocessor.bins is not None:
            return found | {"brier": integrated_brier(preprocessor.bins, outputs, np.asarray(series.target), weights)}
        if preprocessor.target_names:
            return found | self._by_target(outputs, target, weights)
        if preprocessor.task == "regression":
            unit = float(np.array(preprocessor.target_std))
            found = {"mse": found["mse"] * unit**2, "mae": found["mae"] * unit}
        return found

    def _by_target(self, outputs: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
        """Errors of each of several targets, in its units."""
        found: dict[str, float] = {}
        of = self.preprocessor
        for j, (name, unit) in enumerate(zip(of.target_names, np.atleast_1d(np.array(of.target_std)), strict=True)):
            one = measure("regression", outputs[:, j], target[:, j], weights)
            found |= {f"mse({name})": one["mse"] * float(unit) ** 2, f"mae({name})": one["mae"] * float(unit)}
        return found

    @property
    def has_path(self) -> bool:
        """Whether it learned a path Y."""
        return False

    @property
    def reach(self) -> float:
        """How long the learned path goes on beyond the end of a sample, in the units of the data; 0 if it does not."""
        return 0.0

    def path(self, series: Series, queries: int = 200) -> dict[str, np.ndarray]:
        """X, Y and dY/dt of each sample on an even grid from its start to its end, in the units of the data.

        `t` is (sample, query); X, Y and dY are (sample, query, channel of the series). `speed` is ‖dY/dt‖ over all
        channels of Y, also those that stand for time and intensity, in standardised units.
        """
        raise self._no_path()

    def path_at(self, series: Series, times: np.ndarray) -> np.ndarray:
        """Y at the times asked, (sample, query) within each sample, or beyond up to `reach`: (sample, query, channel) in the
        units of the data."""
        raise self._no_path()

    def _no_path(self) -> InputError:
        return InputError(f"model {self.name!r} does not learn a path; 'leap+' and 'leap' do")

    def save(self, path: Path | str, *, about: dict[str, Any] | None = None, arrays: dict[str, Any] | None = None) -> None:
        """Write one safetensors file. `about` and `arrays` are what an owner of the model wants to find there again."""
        save_file(Path(path), "model", {**self.trees(), **(arrays or {})}, {**(about or {}), **self.header()})


@dataclass(frozen=True)
class FittedModel(Fitted):
    """A model and its preprocessor. `save` writes one safetensors file; `FittedModel.load` reads it anywhere."""

    preprocessor: Preprocessor
    model: Model
    name: str
    options: dict[str, Any]
    calibration: Calibration | None = None  # of class scores; learned after training, on data that was held out

    def __repr__(self) -> str:  # a dataclass would print every array of the model
        what = f"{self.preprocessor.task}, {len(self.preprocessor.channels)} channels"
        return f"FittedModel({self.name!r}, {what}, {count_parameters(self.model):,} parameters)"

    def outputs(self, series: Series) -> np.ndarray:
        return self.calibrated(predict(self.model, self.encode(series)))

    def new_outputs(self, series: Series) -> np.ndarray:
        if len(series) <= FEW and not self.preprocessor.spec.each_row:
            self.preprocessor.check(series)
            return self.calibrated(answer(*self.apart, self.preprocessor.scaled(series)))
        return self.calibrated(predict(self.model, self.preprocessor.encode(series, round_to=ROUND_TO)))

    @cached_property
    def apart(self) -> tuple[Form, list]:
        return take_apart((self.model, self.preprocessor.recipe))

    @property
    def parameters(self) -> int:
        return count_parameters(self.model)

    @property
    def has_path(self) -> bool:
        return getattr(self.model, "has_path", hasattr(self.model, "learned_path"))

    @property
    def reach(self) -> float:
        return getattr(self.model, "reach", 0.0) * self.preprocessor.scaler.time_unit

    def encode(self, series: Series) -> list[Bucket]:
        """Data like that of training, as the model eats it."""
        return self.preprocessor.encode(series, waste=self.model.waste)

    def path(self, series: Series, queries: int = 200) -> dict[str, np.ndarray]:
        self._needs_path()
        data = self.preprocessor.encode(replace(series, target=None))
        parts = [(samples, checked(_paths, self.model, batch, queries)) for one in data for samples, batch in one.batches()]
        order = np.argsort(np.concatenate([samples for samples, _ in parts]))
        t, X, Y, dY, speed = (np.concatenate([np.asarray(found[i]) for _, found in parts])[order] for i in range(5))
        scaler, unit = self.preprocessor.scaler, self.preprocessor.scaler.time_unit
        starts = series.times[series.offsets[:-1]]
        return {
            "t": t * unit + starts[:, None],
            "X": scaler.unscale(X),
            "Y": scaler.unscale(Y),
            "dY": dY * np.array(scaler.std) / unit,
            "speed": speed / unit,
        }

    def path_at(self, series: Series, times: np.ndarray) -> np.ndarray:
        self._needs_path()
        data = self.preprocessor.encode(replace(series, target=None))
        starts = series.times[series.offsets[:-1], None]
        scaled = ((times - starts) / self.preprocessor.scaler.time_unit).astype(np.float32)
        found = np.empty((*scaled.shape, len(self.preprocessor.channels)), np.float32)
        for samples, batch in (part for bucket in data for part in bucket.batches()):
            found[samples] = np.asarray(checked(_learned_at, self.model, batch, scaled[samples]))
        return self.preprocessor.scaler.unscale(found)

    def _needs_path(self) -> None:
        if not self.has_path:
            raise self._no_path()

    def header(self) -> dict[str, Any]:
        own = {"model": self.name, "revision": MODELS[self.name].revision, "options": self.options}
        return {**own, "preprocessor": self.preprocessor.to_json(), **header_calibration(self.calibration)}

    def trees(self) -> dict[str, Any]:
        return {"model": eqx.filter(self.model, eqx.is_inexact_array)}

    @staticmethod
    @names_damage
    def load(path: Path | str) -> FittedModel:
        path = Path(path)
        return FittedModel.restore(path, *load_file(path, "model"))

    @classmethod
    def restore(cls, path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> FittedModel:
        """From what `load_file` found in a file."""
        if isinstance(name := about.get("model"), str) and name not in MODELS:
            hint = "import the package that registers it; known here: " + ", ".join(sorted(MODELS))
            raise CheckpointError(f"{path}: there is no model {name!r}; {hint}")
        try:
            check_sizes([about["options"], about["preprocessor"]["spec"]], arrays, path)
            preprocessor = Preprocessor.from_json(about["preprocessor"])
            choose("model", about["model"], MODELS)
            calibration = read_calibration(about, preprocessor.spec.output[0])
        except DAMAGE as error:  # an InputError is a ValueError
            raise CheckpointError(f"{path} has a damaged header ({error})") from None
        # Files from before `time_span` do not name it: their X ran at a unit for each typical gap.
        before = {"time_span": None} if "revision" not in about and "time_span" in options_of(about["model"]) else {}
        options = {**before, **about["options"]}
        if about["model"] == "leap+":  # whose path was not a part of its own at first
            arrays = {key.replace("model/.m.", "model/.Y.m."): array for key, array in arrays.items()}
        empty = eqx.filter_eval_shape(lambda: build(about["model"], preprocessor.spec, **options))
        return cls(preprocessor, restore("model", empty, arrays, path), about["model"], options, calibration)


def train_model(
    train: Series,
    validation: Series,
    *,
    task: str,
    model: str = "leap",
    options: dict[str, Any] | None = None,
    recipe: Recipe | None = None,
    config: TrainConfig | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[dict[str, float]], Any] | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> tuple[FittedModel, Trained]:
    """Train a model with exactly these settings; nothing is chosen from the data.

    Parameters
    ----------
    train, validation : Series
        With targets. The weights that are best on `validation` are kept.
    task : str
        "classification", "labels", "regression", "forecasting" or "survival".
    model, options : str, dict
        A name of `leapcde models`, and options of it that are not to be the defaults.
    recipe : Recipe
        How the path X is made of the observations.
    config : TrainConfig
        Everything else that decides the training.
    checkpoint : Path, optional
        Where to keep what is needed to go on after a kill; if the file is there, training goes on from it.
    on_epoch, on_step : callable, optional
        Called with the row of each finished epoch, where True ends training; with the steps done and all steps of the epoch.

    Returns
    -------
    FittedModel, Trained
        What answers, and how training went.

    >>> from leapcde import TrainConfig, as_series
    >>> series = as_series(np.random.default_rng(0).normal(size=(20, 9, 2)), target=np.arange(20) % 2)
    >>> quick = TrainConfig(epochs=1)
    >>> fitted, trained = train_model(series, series, task="classification", options={"hidden": 4, "width": 4}, config=quick)
    >>> fitted.predict_proba(series).shape
    (20, 2)
    """
    need_memory()
    config = config or TrainConfig()
    start = new_model(train, task=task, model=model, options=options or {}, recipe=recipe or Recipe(), seed=config.seed)
    return train_further(start, train, validation, config, checkpoint=checkpoint, on_epoch=on_epoch, on_step=on_step)


def new_model(
    train: Series,
    *,
    task: str,
    model: str,
    options: dict[str, Any],
    recipe: Recipe,
    seed: int,
    classes: tuple[Any, ...] = (),
    ahead: tuple[float, ...] = (),
    robust: bool = False,
) -> FittedModel:
    """A model that has its preprocessor from the training data, and the weights it starts with; see `Preprocessor.learn`."""
    choose("task", task, TASKS)
    preprocessor = Preprocessor.learn(train, task, recipe, classes, ahead, robust=robust)
    return FittedModel(preprocessor, build(model, preprocessor.spec, seed=seed, **options), model, options)


def train_further(
    start: FittedModel,
    train: Series,
    validation: Series,
    config: TrainConfig,
    *,
    checkpoint: Path | None = None,
    on_epoch: Callable[[dict[str, float]], Any] | None = None,
    on_step: Callable[[int, int], None] | None = None,
    fresh: FreshWindows | None = None,
) -> tuple[FittedModel, Trained]:
    """Train from the weights and with the preprocessor of `start`, by a fresh optimiser; see `train_model`.

    `fresh` gives other windows in every epoch than those of `train`, which start the model.
    """
    preprocessor = start.preprocessor
    data = [start.encode(replace(part, weights=uneven(part.weights))) for part in (train, validation)]
    hooks: dict[str, Any] = {"checkpoint": checkpoint, "on_epoch": on_epoch, "on_step": on_step}
    if fresh is not None:  # always in one group of one length, so that nothing is compiled again
        shape = {"round_to": fresh.length, "waste": np.inf}
        hooks["renewed"] = lambda epoch: preprocessor.encode(fresh(config.seed, epoch), **shape)
    trained = fit(start.model, preprocessor.task, data[0], data[1], config, metric=start.chosen_by, **hooks)
    return replace(start, model=trained.model, calibration=None), trained


@eqx.filter_jit
def _paths(model, batch, queries: int):
    values = batch.obs.values.shape[-1]
    ends = batch.obs.times[:, -1:]
    t = ends * jnp.linspace(0.0, 1.0, queries)
    Y = model.learned_path(batch)
    # The last query is the end itself, where rounding may put it just outside the path.
    dY = Y.derivative(jnp.minimum(t, Y.times[:, -1:]))
    return t, batch.X.evaluate(t)[..., -values:], Y.evaluate(t)[..., -values:], dY[..., -values:], jnp.linalg.norm(dY, axis=-1)


@eqx.filter_jit
def _learned_at(model, batch, t):
    if hasattr(model, "learned_at"):  # exactly there, and not between the points of a drawing
        return model.learned_at(batch, t)
    return model.learned_path(batch).evaluate(t)[..., -batch.obs.values.shape[-1] :]
