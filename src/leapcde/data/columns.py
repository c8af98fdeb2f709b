"""Which column of a long table is what: the one noun for tables in memory, files on disk, and estimators."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from leapcde.data.parse import as_table
from leapcde.data.read import from_table
from leapcde.data.series import Series
from leapcde.errors import InputError, LeapWarning


@dataclass(frozen=True)
class Columns:
    """Names of columns (of an xarray: of dimensions).

    Parameters
    ----------
    id : str, optional
        What tells the samples apart; without it, all rows are one.
    time : str, optional
        When each row was observed: numbers or dates.
    target : str or sequence of str, optional
        What is predicted, one value a sample, repeated on its rows; or one a row.
    values : sequence of str, default all columns that are nothing else
        The channels.
    static : sequence of str, default none
        Features that do not change within a sample.
    weights : str, optional
        How much each sample counts, one number a sample, repeated on its rows.
    categories : dict, optional
        The categories of columns of text, as training data had them; found in the table if not given.
    time_format : str, optional
        How times are written in a file, such as "%d/%m/%Y %H:%M", where that can be read in two ways.
    target_per : str, optional
        "row" if every row has a target of its own.

    >>> Columns.of({"id": "patient", "time": "hour", "static": ["age"]}).static
    ('age',)
    """

    id: str | None = None
    time: str | None = None
    target: str | tuple[str, ...] | None = None
    values: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    weights: str | None = None
    categories: dict[str, tuple[str, ...]] | None = None
    time_format: str | None = None
    target_per: str | None = None

    @classmethod
    def of(cls, given: Columns | dict[str, Any] | None) -> Columns:
        """From a dictionary with these names as its keys, as JSON or a person writes it."""
        if isinstance(given, Columns):
            return given
        try:
            found = dict(given or {})
            lists = {name: tuple(found[name] or ()) for name in ("values", "static") if name in found}
            several: dict[str, Any] = {"target": one_or_several(found["target"])} if "target" in found else {}
            if found.get("categories"):
                several["categories"] = {name: tuple(kinds) for name, kinds in found["categories"].items()}
            return cls(**{**found, **lists, **several})
        except (TypeError, ValueError) as error:
            raise InputError(
                f"columns: {error}; it takes id, time, target, values, static, weights, categories, time_format and target_per"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """The names as a plain dictionary, without what is not given and runs of before do not have."""
        return {key: value for key, value in asdict(self).items() if key not in LATER or value is not None}


def one_or_several(target: Any) -> str | tuple[str, ...] | None:
    """Names of targets as `Columns` has them: a single one is no list.

    >>> one_or_several(["a"]), one_or_several(["a", "b"])
    ('a', ('a', 'b'))
    """
    if target is None or isinstance(target, str):
        return target
    return tuple(target) if len(target) > 1 else (target[0] if target else None)


LATER = ("weights", "categories", "time_format", "target_per")


def named_columns(columns: Columns) -> set[str | None]:
    """Columns that are named as something else than channels."""
    targets = (columns.target,) if isinstance(columns.target, str) else columns.target or ()
    return {columns.id, columns.time, columns.weights, *targets, *columns.static}


def read_columns(table: Any, columns: Columns, *, with_target: bool = True) -> Series:
    """A long table (pandas or polars) as one `Series`; what is not named otherwise is a channel."""
    if columns.time is None or (columns.id is None and columns.target is not None):
        raise InputError(
            "a table needs the names of its columns: give id= (what tells the samples apart) and time= to the estimator, "
            "and target= for what is predicted; a single series to be forecast needs no id"
        )
    table = as_table(table)
    named = named_columns(columns)
    values = columns.values or tuple(str(column) for column in table.columns if str(column) not in named)
    known = {"target": columns.target, "weights": columns.weights} if with_target else {}
    if with_target and columns.target_per is not None:
        known["target_per"] = columns.target_per
    known |= {"values": values, "static": columns.static, "categories": columns.categories}
    series = from_table(table, id=columns.id, time=columns.time, **known)
    if columns.categories is None and not columns.values:
        note_categories(series, columns)
    return series


def columns_of(series: Series) -> tuple[str, ...]:
    """The columns of a table from which the channels of a series come.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"id": 1, "t": [0, 1], "state": ["on", "off"], "heat": [1.0, 2.0]})
    >>> columns_of(from_table(table, id="id", time="t"))
    ('state', 'heat')
    """
    origin = {f"{name}={kind}": name for name, kinds in series.categories.items() for kind in kinds}
    return tuple(dict.fromkeys(origin.get(name, name) for name in series.channels))


def as_trained(train: Series, *others: Series | None) -> list[Any]:
    """Series of one table without categories that the training part does not show: nothing can be learned of them."""
    if not train.categories:
        return [train, *others]
    shown = np.any([np.any(part.values == 1, axis=0) for part in train.blocks()], axis=0)
    seen = set(np.array(train.channels)[shown])
    if train.static is not None:
        seen |= set(np.array(train.static_names)[np.any(train.static == 1, axis=0)]) if train.static_names else set()
    lost = {f"{name}={kind}" for name, kinds in train.categories.items() for kind in kinds} - seen
    if not lost:
        return [train, *others]
    message = f"categories that only held-out data has count as none of the others: {', '.join(sorted(lost))}"
    warnings.warn(message, LeapWarning, stacklevel=4)
    return [None if part is None else _without(part, lost) for part in (train, *others)]


def _without(series: Series, lost: set[str]) -> Series:
    kinds = {name: tuple(k for k in of if f"{name}={k}" not in lost) for name, of in series.categories.items()}
    kept = lambda names: [i for i, name in enumerate(names) if name not in lost]
    keep, stay = kept(series.channels), kept(series.static_names)
    channels = tuple(series.channels[i] for i in keep)
    found = replace(series, values=series.values[:, keep], channels=channels, categories=kinds)
    if series.static is None or not series.static_names:
        return found
    return replace(found, static=series.static[:, stay], static_names=tuple(series.static_names[i] for i in stay))


def note_categories(series: Series, columns: Columns) -> None:
    """Say which columns of text were read as categories."""
    found = {name: kinds for name, kinds in series.categories.items() if name not in columns.static}
    if found:
        told = "; ".join(f"{name} ({', '.join(kinds[:5])}{', …' if len(kinds) > 5 else ''})" for name, kinds in found.items())
        message = f"text was read as categories: {told}. If that is not meant, name the columns to use as values="
        warnings.warn(message, LeapWarning, stacklevel=4)
