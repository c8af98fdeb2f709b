"""What every data set is made of: where it is read from, how it is cut and split, and which options that leaves.

A dataset option is a field of a small frozen dataclass with a default (what the paper does, or what is sound where the
paper is not). The values of all options end up in `Dataset.options`, and from there in the record of every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from leapcde.data.dataset import Dataset, More
from leapcde.data.drop import drop
from leapcde.data.series import Series
from leapcde.data.split import sample_labels, split
from leapcde.errors import InputError, Problems, choose, meant


class Read(NamedTuple):
    """All samples of a source, nothing dropped or split, and what is worth recording about them."""

    series: Series
    notes: dict[str, Any]


class PublishedNumber(NamedTuple):
    """A published number, what to compare with it, and what is known about a difference."""

    what: str
    published: Any
    found: Callable[[Series], Any]
    why: str = ""  # explains a difference that is to be expected; without it, a difference is a failure


@dataclass(frozen=True)
class About:
    """Where a data set comes from, under which terms, and what has been published about it."""

    title: str
    licence: str = ""
    citation: str = ""
    page: str = ""
    figures: tuple[PublishedNumber, ...] = ()
    how_to_get: str = "it is a file of yours"  # where it is not downloaded


class Download(NamedTuple):
    """A file at its official address, and where it goes below the data directory; SHA-256 where one is published."""

    url: str
    place: Path
    sha256: str | None = None


@dataclass(frozen=True)
class NoOptions:
    """For a data set that lets you choose nothing."""


Parts = tuple[Series, Series, Series]


def no_files(data_dir: Path, options: Any) -> list[Path]:
    """For what is bundled, or made by code."""
    return []


def uncut(series: Series, options: Any) -> Series:
    return series


def stratified(series: Series, options: Any) -> Parts:
    return split(series, labels=sample_labels(series))


def _no_checks(data_dir: Path, options: Any) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Source:
    """One data set: `read(data_dir, options)` reads it, `cut` makes windows of it, `split` splits it.

    **Arguments:**

    - `name`, `task`: what it is called; "classification", "regression", "forecasting", or "" if the files say it.
    - `read`: all samples, as a `Read`; nothing dropped or split.
    - `options`: a frozen dataclass whose fields are the dataset options; an instance of it goes to all functions here.
    - `files`: what it is read from; an error says how to get what is not there.
    - `about`, `downloads`: where it comes from, and what `leapcde data fetch` downloads.
    - `cut`, `split`, `split_name`: windows, and training, validation and test series with a name for how.
    - `checks`: what `leapcde data check` looks at beside the published numbers.
    - `more`: metrics of class probabilities that only this data has; see `Dataset`.

    >>> import numpy as np
    >>> from leapcde.data.read import as_series
    >>> read = lambda data_dir, options: Read(as_series(np.ones((40, 5, 1)), target=np.arange(40) % 2), {})
    >>> len(Source("ones", "classification", read).load(Path("data"), 0.0, "times", {}).train)
    28
    """

    name: str
    task: str
    read: Callable[[Path, Any], Read]
    options: type = NoOptions
    files: Callable[[Path, Any], list[Path]] = no_files
    about: About = About("")
    downloads: tuple[Download, ...] = ()
    cut: Callable[[Series, Any], Series] = uncut
    split: Callable[[Series, Any], Parts] = stratified
    split_name: str = "70/15/15 stratified"
    checks: Callable[[Path, Any], Iterable[tuple[str, bool | None, str]]] = _no_checks
    more: More | None = None

    def load(self, data_dir: Path, drop_rate: Any, drop_what: str, given: dict[str, Any]) -> Dataset:
        """From files to three series, the same whatever the seed of a run."""
        options = make_dataset_options(self.name, self.options, given)
        _check_drop(drop_rate, drop_what)
        return self.make(*self.read(data_dir, options), drop_rate, drop_what, options)

    def make(self, series: Series, notes: dict[str, Any], drop_rate: Any, drop_what: str, options: Any) -> Dataset:
        """Windows, drops and splits of what was read."""
        cut = self.cut(series, options)
        if drop_rate:
            cut = drop(cut, drop_rate, what=drop_what)  # pyright: ignore[reportArgumentType]
        made = {"drop": drop_rate, "drop_what": drop_what, **asdict(options), "split": self.split_text(options)}
        rest = {key: value for key, value in notes.items() if key != "task"}
        task, options_made = notes.get("task", self.task), {**made, **rest}
        return Dataset(self.name, task, *self.split(cut, options), options_made, more=self.more)

    def split_text(self, options: Any) -> str:
        asked = getattr(options, "split", None)
        return self.split_name if asked is None else f"70/15/15 {asked}" if asked != "archive" else "the archive's own"


def make_dataset_options(name: str, kind: type, given: dict[str, Any]) -> Any:
    """The options of a data set with those given put in; one error lists every one that does not fit.

    >>> @dataclass(frozen=True)
    ... class Options:
    ...     hours: int = 72
    >>> make_dataset_options("sepsis", Options, {"hours": 48}).hours
    48
    >>> make_dataset_options("sepsis", Options, {"hours": "all"})
    Traceback (most recent call last):
    leapcde.errors.InputError: data set 'sepsis' cannot be prepared like this:
      - option hours='all': give a whole number above 0
    """
    kinds, problems = get_type_hints(kind), Problems()
    for key, value in given.items():
        if key not in kinds:
            names = ", ".join(kinds) or "none"
            problems.add(f"no option {key!r}; {meant(key, kinds)}it has: {names}")
        elif wanted := _wanted(value, kinds[key]):
            problems.add(f"option {key}={value!r}: give {wanted}")
    problems.raise_if_any(f"data set {name!r} cannot be prepared like this")
    return kind(**given)


def dataset_options_of(source: Source) -> dict[str, Any]:
    """The names of a data set's options, with their defaults."""
    return {item.name: item.default for item in fields(source.options)}


def _wanted(value: Any, kind: Any) -> str:
    """What to give instead, or nothing where the value fits its annotation."""
    options = get_args(kind)
    if get_origin(kind) is Literal:
        return "" if value in options else "one of " + ", ".join(map(str, options))
    if options:  # int | None
        return "" if value is None else _wanted(value, options[0])
    fits = {
        int: isinstance(value, int) and not isinstance(value, bool) and value > 0,
        bool: isinstance(value, bool),
        str: isinstance(value, str) and bool(value),
    }
    wanted = {int: "a whole number above 0", bool: "true or false", str: "text"}
    return "" if fits[kind] else wanted[kind]


def _check_drop(rate: Any, what: str) -> None:
    choose("kind of dropping", what, ("times", "values"))
    if not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise InputError(f"drop rate {rate}: give a share from 0 up to, but not including, 1")
