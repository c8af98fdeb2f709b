"""Which column of a long table is what: the one noun for tables in memory, files on disk, and estimators."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from leapcde.data.read import from_table
from leapcde.data.series import Series
from leapcde.errors import InputError


@dataclass(frozen=True)
class Columns:
    """Names of columns (of an xarray: of dimensions).

    Parameters
    ----------
    id : str, optional
        What tells the samples apart.
    time : str, optional
        When each row was observed: numbers or dates.
    target : str or sequence of str, optional
        What is predicted, one value a sample, repeated on its rows.
    values : sequence of str, default all columns that are nothing else
        The channels.
    static : sequence of str, default none
        Features that do not change within a sample.
    weights : str, optional
        How much each sample counts, one number a sample, repeated on its rows.
    time_format : str, optional
        How times are written in a file, such as "%d/%m/%Y %H:%M", where that can be read in two ways.

    >>> Columns.of({"id": "patient", "time": "hour", "static": ["age"]}).static
    ('age',)
    """

    id: str | None = None
    time: str | None = None
    target: str | tuple[str, ...] | None = None
    values: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    weights: str | None = None
    time_format: str | None = None

    @classmethod
    def of(cls, given: Columns | dict[str, Any] | None) -> Columns:
        """From a dictionary with these names as its keys, as JSON or a person writes it."""
        if isinstance(given, Columns):
            return given
        try:
            found = dict(given or {})
            lists = {name: tuple(found[name] or ()) for name in ("values", "static") if name in found}
            several = {"target": one_or_several(found["target"])} if "target" in found else {}
            return cls(**{**found, **lists, **several})
        except (TypeError, ValueError) as error:
            raise InputError(f"columns: {error}; it takes id, time, target, values, static, weights and time_format") from None

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


LATER = ("weights", "time_format")


def read_columns(table: Any, columns: Columns, *, with_target: bool = True) -> Series:
    """A long table (pandas or polars) as one `Series`; what is not named otherwise is a channel."""
    if columns.id is None or columns.time is None:
        raise InputError(
            "a table needs the names of its columns: give id= (what tells the samples apart) and time= to the estimator, "
            "and target= for what is predicted"
        )
    targets = (columns.target,) if isinstance(columns.target, str) else columns.target or ()
    named = {columns.id, columns.time, columns.weights, *targets, *columns.static}
    values = columns.values or tuple(str(column) for column in table.columns if str(column) not in named)
    known = {"target": columns.target, "weights": columns.weights} if with_target else {}
    return from_table(table, id=columns.id, time=columns.time, values=values, static=columns.static, **known)
