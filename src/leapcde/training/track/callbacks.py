"""Watching a training from outside: what is called when it starts, after each epoch, and when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from leapcde.errors import InputError

Row = dict[str, float]
EVENTS = ("on_start", "on_epoch", "on_end")


class Callback:
    """What `fit(..., callbacks=[...])` calls. Override what you need; a plain function is an `on_epoch`.

    An exception in a callback ends training where it is: a `checkpoint` holds every finished epoch, so that another `fit`
    goes on from there.

    >>> import numpy as np
    >>> from leapcde import LeapRegressor
    >>> class Enough(Callback):
    ...     def on_epoch(self, row):
    ...         return row["epoch"] == 1
    >>> X, y = np.random.default_rng(0).normal(size=(12, 5, 1)), np.arange(12.0)
    >>> LeapRegressor("gru", options={"hidden": 4}, epochs=9).fit(X, y, callbacks=[Enough()]).n_iter_
    2
    """

    def on_start(self, settings: dict[str, Any]) -> None:
        """All input is checked; `settings` has every choice: the options of the model, the recipe of X, the training."""

    def on_epoch(self, row: Row) -> bool | str | None:
        """An epoch is finished, and in the checkpoint if there is one. True or "stop" ends training here, cleanly.

        Parameters
        ----------
        row : dict
            Epoch, training loss, validation loss, metrics of the validation data, learning rate, seconds.
        """

    def on_end(self, outcome: dict[str, Any]) -> None:
        """Training has ended: `stopped` says why, `failed` whether by an error, `best` is the row of the epoch that is kept."""


class Callbacks:
    """Several of them as one; functions are wrapped, and what is neither is refused before anything is trained.

    >>> rows = []
    >>> Callbacks([rows.append]).on_epoch({"epoch": 0}), rows
    (False, [{'epoch': 0}])
    """

    def __init__(self, given: Sequence[Any] = ()):
        if not isinstance(given, (list, tuple)):
            raise InputError(f"callbacks={given!r}: give a list, of functions or Callback objects")
        self.given = [_wrapped(one) for one in given]

    def on_start(self, settings: dict[str, Any]) -> None:
        self._call("on_start", settings)

    def on_epoch(self, row: Row) -> bool:
        """Whether one of them wants training to end; all are told about the epoch."""
        return any(map(_is_stop, self._call("on_epoch", row)))

    def on_end(self, outcome: dict[str, Any]) -> None:
        self._call("on_end", outcome)

    @contextmanager
    def told_of_failure(self) -> Iterator[None]:
        """A training that fails ends too: files and servers of callbacks want to be closed."""
        try:
            yield
        except BaseException as error:
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            self.on_end({"stopped": what, "failed": True, "best": None})
            raise

    def _call(self, event: str, about: Any) -> list[Any]:
        hooks = [getattr(one, event, None) for one in self.given]
        return [hook(about) for hook in hooks if hook is not None]


class _Function(Callback):
    def __init__(self, function: Callable[[Row], Any]):
        self.function = function

    def on_epoch(self, row: Row) -> Any:
        return self.function(row)


def _wrapped(one: Any) -> Any:
    if any(callable(getattr(one, event, None)) for event in EVENTS) and not isinstance(one, type):
        return one
    if callable(one) and not isinstance(one, type):
        return _Function(one)
    hint = f"; give {one.__name__}(), not the class" if isinstance(one, type) else ""
    raise InputError(f"callback {one!r}: give a function of an epoch's row, or an object with {', '.join(EVENTS)}{hint}")


def _is_stop(answer: Any) -> bool:
    """True and "stop", and nothing else that functions happen to return."""
    return bool(answer) if isinstance(answer, (bool, np.bool_)) else isinstance(answer, str) and answer == "stop"
