"""Options of models: a frozen dataclass each, whose types say what a value may be. Checked here and nowhere else.

`int` is a size (whole, at least 1), `Whole` may be 0, `float` is at least 0, `Positive` is above 0, `Share` is from 0 up to,
but not, 1; then `bool`, `str`, `Literal`, `dict`, and unions of them, such as `int | None`. Any other annotation accepts
any value.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from leapcde.errors import InputError, meant

T = TypeVar("T")


@dataclass(frozen=True)
class Rule:
    """What a value must be, as a test and in words."""

    fits: Callable[[Any], bool]
    wanted: str


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def _finite(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def table_of(options: Any) -> dict[str, Any]:
    """Options as they are given, if they are a table of names and values; none if None.

    >>> table_of(None), table_of({"hidden": 8})
    ({}, {'hidden': 8})
    """
    if options is None:
        return {}
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise InputError(f"options {str(options)[:40]}: give a table of names and values, such as {{'hidden': 32}}")
    return options


Whole = Annotated[int, Rule(lambda value: _whole(value) and value >= 0, "a whole number, 0 or more")]
Positive = Annotated[float, Rule(lambda value: _finite(value) and value > 0, "a number above 0")]
Share = Annotated[float, Rule(lambda value: _finite(value) and 0 <= value < 1, "a number from 0 up to, but not, 1")]
RULES: dict[Any, Rule] = {
    int: Rule(lambda value: _whole(value) and value > 0, "a whole number above 0"),
    float: Rule(lambda value: _finite(value) and value >= 0, "a number of at least 0"),
    bool: Rule(lambda value: isinstance(value, bool), "true or false"),
    str: Rule(lambda value: isinstance(value, str), "text"),
    dict: Rule(lambda value: isinstance(value, dict), "a table of settings"),
    types.NoneType: Rule(lambda value: value is None, ""),  # said nowhere: leaving an option out is always possible
}
ANYTHING = Rule(lambda value: True, "")


class Option(NamedTuple):
    """One option of a model: its default, its type, and what it is."""

    default: Any
    kind: Any
    about: str


def option(default: T, about: str) -> T:
    """A field of an options dataclass, with a line that says what it is.

    >>> @dataclass(frozen=True)
    ... class Options:
    ...     hidden: int = option(48, "size of the state")
    >>> options_in(Options)["hidden"].about
    'size of the state'
    """
    return field(default=default, metadata={"about": about})


def options_in(kind: type) -> dict[str, Option]:
    """The options of an options dataclass, by name."""
    hints = _hints(kind)
    found = {}
    for each in fields(kind):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        found[each.name] = Option(default, hints.get(each.name, Any), each.metadata.get("about", ""))
    return found


def problem_with(name: str, value: Any, known: dict[str, Option]) -> str:
    """What is wrong with the value of an option; nothing: "".

    >>> problem_with("hidden", 0, {"hidden": Option(48, int, "")})
    'option hidden=0: give a whole number above 0'
    """
    if name not in known:
        return f"no option {name!r}; {meant(name, known)}it has: {', '.join(known)}"
    rule = rule_of(known[name].kind)
    return "" if rule.fits(value) else f"option {name}={value!r}: give {rule.wanted}"


def rule_of(kind: Any) -> Rule:
    """What an annotation asks of a value.

    >>> rule_of(int | None).fits(None), rule_of(Positive).fits(0.0), rule_of(dict[str, int]).wanted
    (True, False, 'a table of settings')
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return next((part for part in parts if isinstance(part, Rule)), rule_of(parts[0]))
    if origin in (Union, types.UnionType):
        rules = [rule_of(part) for part in parts]
        return Rule(lambda value: any(r.fits(value) for r in rules), " or ".join(r.wanted for r in rules if r.wanted))
    if origin is Literal:
        return Rule(lambda value: value in parts, f"one of {', '.join(map(repr, parts))}")
    return RULES.get(origin or kind, ANYTHING)


def _hints(kind: type) -> dict[str, Any]:
    """Annotations as types, also where `from __future__ import annotations` left text. What cannot be read accepts anything."""
    try:
        return get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, SyntaxError):  # of names that exist only while type checking, or inside a function
        return {}
