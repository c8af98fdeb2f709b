"""A model that answers after each row, of the rows so far only: one pass gives the answers to all prefixes of a sample."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx

from leapcde.errors import InputError
from leapcde.models.base import Model, Output, Spec
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import Interpolation, interpolation_of


@runtime_checkable
class EachRow(Protocol):
    """What a model offers that can answer after each row, besides being `Streamable`.

    `each(batch)` is like `__call__`, with predictions (batch, rows, *output): that of a row is the answer to the rows up to it.
    """

    def each(self, batch: Batch, *, key=None, epoch=0.0) -> Output: ...


class RowModel(Model):
    """A model whose answer to a sample is one for each of its rows; streamed, it is the latest."""

    inner: Any  # a model with `each`, `begin`, `advance` and `answer`
    has_path: bool = eqx.field(static=True)

    waste: ClassVar[float] = Model.waste

    @classmethod
    def of(cls, name: str, model: Model, spec: Spec, able: list[str]) -> RowModel:
        """Of a model that can do it; the error says why another cannot, and names those of `able` that can."""
        problem = model.streaming_problem(interpolation_of(spec.recipe.interpolation))
        if not isinstance(model, EachRow):
            problem = f"model {name!r} cannot answer after each row; these can: {', '.join(able)}"
        elif problem:
            problem = f"{problem}. An answer after each row must not look ahead"
        if problem:
            raise InputError(problem)
        return cls(model, hasattr(model, "learned_path"))

    def __init__(self, inner: Any, has_path: bool):
        self.inner, self.has_path = inner, has_path

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        return self.inner.each(batch, key=key, epoch=epoch)

    def started(self, train) -> RowModel:
        return RowModel(self.inner.started(train), self.has_path)

    def regularised(self) -> Any:
        return self.inner.regularised()

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return self.inner.streaming_problem(interpolation)

    def begin(self, batch: Batch) -> Any:
        return self.inner.begin(batch)

    def advance(self, state: Any, batch: Batch) -> Any:
        return self.inner.advance(state, batch)

    def answer(self, state: Any, batch: Batch) -> Any:
        return self.inner.answer(state, batch)

    def learned_path(self, batch: Batch) -> Any:
        return self.inner.learned_path(batch)

    def learned_at(self, batch: Batch, t) -> Any:
        return self.inner.learned_at(batch, t)
