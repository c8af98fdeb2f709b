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
        What tells the samples apart; without it, all rows are one.
    time : str, optional
        When each row was observed: numbers or dates.
    target : str, optional
        What is predicted, one value a sample, repeated on its rows.
    values : sequence of str, default all columns that are nothing else
        The channels.
    static : sequence of str, default none
        Features that do not change within a sample.
    time_format : str, optional
        How times are written in a file, such as "%d/%m/%Y %H:%M", where that can be read in two ways.

    >>> Columns.of({"id": "patient", "time": "hour", "static": ["age"]}).static
    ('age',)
    """

    id: str | None = None
    time: str | None = None
    target: str | None = None
    values: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    time_format: str | None = None

    @classmethod
    def of(cls, given: Columns | dict[str, Any] | None) -> Columns:
        """From a dictionary with these names as its keys, as JSON or a person writes it."""
        if isinstance(given, Columns):
            return given
        try:
            found = dict(given or {})
            lists = {name: tuple(found[name] or ()) for name in ("values", "static") if name in found}
            return cls(**{**found, **lists})
        except (TypeError, ValueError) as error:
            raise InputError(f"columns: {error}; it takes id, time, target, values, static and time_format") from None

    def to_json(self) -> dict[str, Any]:
        """The names as a plain dictionary, without a format that is not given: runs of before have none."""
        return {key: value for key, value in asdict(self).items() if key != "time_format" or value is not None}


def read_columns(table: Any, columns: Columns, *, with_target: bool = True) -> Series:
    """A long table (pandas or polars) as one `Series`; what is not named otherwise is a channel."""
    if columns.time is None or (columns.id is None and columns.target is not None):
        raise InputError(
            "a table needs the names of its columns: give id= (what tells the samples apart) and time= to the estimator, "
            "and target= for what is predicted; a single series to be forecast needs no id"
        )
    named = {columns.id, columns.time, columns.target, *columns.static}
    values = columns.values or tuple(str(column) for column in table.columns if str(column) not in named)
    target = columns.target if with_target else None
    return from_table(table, id=columns.id, time=columns.time, values=values, target=target, static=columns.static)
