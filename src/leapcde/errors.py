"""What went wrong, where (sample 17, channel 'hr'), and how to fix it.

Every mistake a user can make ends in one `LeapError`, which is also a `ValueError`. Checks collect what they find
in a `Problems` list first, so that one run shows everything that is wrong and not only the first thing.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType

SHOWN = 20


class LeapError(ValueError):
    """A mistake that the user can fix. `problems` holds every one of them; the message shows the first twenty.

    >>> raise LeapError("cannot read the series", ["sample 3: times go backwards"])
    Traceback (most recent call last):
    leapcde.errors.LeapError: cannot read the series:
      - sample 3: times go backwards
    """

    def __init__(self, what: str, problems: list[str] | tuple[str, ...] = ()):
        self.what = what
        self.problems = tuple(problems)
        super().__init__(_message(what, self.problems))

    def __reduce__(self):  # keeps the fields when sklearn or joblib sends the error between processes
        return type(self), (self.what, self.problems)


class InputError(LeapError):
    """The series, table or options given are not usable."""


class CheckpointError(LeapError):
    """A saved file is truncated, foreign, or from a newer version."""


class SolveError(LeapError):
    """A differential equation could not be solved with the settings given."""


class TrainingError(LeapError):
    """Training cannot go on; what was learned so far is kept."""


class MissingDependencyError(LeapError, ImportError):
    """An optional package is needed for what was asked."""


class LeapWarning(UserWarning):
    """Something that works but deserves a look."""


class Problems:
    """Collects what is wrong, then raises once.

    >>> problems = Problems()
    >>> problems.add("sample 0: no observations")
    >>> problems.raise_if_any("cannot read the series")
    Traceback (most recent call last):
    leapcde.errors.InputError: cannot read the series:
      - sample 0: no observations
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        self.found.append(problem)

    def raise_if_any(self, what: str) -> None:
        if self.found:
            raise InputError(what, self.found)


def choose(what: str, name: str, known) -> None:
    """Check that `name` is one of `known`; the error lists them.

    >>> choose("path", "cubic", ["linear", "cubic"])
    """
    if not isinstance(name, str) or name not in known:
        raise InputError(f"there is no {what} {name!r}; {meant(name, known)}choose one of: {', '.join(sorted(known))}")


def meant(name: object, known: Iterable[object]) -> str:
    """A question to put into a message, if a known name is like the one given.

    >>> meant("lsmt", ["gru", "lstm"]), meant("x", ["gru"])
    ("did you mean 'lstm'? ", '')
    """
    plain = {str(one).casefold(): str(one) for one in known}
    close = difflib.get_close_matches(str(name).casefold(), plain, n=1)
    return f"did you mean {plain[close[0]]!r}? " if close else ""


def need(module: str, extra: str) -> ModuleType:
    """Import an optional module, or say which extra brings it.

    >>> need("math", "plot").pi > 3
    True
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = f"this needs {module.split('.')[0]!r}; install it with: pip install 'leapcde[{extra}]'"
        raise MissingDependencyError(hint) from error


def _message(what: str, problems: tuple[str, ...]) -> str:
    if not problems:
        return what
    lines = [f"  - {problem}" for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more")
    return "\n".join([f"{what}:", *lines])
