"""What every model is: a batch in, a prediction and a penalty out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import numpy as np

from leapcde.data.batch import WASTE
from leapcde.errors import InputError, Problems, choose
from leapcde.nn.dense import Dense
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.interpolation import INTERPOLATIONS, Interpolation, interpolation_of
from leapcde.paths.path import CubicPath
from leapcde.paths.transform import averaged, clock_path, paced
from leapcde.solve.solver import Solver

TASKS = ("classification", "labels", "regression", "forecasting", "survival")


@dataclass(frozen=True)
class Spec:
    """The shape of the problem, all that a model needs to know of the data before it sees any."""

    task: str
    values: int  # channels of the series
    channels: int  # channels of the path X: time, intensities, values
    output: tuple[int, ...]  # (classes,), (labels,), (1,), (horizon, values), or (bins of time,)
    static: int = 0
    span: float = 1.0  # the longest sample's duration, in typical gaps
    recipe: Recipe = field(default_factory=Recipe)  # how the path X is made, for models that make another one
    ahead: tuple[float, ...] = ()  # typical gaps from a sample's end to each forecast; nothing: one after the other
    each_row: bool = False  # an answer after each row, and not one for each sample

    @property
    def asked(self) -> tuple[float, ...]:
        """`ahead`, spelled out."""
        return self.ahead or tuple(1.0 + k for k in range(self.output[0]))

    def to_json(self) -> dict[str, Any]:
        """As a file holds it: as before there could be answers after each row, where there are none."""
        return {key: value for key, value in asdict(self).items() if key != "each_row" or value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Spec:
        """Back from `to_json`; what no data could have is refused."""
        lists = {"output": tuple(data["output"]), "ahead": tuple(data.get("ahead", ()))}
        found = cls(**{**data, **lists, "recipe": Recipe(**data.get("recipe", {}))})
        choose("task", found.task, (*TASKS, "imputation"))  # the last of paths without labels
        problems = Problems()
        for name, value in {"values": found.values, "channels": found.channels, "static": found.static}.items():
            if not isinstance(value, int) or value < (name != "static"):
                problems.add(f"{name} is {value!r}")
        if not found.output or not all(isinstance(size, int) and size > 0 for size in found.output):
            problems.add(f"output is {found.output}")
        if not isinstance(found.each_row, bool) or (found.each_row and found.task not in ("classification", "regression")):
            problems.add(f"each_row is {found.each_row!r} for {found.task}")
        if not np.isfinite([found.span, *found.ahead]).all() or found.span <= 0:
            problems.add(f"span is {found.span}, ahead is {found.ahead}")
        if not problems.found and found.channels != found.recipe.channels(found.values):
            problems.add(f"{found.channels} channels of a path of {found.values} values")
        problems.raise_if_any("the shape of the problem makes no sense")
        return found


class Output(NamedTuple):
    """What a model says of a batch."""

    prediction: Any  # (batch, *spec.output)
    penalty: Any  # scalar, added to the task loss in training


@dataclass(frozen=True)
class NoOptions:
    """Of a model that has none."""


class Model(eqx.Module):
    """Built as `Model(spec, options, key=key)`, where `options` is an instance of `Options`. Subclasses are final."""

    Options: ClassVar[type] = NoOptions  # a frozen dataclass, see `models/options.py`
    waste: ClassVar[float] = WASTE  # padding that costs this model less than compiling for one more length
    many_kernels: ClassVar[bool] = False  # a training step is compiled to very many, see `compiled.program`

    @abstractmethod
    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        """The prediction for a batch, and the penalty that is added to the task's loss.

        `key` is given in training only; without it nothing is random and no penalty is computed. `epoch` counts training
        so far, in fractions, for penalties that grow with it.
        """

    def started(self, train: Iterable[Batch]) -> Model:
        """The model as training starts with it; where something of it has a closed form, with that."""
        return self

    def regularised(self) -> Any:
        """The part of the model on which a weight penalty acts."""
        return self

    def streaming_problem(self, interpolation: Interpolation) -> str:
        """Why this model, on paths by this interpolation, cannot be streamed though it is `Streamable`; nothing: ""."""
        return ""


@runtime_checkable
class Streamable(Protocol):
    """What a model may offer so that a stream can feed it one observation at a time, at a cost that never grows.

    All batches hold one sample. `begin(batch)` gives the state after the first row: `batch` is that row alone, twice.
    `advance(state, batch)` gives the state after one more row: `batch.obs` holds the row before and the new one
    (times, values and mask of both, the `last` observed values and `static`), `batch.X` the pieces of the path between them.
    `answer(state, batch)` gives the prediction: `batch` stands still at the first row, except that `batch.obs.times`
    runs from the sample's start to its end and `batch.obs.last` is up to date. A state is a pytree of arrays whose
    shapes stay the same. The answer must be that of `__call__` on all rows so far.
    """

    def begin(self, batch: Batch) -> Any: ...

    def advance(self, state: Any, batch: Batch) -> Any: ...

    def answer(self, state: Any, batch: Batch) -> Any: ...


@dataclass(frozen=True)
class Course:
    """How a controlled differential equation follows X: how fast the time channel runs, and in which steps.

    At a unit a gap, time adds up along a long series until it drowns all else in the state (docs/decisions/0010).
    """

    pace: float | None  # of the time channel; None: as it is
    steps: int | None  # equal steps from a sample's start to its end; None: a step at every knot

    @classmethod
    def of(cls, spec: Spec, time_span: float | None, steps: int | None) -> Course:
        """For a problem; `time_span` is how long the longest sample lasts in the time channel, None: as long as it is."""
        kind = interpolation_of(spec.recipe.interpolation)
        if steps is not None and kind.jumps:
            raise InputError(
                f"a {kind.name} path jumps at its last row, which no mean over a step sees; "
                "take another interpolation, or no steps"
            )
        return cls(time_span / max(spec.span, 1e-12) if time_span is not None and spec.recipe.time_channel else None, steps)

    def __call__(self, batch: Batch) -> Batch:
        """The batch with X at this pace."""
        return batch if self.pace is None else batch._replace(X=paced(batch.X, self.pace))

    def path(self, batch: Batch) -> CubicPath:
        """X as it is solved along; where there are steps, its mean around each of them and linear between them."""
        return batch.X if self.steps is None else averaged(batch.X, clock_path(batch.obs.times, 1.0, self.steps))


def driven_problem(interpolation: Interpolation, course: Course, solver: Solver, option: str) -> str:
    """Why an equation driven by X cannot go on from row to row; nothing: "". `option` is the one that sets its steps."""
    if not interpolation.causal:
        causal = " or ".join(repr(name) for name, kind in INTERPOLATIONS.items() if kind.causal)
        return (
            f"a {interpolation.name!r} path changes in its past when observations arrive, so it cannot be streamed; "
            f"fit with interpolation={causal} (--interpolation on the command line)"
        )
    if course.steps is not None:
        return (
            f"{option}={course.steps} divides the whole series into equal steps, so each new row moves them all; "
            f"stream a model trained with {option}=None"
        )
    return solver_problem(solver)


def solver_problem(solver: Solver) -> str:
    """Why a solve cannot go on from row to row; nothing: ""."""
    if not solver.adaptive:
        return ""
    return "adaptive steps depend on the whole series; stream a model trained with a fixed solver, such as 'rk4'"


def make_head(spec: Spec, state: int, *, key, anchored: bool) -> Head:
    """From a state of this size to what is asked; `anchored` forecasts start from the last observed values."""
    return Head(state, spec.output, key=key, anchored=anchored and spec.task == "forecasting")


def start_state(spec: Spec, size: int, *, key) -> Dense:
    """Static features -> the state before the first observation; zero where there are none."""
    return Dense(spec.static, size, key=key, bias=False)


def make_solver(method: str, options: dict[str, Any] | None) -> Solver:
    """The solver of the options `solver` and `solver_options` that many models have."""
    try:
        return Solver(method, **(options or {}))
    except TypeError as error:
        raise InputError(f"solver_options: {error}; a Solver has substeps, checkpoint, rtol, atol, max_steps") from None
