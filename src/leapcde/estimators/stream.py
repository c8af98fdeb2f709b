"""Answers while observations arrive: each is looked at once, and the answer is that of `predict` on all of them so far.

A causal path (Hermite, rectilinear) never changes in its past, so a controlled differential equation can be driven
piece by piece: NCDE carries z, LEAP carries the encoder's e and runs its decoder, of a fixed number of steps, when
asked. Models that go from row to row (the recurrent ones, ODE-RNN) read no path and carry their state. What is carried,
and why a model cannot be streamed, it says itself (`Streamable`, `streaming_problem`). A row at which
nothing was observed only counts while it is the last one, as in `without_empty_rows`; it is therefore kept
aside, and forgotten when the next row comes. (Not where each row has a target of its own: there it counts like others.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from leapcde.compiled import Form
from leapcde.data.batch import Padded
from leapcde.data.parse import static_features, unmasked
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.ensemble.fitted import FittedEnsemble
from leapcde.errors import InputError, Problems
from leapcde.models.base import Streamable
from leapcde.models.registry import MODELS
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import interpolation_of
from leapcde.paths.streaming import Grown, begin_path, extend_path
from leapcde.training.fitted import Fitted, FittedModel
from leapcde.training.preprocess import Preprocessor


class Stream(ABC):
    """One series as it arrives. Made by an estimator's `stream()`.

    `push(t, x)` takes a time and the value of each channel, NaN where there is none; `predict()` and `predict_proba()`
    answer at any moment. `len(stream)` counts the rows so far.
    """

    def __init__(self, fitted: Fitted, static: Any = None):
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
        """The label, number, risk, or future values (step, channel), from what was pushed so far."""
        return self.fitted.preprocessor.decode(self.raw())[0]

    def predict_proba(self) -> np.ndarray:
        """The probability of each class, in the order of the classes, or of each label."""
        return self.fitted.preprocessor.probability(self.raw())[0]

    def predict_survival_function(self, times: Any) -> np.ndarray:
        """How probable it is that the event has not come so long after the last row: one number for each time."""
        if (bins := self.fitted.preprocessor.bins) is None:
            raise InputError(f"survival is about times to an event; this model does {self.fitted.preprocessor.task}")
        return bins.survival(self.raw(), np.atleast_1d(np.asarray(times, float)))[0]

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


def open_stream(fitted: Fitted, *, window: int | None = None, static: Any = None) -> Stream:
    """A stream for what has learned; with `window`, one that looks back on so many rows, as a forecaster does."""
    if window is not None:
        return WindowStream(fitted, window, static)
    if isinstance(fitted, FittedEnsemble):
        return MembersStream(fitted, static)
    if not isinstance(fitted, FittedModel):
        raise InputError(f"the baseline {fitted.name!r} cannot be streamed; fit with model='leap+', options={{'causal': True}}")
    return CarriedStream(fitted, static)


class WindowStream(Stream):
    """Keeps the last `window` rows and predicts from them: exact for every path and model, at a cost that never grows."""

    def __init__(self, fitted: Fitted, window: int, static: Any = None):
        super().__init__(fitted, static)
        self.kept: deque[tuple[float, np.ndarray]] = deque(maxlen=window)

    def _take(self, time: float, values: np.ndarray) -> None:
        self.kept.append((time, values))

    def _answer(self) -> Any:
        times, values = np.array([t for t, _ in self.kept]), np.stack([x for _, x in self.kept])
        static = self.static if self.fitted.preprocessor.spec.static else None
        series = Series(times, values, np.array([0, len(times)]), self.fitted.preprocessor.channels, static=static)
        return self.fitted.raw(series)


class MembersStream(Stream):
    """Streams of all members of an ensemble, whose answers are averaged."""

    def __init__(self, fitted: FittedEnsemble, static: Any = None):
        super().__init__(fitted, static)
        self.mixed = fitted.mixed
        self.streams = [open_stream(one, static=static) for one in fitted.members]

    def _take(self, time: float, values: np.ndarray) -> None:
        for stream in self.streams:
            stream.push(time, values)

    def _answer(self) -> Any:
        return self.mixed([stream.raw() for stream in self.streams])


class Moving(NamedTuple):
    """What each row changes of all that is known of the rows so far, as arrays of one sample."""

    state: Any  # of the model
    grown: Grown  # what the path and the last row are made of


class CarriedStream(Stream):
    """Carries the state of the model from row to row."""

    def __init__(self, fitted: FittedModel, static: Any = None):
        super().__init__(fitted, static)
        _check(fitted)
        self.form, self.arrays = fitted.apart
        self.first: Any = None  # the first row, as a batch
        self.carry: Any = None  # `Moving`
        self.start = 0.0
        self.waiting: np.ndarray | None = None  # a last row without observations

    def _take(self, time: float, values: np.ndarray) -> None:
        preprocessor = self.fitted.preprocessor
        if self.first is None:
            self.start = time
        scaled = preprocessor.scaler.scale(values[None])
        mask = ~np.isnan(scaled)
        since = np.array([[(time - self.start) / preprocessor.scaler.time_unit]], np.float32)
        # One array is sent faster than three.
        row = np.concatenate([since, np.where(mask, scaled, 0), mask], 1, dtype=np.float32)
        if self.first is None:
            self.first, self.carry = _begin(self.form, self.arrays, row, _scaled_static(preprocessor, self.static))
        elif mask.any() or preprocessor.spec.each_row:  # where each row has its answer, each counts
            self.carry, self.waiting = _push(self.form, self.arrays, self.first, self.carry, row), None
        else:
            self.waiting = row

    def _answer(self) -> Any:
        given, carry = (self.form, self.arrays, self.first), self.carry
        if self.waiting is not None:
            carry = _push(*given, carry, self.waiting)
        return self.fitted.calibrated(np.asarray(_read(*given, carry)))


@partial(jax.jit, static_argnums=0)
def _begin(form: Form, arrays: list, row, static) -> tuple[Batch, Moving]:
    time, values, mask = _parts(row)
    twice = lambda a: jnp.stack([a, a], 1)
    still = jnp.stack([mask, jnp.zeros_like(mask)], 1)
    obs = Padded(twice(time), twice(values), still, values, static, None)
    model, recipe = form.together(arrays)
    first = Batch(obs, recipe.path(obs))
    return first, Moving(model.begin(first), begin_path(recipe, time, values, mask))


@partial(jax.jit, static_argnums=0)
def _push(form: Form, arrays: list, first: Batch, carry: Moving, row) -> Moving:
    (model, recipe), before, row = form.together(arrays), carry.grown, _parts(row)
    piece, grown = extend_path(recipe, before, *row)
    time, values, mask = (jnp.stack(pair, 1) for pair in zip((before.time, before.values, before.seen), row, strict=True))
    obs = Padded(time, values, mask, grown.values, first.obs.static, None)
    return Moving(model.advance(carry.state, Batch(obs, piece)), grown)


@partial(jax.jit, static_argnums=0)
def _read(form: Form, arrays: list, first: Batch, carry: Moving):
    grown = carry.grown
    times = jnp.stack([jnp.zeros_like(grown.time), grown.time], 1)
    batch = Batch(first.obs._replace(times=times, last=grown.values), first.X)
    return form.together(arrays)[0].answer(carry.state, batch)


def _parts(row):
    """Time, values and mask of a row that was sent as one array."""
    return row[:, 0], *jnp.split(row[:, 1:], 2, 1)


def _check(fitted: FittedModel) -> None:
    """The model says itself whether it can be streamed."""
    problem = fitted.model.streaming_problem(interpolation_of(fitted.preprocessor.recipe.interpolation))
    if not problem and isinstance(fitted.model, Streamable):
        return
    can = ", ".join(repr(name) for name, info in MODELS.items() if issubclass(info.make, Streamable))
    raise InputError(problem or f"model {fitted.name!r} cannot be streamed; these can: {can}")


def _row(preprocessor: Preprocessor, t: Any, x: Any) -> tuple[float, np.ndarray]:
    """One observation, checked; the slow and thorough way only where the fast one does not fit."""
    channels = len(preprocessor.channels)
    plain = type(x) is np.ndarray and x.shape == (channels,) and x.dtype.kind in "fiu"
    if plain and isinstance(t, (int, float)) and abs(t) < 1e300:
        time, values = float(t), x.astype(np.float64)
    else:
        time, values = _array(t), _array(unmasked(x))
        series = as_series([(time, values[None] if values.ndim == 1 else values)])
        if len(series.times) != 1 or series.values.shape[1] != channels:
            raise InputError(
                f"push takes one time and {channels} values ({', '.join(preprocessor.channels)}), NaN where there is none"
            )
        time, values = float(series.times[0]), series.values[0].astype(np.float64)
    if not np.isfinite(time) or np.isinf(values).any():
        raise InputError(f"time {time:g} and values must be finite; use NaN for a value that is missing")
    return time, values


def _array(given: Any) -> Any:
    """With a dimension at least; a mask stays."""
    try:
        return np.atleast_1d(given if isinstance(given, np.ma.MaskedArray) else np.asarray(given))
    except ValueError:
        raise InputError("push takes one time and one value for each channel, not lists of different lengths") from None


def _checked_static(preprocessor: Preprocessor, given: Any) -> np.ndarray:
    """Static features as (1, features), NaN where one is missing."""
    problems = Problems()
    found = None if given is None else static_features(_array(given)[None], problems)
    problems.raise_if_any("the static features cannot be used")
    values = np.zeros((1, 0)) if found is None else found.reshape(1, -1)
    if values.shape[1] != preprocessor.spec.static:
        expected = f"the model was trained on {preprocessor.spec.static} static features"
        raise InputError(f"{expected}, {values.shape[1]} are given: stream(static=[…])")
    return values


def _scaled_static(preprocessor: Preprocessor, static: np.ndarray) -> np.ndarray:
    mean, std = np.array(preprocessor.scaler.static_mean), np.array(preprocessor.scaler.static_std)
    return np.nan_to_num((static - mean) / std if preprocessor.spec.static else static).astype(np.float32)
