"""Answers while observations arrive: each is looked at once, and the answer is that of `predict` on all of them so far.

A causal path (Hermite, rectilinear) never changes in its past, so a controlled differential equation can be driven
piece by piece: NCDE carries z, LEAP carries the encoder's e and runs its decoder, of a fixed number of steps, when
asked. Models that go from row to row (the recurrent ones, ODE-RNN) read no path and carry their state. A row at which
nothing was observed only counts while it is the last one, as in `prepare.without_empty_rows`; it is therefore kept
aside, and forgotten when the next row comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from leapcde.data.batch import Padded
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.models.base import Model, Streamable
from leapcde.models.leap import Leap
from leapcde.models.ncde import NeuralCDE
from leapcde.models.ode_rnn import ODERNN
from leapcde.models.rnn import OverRows
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.interpolation import CAUSAL, fit_path
from leapcde.solve.adaptive import ADAPTIVE
from leapcde.solve.integrate import solve
from leapcde.training.fitted import FittedModel
from leapcde.training.metrics import softmax
from leapcde.training.predict import checked
from leapcde.training.preprocess import Preprocessor


class Stream(ABC):
    """One series as it arrives. Made by an estimator's `stream()`.

    `push(t, x)` takes a time and the value of each channel, NaN where there is none; `predict()` and `predict_proba()`
    answer at any moment. `len(stream)` counts the rows so far.
    """

    def __init__(self, fitted: FittedModel, static: Any = None):
        self.fitted = fitted
        self.rows = 0
        self.newest = -np.inf
        self.static = _checked_static(fitted.preprocessor, static)

    def __len__(self) -> int:
        return self.rows

    def push(self, t: Any, x: Any) -> Stream:
        """Take one observation, later than all before. Returns the stream."""
        time, values = _row(self.fitted.preprocessor, t, x)
        if not time > self.newest:
            raise InputError(f"time {time:.12g} does not come after {self.newest:.12g}: observations must arrive in order")
        self._take(time, values)
        self.rows, self.newest = self.rows + 1, time
        return self

    def predict(self) -> Any:
        """The label, number, or future values (step, channel), from what was pushed so far."""
        return self.fitted.preprocessor.decode(self.raw())[0]

    def predict_proba(self) -> np.ndarray:
        """The probability of each class, in the order of the classes."""
        if self.fitted.preprocessor.task != "classification":
            raise InputError(f"probabilities exist for classification only; this model does {self.fitted.preprocessor.task}")
        return softmax(self.raw().astype(np.float64))[0]

    def raw(self) -> np.ndarray:
        """What the model says before it is decoded, with a leading axis of one."""
        if not self.rows:
            raise InputError("nothing was pushed yet; an answer needs at least one observation")
        found = np.asarray(self._answer())
        if not np.isfinite(found).all():
            raise InputError("the model's answer is not a number: an observation was far outside of what training saw")
        return found

    @abstractmethod
    def _take(self, time: float, values: np.ndarray) -> None: ...

    @abstractmethod
    def _answer(self) -> Any: ...


def open_stream(fitted: FittedModel, *, window: int | None = None, static: Any = None) -> Stream:
    """A stream for a fitted model; with `window`, one that looks back on so many rows, as a forecaster does."""
    if window is not None:
        return WindowStream(fitted, window, static)
    return CarriedStream(fitted, static)


class WindowStream(Stream):
    """Keeps the last `window` rows and predicts from them: exact for every path and model, at a cost that never grows."""

    def __init__(self, fitted: FittedModel, window: int, static: Any = None):
        super().__init__(fitted, static)
        self.kept: deque[tuple[float, np.ndarray]] = deque(maxlen=window)

    def _take(self, time: float, values: np.ndarray) -> None:
        self.kept.append((time, values))

    def _answer(self) -> Any:
        times, values = np.array([t for t, _ in self.kept]), np.stack([x for _, x in self.kept])
        static = self.static if self.fitted.preprocessor.spec.static else None
        series = Series(times, values, np.array([0, len(times)]), self.fitted.preprocessor.channels, static=static)
        return self.fitted.raw(series)


class Carry(NamedTuple):
    """All that is known of the rows so far, as arrays of one sample. `rate` is the Hermite path's slope before the last row."""

    state: Any
    first: Batch  # the first row
    time: Any  # (1,), of the last row, since the first one
    filled: Any  # (1, channels), last observed values; 0 (the training mean) before there are any
    seen: Any  # (1, channels), 1 where a channel was observed before
    rate: Any  # (1, channels)
    count: Any  # (1, channels), observations so far


class CarriedStream(Stream):
    """Carries the state of the model from row to row."""

    def __init__(self, fitted: FittedModel, static: Any = None):
        super().__init__(fitted, static)
        _check_causal(fitted)
        self.carry: Carry | None = None
        self.start = 0.0
        self.waiting: tuple[Any, Any, Any] | None = None  # a last row without observations

    def _take(self, time: float, values: np.ndarray) -> None:
        preprocessor = self.fitted.preprocessor
        if self.carry is None:
            self.start = time
        scaled = preprocessor.scaler.scale(values[None])
        mask = ~np.isnan(scaled)
        since = np.array([(time - self.start) / preprocessor.scaler.time_unit], np.float32)
        row = (since, np.where(mask, scaled, 0), mask.astype(np.float32))
        if self.carry is None:
            self.carry = checked(_begin, self.fitted.model, preprocessor.recipe, row, _scaled_static(preprocessor, self.static))
        elif mask.any():
            self.carry, self.waiting = checked(_push, self.fitted.model, preprocessor.recipe, self.carry, row), None
        else:
            self.waiting = row

    def _answer(self) -> Any:
        model, recipe, carry = self.fitted.model, self.fitted.preprocessor.recipe, self.carry
        if self.waiting is not None:
            carry = checked(_push, model, recipe, carry, self.waiting)
        return checked(_read, model, carry)


@eqx.filter_jit
def _begin(model: Model, recipe: Recipe, row, static) -> Carry:
    time, values, mask = row
    twice = lambda a: jnp.stack([a, a], 1)
    still = jnp.stack([mask, jnp.zeros_like(mask)], 1)
    obs = Padded(twice(time), twice(values), still, values, static, None)
    first = Batch(obs, fit_path(obs, recipe.interpolation, time_channel=recipe.time_channel, intensity=recipe.intensity))
    return Carry(_begun(model, first), first, time, values, mask, jnp.zeros_like(values), mask)


@eqx.filter_jit
def _push(model: Model, recipe: Recipe, carry: Carry, row) -> Carry:
    time, values, mask = row
    filled = jnp.where(mask > 0, values, carry.filled)
    seen = jnp.maximum(carry.seen, mask)
    piece = _piece(recipe, carry, time, filled, mask)
    obs = Padded(
        jnp.stack([carry.time, time], 1),
        jnp.stack([carry.filled, values], 1),
        jnp.stack([carry.seen, mask], 1),
        filled,
        carry.first.obs.static,
        None,
    )
    gap = (time - carry.time)[:, None]
    rate = jnp.where(gap > 0, (filled - carry.filled) / jnp.where(gap > 0, gap, 1.0), 0.0)
    state = _advanced(model, carry.state, Batch(obs, piece))
    return Carry(state, carry.first, time, filled, seen, rate, carry.count + mask)


@eqx.filter_jit
def _read(model: Model, carry: Carry):
    obs = carry.first.obs
    obs = obs._replace(times=jnp.stack([jnp.zeros_like(carry.time), carry.time], 1), last=carry.filled)
    return _answered(model, carry.state, Batch(obs, carry.first.X))


def _piece(recipe: Recipe, carry: Carry, time, filled, mask):
    """The pieces of the path between the last row and the new one, made by `fit_path` itself from what is carried."""
    times = jnp.stack([carry.time, time], 1)
    everything = jnp.ones_like(filled)  # what is carried is known, observed at this row or before
    obs = Padded(
        times, jnp.stack([carry.filled, filled], 1), jnp.stack([everything] * 2, 1), filled, carry.first.obs.static, None
    )
    path = fit_path(obs, recipe.interpolation, time_channel=recipe.time_channel)
    if recipe.interpolation == "hermite":
        # Only the first piece of a Hermite path is linear; later ones begin with the slope before them.
        slope = carry.rate * (time - carry.time)[:, None]
        mine = (slice(None), 0, slice(-slope.shape[-1], None))
        left = path.left.at[mine].set(jnp.where(carry.time[:, None] > 0, slope, path.left[mine]))
        path = eqx.tree_at(lambda p: p.left, path, left)
    return _with_counts(path, carry.count, mask, recipe) if recipe.intensity else path


def _with_counts(path, count, mask, recipe: Recipe):
    """Counts of observations, linear between rows, behind the time channel; rectilinear paths jump at their end."""
    counts = [count, count, count + mask] if recipe.interpolation == "rectilinear" else [count, count + mask]
    knots = jnp.stack(counts, 1)
    slope = jnp.diff(knots, axis=1)
    at = int(recipe.time_channel)
    put = lambda array, extra: jnp.concatenate([array[..., :at], extra, array[..., at:]], -1)
    return replace(path, values=put(path.values, knots), left=put(path.left, slope), right=put(path.right, slope))


# What is carried, by family of models. One that follows `Streamable` says so itself. ------------------------------------
class _Given(eqx.Module):
    """Stands in for the map that starts a state: the state is there already."""

    state: Any

    def __call__(self, start):
        return self.state


def _family(model: Model) -> tuple[Any, Any] | None:
    """Where a driven model starts its state, and the field that drives it; None if it is no such model."""
    if isinstance(model, Leap):
        return lambda m: m.φ_e, lambda m: m.k
    if isinstance(model, NeuralCDE):
        return lambda m: m.φ_z, lambda m: m.g
    return None


def _begun(model: Model, first: Batch):
    if isinstance(model, Streamable):
        return model.begin(first)
    start, _ = _family(model)  # pyright: ignore[reportGeneralTypeIssues]
    return start(model)(first.start)


def _advanced(model: Any, state, piece: Batch):
    if isinstance(model, Streamable):
        return model.advance(state, piece)
    _, field = _family(model)  # pyright: ignore[reportGeneralTypeIssues]
    return solve(field(model), state, model.course(piece).X, model.solver)[0]


def _answered(model: Any, state, end: Batch):
    """The model itself answers, on a path that stands still, with the state that it carries as its start."""
    if isinstance(model, Streamable):
        return model.answer(state, end)
    start, _ = _family(model)  # pyright: ignore[reportGeneralTypeIssues]
    return eqx.tree_at(start, model, _Given(state))(end).prediction


def _check_causal(fitted: FittedModel) -> None:
    model, interpolation = fitted.model, fitted.preprocessor.recipe.interpolation
    if not isinstance(model, Streamable) and _family(model) is None:
        raise InputError(f"model {fitted.name!r} cannot be streamed; 'leap', 'ncde', 'gru', 'gru-d' and 'ode-rnn' can")
    if isinstance(model, Leap) and model.residual:
        raise InputError("'leap+' needs the whole path X for its answer, so it cannot be streamed; 'leap' can")
    if not isinstance(model, (OverRows, ODERNN)) and interpolation not in CAUSAL:
        raise InputError(
            f"a {interpolation!r} path changes in its past when observations arrive, so it cannot be streamed; "
            f"fit with interpolation='hermite' or 'rectilinear' (--path on the command line)"
        )
    solver = getattr(model, "solver", None)
    if solver is not None and solver.method in ADAPTIVE:
        raise InputError("adaptive steps depend on the whole series; stream a model trained with a fixed solver, such as 'rk4'")
    if isinstance(model, (Leap, NeuralCDE)) and model.course.steps is not None:
        option = "encoder_steps" if isinstance(model, Leap) else "steps"
        raise InputError(
            f"{option}={model.course.steps} divides the whole series into equal steps, so each new row moves them all; "
            f"stream a model trained with {option}=None"
        )
    if isinstance(model, Leap) and model.steps is None:
        raise InputError(
            "decoder_steps=None steps at every observation, so each costs more than the last; fit with decoder_steps=24"
        )


def _row(preprocessor: Preprocessor, t: Any, x: Any) -> tuple[float, np.ndarray]:
    """One observation, checked; the slow and thorough way only where the fast one does not fit."""
    channels = len(preprocessor.channels)
    if isinstance(t, (int, float)) and isinstance(x, np.ndarray) and x.shape == (channels,) and x.dtype.kind in "fiu":
        time, values = float(t), x.astype(np.float64)
    else:
        values = np.atleast_1d(np.asarray(x))
        series = as_series([(np.atleast_1d(np.asarray(t)), values[None] if values.ndim == 1 else values)])
        if len(series.times) != 1 or series.values.shape[1] != channels:
            raise InputError(
                f"push takes one time and {channels} values ({', '.join(preprocessor.channels)}), NaN where there is none"
            )
        time, values = float(series.times[0]), series.values[0].astype(np.float64)
    if not np.isfinite(time) or np.isinf(values).any():
        raise InputError(f"time {time:g} and values must be finite; use NaN for a value that is missing")
    return time, values


def _checked_static(preprocessor: Preprocessor, given: Any) -> np.ndarray:
    """Static features as (1, features), NaN where one is missing."""
    values = np.zeros((1, 0)) if given is None else np.asarray(given, float).reshape(1, -1)
    if values.shape[1] != preprocessor.spec.static:
        expected = f"the model was trained on {preprocessor.spec.static} static features"
        raise InputError(f"{expected}, {values.shape[1]} are given: stream(static=[…])")
    return values


def _scaled_static(preprocessor: Preprocessor, static: np.ndarray) -> np.ndarray:
    mean, std = np.array(preprocessor.scaler.static_mean), np.array(preprocessor.scaler.static_std)
    return np.nan_to_num((static - mean) / std if preprocessor.spec.static else static).astype(np.float32)
