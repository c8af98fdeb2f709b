"""A trained model with everything it needs to meet new data: scaling, path recipe, labels. One object, one file."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .batches import Bucket, Recipe, make_buckets
from .checkpoint import load_file, restore, save_file
from .errors import CheckpointError, InputError, LeapWarning, choose
from .metrics import main_metric, measure, softmax
from .models import MODELS, TASKS, Model, Spec, build, options_of
from .prepare import Scaler, without_empty_rows
from .series import Series
from .train import Fitted, TrainConfig, checked, fit, predict, targets

STRANGE = 1e4  # deviations from the training mean that deserve a warning
FAR = 2.0  # a sample that lasts so many times longer than the longest of training deserves a warning


@dataclass(frozen=True)
class Frame:
    """How raw series and targets become arrays and back. Learned from training data, shared by all models of a run."""

    task: str
    recipe: Recipe
    scaler: Scaler
    channels: tuple[str, ...]
    spec: Spec
    classes: tuple[Any, ...] = ()
    target_mean: float = 0.0  # regression only
    target_std: float = 1.0

    @classmethod
    def learn(cls, train: Series, task: str, recipe: Recipe, classes: tuple[Any, ...] = ()) -> Frame:
        """Look at the training data, and only at it. `classes` names those that this part of the data may not show."""
        scaler = Scaler.fit(train)
        if train.target is None:
            raise InputError("training needs targets: labels, numbers, or windows to forecast")
        values = train.values.shape[1]
        mean, std = 0.0, 1.0
        output: tuple[int, ...] = (1,)
        if task == "classification":
            classes = tuple(np.unique([*train.target.tolist(), *classes]).tolist())
            if len(classes) < 2:
                raise InputError(
                    f"every training sample has the class {np.unique(train.target)[0]}: one class; give at least two classes"
                )
            output = (len(classes),)
        elif task == "forecasting":
            output = tuple(train.target.shape[1:])
        else:
            mean, std = _number_scale(train.target)
        ends, starts = train.times[train.offsets[1:] - 1], train.times[train.offsets[:-1]]
        spec = Spec(
            task=task,
            values=values,
            channels=recipe.channels(values),
            output=output,
            static=0 if train.static is None else train.static.shape[1],
            span=float(np.max(ends - starts) / scaler.time_unit) or 1.0,
            recipe=recipe,
        )
        _warn_unseen(train)
        return cls(task, recipe, scaler, train.channels, spec, classes, mean, std)

    def encode(self, series: Series, *, round_to: int = 1) -> list[Bucket]:
        """Scaled, padded, with paths; targets as the loss wants them."""
        self.check(series)
        scaled = self.scaler.apply(without_empty_rows(series))
        _warn_coarse_times(scaled)
        if series.target is not None:
            scaled = replace(scaled, target=self.encode_target(series.target))
        return make_buckets(scaled, self.recipe, round_to=round_to)

    def encode_target(self, target: np.ndarray) -> np.ndarray:
        if self.task == "classification":
            known = {label: i for i, label in enumerate(self.classes)}
            unknown = sorted({str(v) for v in target.tolist() if v not in known})
            if unknown:
                raise InputError(
                    f"labels that training did not see: {', '.join(unknown)} (too rare for every split? merge or remove them); "
                    f"known: {', '.join(map(str, self.classes))}"
                )
            return np.array([known[v] for v in target.tolist()], np.int32)
        if self.task == "forecasting":
            return self.scaler.scale(target)
        return ((np.asarray(target, float).reshape(len(target), 1) - self.target_mean) / self.target_std).astype(np.float32)

    def decode(self, raw: np.ndarray) -> np.ndarray:
        """Raw predictions as people want them: labels, numbers, or future values in their own units."""
        if self.task == "classification":
            return np.array(self.classes)[raw.argmax(-1)]
        if self.task == "forecasting":
            return self.scaler.unscale(raw)
        return raw[:, 0].astype(float) * self.target_std + self.target_mean

    def check(self, series: Series) -> None:
        """The series must have the channels and statics that training saw."""
        if series.values.shape[1] != len(self.channels):
            raise InputError(
                f"the series has {series.values.shape[1]} channels ({', '.join(series.channels)}), "
                f"the model was trained on {len(self.channels)} ({', '.join(self.channels)})"
            )
        unnamed = all(name == f"x{c}" for c, name in enumerate(series.channels))
        if series.channels != self.channels and not unnamed:
            raise InputError(
                f"the channels are {', '.join(series.channels)}; training saw {', '.join(self.channels)}, in this order"
            )
        static = 0 if series.static is None else series.static.shape[1]
        if static != self.spec.static:
            raise InputError(f"the series has {static} static features, the model was trained on {self.spec.static}")

    def to_json(self) -> dict[str, Any]:
        own = {key: getattr(self, key) for key in ("task", "channels", "classes", "target_mean", "target_std")}
        return {**own, "recipe": self.recipe.to_json(), "scaler": self.scaler.to_json(), "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Frame:
        parts = {
            "recipe": Recipe(**data["recipe"]),
            "scaler": Scaler.from_json(data["scaler"]),
            "spec": Spec.from_json(data["spec"]),
        }
        return cls(**{**data, **parts, "channels": tuple(data["channels"]), "classes": tuple(data["classes"])})


@dataclass(frozen=True)
class Predictor:
    """A model and its frame. `save` writes one safetensors file; `Predictor.load` reads it anywhere."""

    frame: Frame
    model: Model
    name: str
    options: dict[str, Any]

    def predict(self, series: Series) -> np.ndarray:
        """Labels, numbers, or future values (sample, horizon, channel) in the units of the data."""
        return self.frame.decode(self.raw(series))

    def predict_proba(self, series: Series) -> np.ndarray:
        """Class probabilities, columns in the order of `frame.classes`."""
        if self.frame.task != "classification":
            raise InputError(f"probabilities exist for classification only; this model does {self.frame.task}")
        return softmax(self.raw(series).astype(np.float64))

    def raw(self, series: Series) -> np.ndarray:
        """What the model says before it is decoded: class scores (logits), or standardised values."""
        _warn_unseen(series)
        _warn_far(series, self.frame)
        found = predict(self.model, self.frame.encode(replace(series, target=None), round_to=8))
        _check_finite(found, series, self.frame)
        return found

    def evaluate(self, series: Series) -> dict[str, float]:
        """Metrics over all samples. Errors of a regression are in the target's units, of a forecast in standardised ones."""
        if series.target is None:
            raise InputError("evaluating needs targets")
        data = self.frame.encode(series)
        found = measure(self.frame.task, predict(self.model, data), targets(data))
        if self.frame.task == "regression":
            found = {"mse": found["mse"] * self.frame.target_std**2, "mae": found["mae"] * self.frame.target_std}
        return found

    def path(self, series: Series, queries: int = 200) -> dict[str, np.ndarray]:
        """X, Y and dY/dt of each sample on an even grid from its start to its end, in the units of the data.

        `t` is (sample, query); X, Y and dY are (sample, query, channel of the series). `speed` is ‖dY/dt‖ over all
        channels of Y, also those that stand for time and intensity, in standardised units.
        """
        self._needs_path()
        data = self.frame.encode(replace(series, target=None))
        found = [checked(_paths, self.model, bucket.batch, queries) for bucket in data]
        order = np.argsort(np.concatenate([bucket.samples for bucket in data]))
        t, X, Y, dY, speed = (np.concatenate([np.asarray(part[i]) for part in found])[order] for i in range(5))
        scaler, unit = self.frame.scaler, self.frame.scaler.time_unit
        starts = series.times[series.offsets[:-1]]
        return {
            "t": t * unit + starts[:, None],
            "X": scaler.unscale(X),
            "Y": scaler.unscale(Y),
            "dY": dY * np.array(scaler.std) / unit,
            "speed": speed / unit,
        }

    def path_at(self, series: Series, times: np.ndarray) -> np.ndarray:
        """Y at the times asked, (sample, query) within each sample: (sample, query, channel) in the units of the data."""
        self._needs_path()
        data = self.frame.encode(replace(series, target=None))
        starts = series.times[series.offsets[:-1], None]
        scaled = ((times - starts) / self.frame.scaler.time_unit).astype(np.float32)
        found = np.empty((*scaled.shape, len(self.frame.channels)), np.float32)
        for bucket in data:
            found[bucket.samples] = np.asarray(checked(_learned_at, self.model, bucket.batch, scaled[bucket.samples]))
        return self.frame.scaler.unscale(found)

    def _needs_path(self) -> None:
        if not hasattr(self.model, "learned_path"):
            raise InputError(f"model {self.name!r} does not learn a path; 'leap' does")

    def save(self, path: Path | str, *, about: dict[str, Any] | None = None, arrays: dict[str, Any] | None = None) -> None:
        """Write one safetensors file. `about` and `arrays` are what an owner of the predictor wants to find there again."""
        own = {
            "model": self.name,
            "revision": MODELS[self.name].revision,
            "options": self.options,
            "frame": self.frame.to_json(),
        }
        trees = {"model": eqx.filter(self.model, eqx.is_inexact_array), **(arrays or {})}
        save_file(Path(path), "model", trees, {**(about or {}), **own})

    @classmethod
    def load(cls, path: Path | str) -> Predictor:
        path = Path(path)
        return cls.restore(path, *load_file(path, "model"))

    @classmethod
    def restore(cls, path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> Predictor:
        """From what `load_file` found in a file."""
        try:
            frame = Frame.from_json(about["frame"])
            choose("model", about["model"], MODELS)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{path} has a damaged header ({error})") from None
        # Files from before `time_span` do not name it: their X ran at a unit for each typical gap.
        before = {"time_span": None} if "revision" not in about and "time_span" in options_of(about["model"]) else {}
        options = {**before, **about["options"]}
        empty = eqx.filter_eval_shape(lambda: build(about["model"], frame.spec, **options))
        return cls(frame, restore("model", empty, arrays, path), about["model"], options)


class Trainer(NamedTuple):
    """A model and encoded data, ready to be fitted: whatever can be wrong with the input has been found by now."""

    frame: Frame
    model: Model
    name: str
    options: dict[str, Any]
    train: list[Bucket]
    validation: list[Bucket]
    config: TrainConfig

    @classmethod
    def make(
        cls, train: Series, validation: Series, *, task: str, model: str, options: dict, recipe: Recipe, config: TrainConfig
    ) -> Trainer:
        frame = Frame.learn(train, task, recipe)
        built = build(model, frame.spec, seed=config.seed, **options)
        return cls(frame, built, model, options, frame.encode(train), frame.encode(validation), config)

    @property
    def metric(self) -> str:
        return main_metric(self.frame.task, len(self.frame.classes))

    def fit(self, **hooks) -> tuple[Predictor, Fitted]:
        """Train; `hooks` are those of `leapcde.fit` (on_epoch, on_step, checkpoint)."""
        fitted = fit(self.model, self.frame.task, self.train, self.validation, self.config, metric=self.metric, **hooks)
        return Predictor(self.frame, fitted.model, self.name, self.options), fitted


def learn(
    train: Series,
    validation: Series,
    *,
    task: str,
    model: str = "leap",
    options: dict[str, Any] | None = None,
    recipe: Recipe | None = None,
    config: TrainConfig | None = None,
    **hooks,
) -> tuple[Predictor, Fitted]:
    """Train a model on series with targets, choosing weights on the validation series.

    >>> from leapcde import TrainConfig, as_series
    >>> series = as_series(np.random.default_rng(0).normal(size=(20, 9, 2)), target=np.arange(20) % 2)
    >>> quick = TrainConfig(epochs=1)
    >>> predictor, fitted = learn(series, series, task="classification", options={"hidden": 4, "width": 4}, config=quick)
    >>> predictor.predict_proba(series).shape
    (20, 2)
    """
    choose("task", task, TASKS)
    recipe, config = recipe or Recipe(), config or TrainConfig()
    made = Trainer.make(train, validation, task=task, model=model, options=options or {}, recipe=recipe, config=config)
    return made.fit(**hooks)


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
    return model.learned_path(batch).evaluate(t)[..., -batch.obs.values.shape[-1] :]


def _number_scale(target: np.ndarray) -> tuple[float, float]:
    try:
        numbers = np.asarray(target, float)
    except ValueError:
        raise InputError(
            f"regression needs numbers as targets, not text such as '{target[0]}'; use task classification"
        ) from None
    if not np.isfinite(numbers).all():
        raise InputError(f"target {int(np.argmin(np.isfinite(numbers)))} is not finite; every training sample needs a target")
    return float(numbers.mean()), float(numbers.std()) or 1.0


def _warn_coarse_times(scaled: Series) -> None:
    """Times are single precision on the device; say so where that makes different times equal."""
    same = np.diff(scaled.owner) == 0
    merged = same & (np.diff(scaled.times) > 0) & (np.diff(scaled.times.astype(np.float32)) == 0)
    if merged.any():
        message = f"{int(merged.sum())} pairs of times are too close, so far from their sample's start, to be told apart; "
        warnings.warn(message + "split such samples, or thin out their bursts", LeapWarning, stacklevel=4)


def _warn_far(series: Series, frame: Frame) -> None:
    """A model knows nothing of times and values far beyond those it was trained on; often the unit is another one."""
    away = np.abs((series.values - np.array(frame.scaler.mean)) / np.array(frame.scaler.std))
    most = np.max(np.where(np.isnan(away), 0.0, away), axis=0, initial=0.0)
    if most.max() > STRANGE:
        channel = f"channel {frame.channels[int(most.argmax())]!r} is {most.max():.3g} deviations away from the training mean. "
        warnings.warn(channel + "Is the unit the same? Predictions are a guess there", LeapWarning, stacklevel=4)
    duration = series.times[series.offsets[1:] - 1] - series.times[series.offsets[:-1]]
    seen = frame.spec.span * frame.scaler.time_unit
    far = duration > FAR * seen
    if far.any():
        message = f"{int(far.sum())} of {len(series)} samples last up to {duration.max():g}; training saw at most {seen:g}. "
        warnings.warn(message + "Is the unit of time the same? Predictions are a guess there", LeapWarning, stacklevel=4)


def _check_finite(raw: np.ndarray, series: Series, frame: Frame) -> None:
    bad = np.flatnonzero(~np.isfinite(raw).reshape(len(raw), -1).all(1))
    if not len(bad):
        return
    problems = []
    for i in bad:
        values = np.abs(frame.scaler.scale(series.sample(int(i))[1]))
        worst = int(np.nanargmax(np.nanmax(np.where(np.isnan(values), 0, values), 0)))
        far = float(np.nanmax(values[:, worst]))
        problems.append(f"sample {i}: channel {frame.channels[worst]!r} is {far:.3g} deviations away from what training saw")
    raise InputError("the model's answer is not a number; check the units, or set such values to NaN", problems)


def _warn_unseen(series: Series) -> None:
    """Channels that some samples never observe are constant there; say so once, with names and counts."""
    seen = np.add.reduceat(~np.isnan(series.values), series.offsets[:-1], axis=0) > 0
    never = (~seen).sum(0)
    if never.any():
        worst = ", ".join(f"{series.channels[c]!r} in {never[c]}" for c in np.argsort(-never)[:5] if never[c])
        more = f" and {(never > 0).sum() - 5} other channels" if (never > 0).sum() > 5 else ""
        message = f"never observed (held at the training mean) in some of {len(series)} samples: {worst}{more}"
        warnings.warn(message, LeapWarning, stacklevel=3)
