"""An experiment: settings in rows and columns, each trained once a seed. Frozen dataclasses, and the same as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import tomli_w

from leapcde.errors import InputError, Problems
from leapcde_paper.presets import NOTHING, without_word
from leapcde_paper.run.cell import Cell, CellConfig

KINDS = ("table", "figure")


@dataclass(frozen=True)
class Setting:
    """A row and a column of an experiment: one config, trained once a seed."""

    row: str
    column: str
    config: CellConfig
    seeds: tuple[int, ...]
    samples: int | None = None
    length: int | None = None
    paths: bool = False


class Entry(NamedTuple):
    """Where a cell stands in an experiment."""

    row: str
    column: str
    cell: Cell


@dataclass(frozen=True)
class Experiment:
    """A table or figure: what is run for it, and at which budget.

    >>> setting = Setting("GRU", "Hopper", CellConfig("hopper", "gru"), (0, 1))
    >>> one = Experiment("mine", "My table", "table", "standard", (setting,))
    >>> [entry.cell.config.train.seed for entry in one.entries()]
    [0, 1]
    >>> from_toml(to_toml(one)) == one
    True
    """

    name: str
    title: str
    kind: str
    budget: str
    settings: tuple[Setting, ...]
    note: str = ""
    data_dir: str | None = field(default=None, compare=False)

    def __post_init__(self):
        problems = Problems()
        if self.kind not in KINDS:
            problems.add(f"kind {self.kind!r}: give one of {', '.join(KINDS)}")
        places = [(one.row, one.column) for one in self.settings]
        for place in dict.fromkeys(place for place in places if places.count(place) > 1):
            problems.add(f"row {place[0]!r}, column {place[1]!r} is there twice")
        for one in self.settings:
            if not one.seeds:
                problems.add(f"row {one.row!r}, column {one.column!r} has no seeds")
        problems.raise_if_any(f"experiment {self.name!r} is not usable")

    def entries(self) -> Iterator[Entry]:
        for one in self.settings:
            for seed in one.seeds:
                train = replace(one.config.train, seed=seed)
                config = replace(one.config, train=train, data_dir=self.data_dir)
                yield Entry(one.row, one.column, Cell(config, self.budget, one.samples, one.length, one.paths))

    def part(self, models: Sequence[str] = (), seeds: int | None = None, columns: Sequence[str] = ()) -> Experiment:
        """What is to be run of it for now: these models and columns (all if none is named), each with its first seeds.

        >>> one = Experiment("mine", "My table", "table", "full", (Setting("GRU", "x", CellConfig("hopper", "gru"), (0, 1)),))
        >>> [len(list(one.part(*ask).entries())) for ask in ((), (["gru"], 1), (["lstm"],), ((), None, ["y"]))]
        [2, 1, 0, 0]
        """
        wanted = lambda one: (not models or one.config.model in models) and (not columns or one.column in columns)
        return replace(self, settings=tuple(replace(one, seeds=one.seeds[:seeds]) for one in self.settings if wanted(one)))

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(one.row for one in self.settings))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(one.column for one in self.settings))


def to_toml(experiment: Experiment) -> str:
    """The whole experiment as a TOML document, one [[settings]] a row and column."""
    head = {key: getattr(experiment, key) for key in ("name", "title", "kind", "budget", "note")}
    return tomli_w.dumps({**head, "settings": [_to_table(one) for one in experiment.settings]})


def from_toml(text: str) -> Experiment:
    """Read what `to_toml` wrote, or what somebody made of it; what is missing has its default."""
    try:
        data = tomllib.loads(text)
        settings = tuple(_from_table(item) for item in data.pop("settings"))
        return Experiment(**data, settings=settings)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}") from None
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"this is not an experiment: {error}; 'leapcde reproduce NAME --toml' prints one") from None


_OWN = ("row", "column", "seeds", "samples", "length", "paths")  # of a setting, besides its config


def _to_table(one: Setting) -> dict[str, Any]:
    config = one.config.to_json()
    config["train"].pop("seed")
    own = {key: value for key in _OWN if (value := getattr(one, key)) is not None}
    return {**own, "seeds": list(one.seeds), **{key: _with_word(value) for key, value in config.items()}}


def _from_table(data: dict[str, Any]) -> Setting:
    own = {key: data.pop(key) for key in _OWN if key in data}
    return Setting(**{**own, "seeds": tuple(own["seeds"])}, config=CellConfig.from_json(without_word(data)))


def _with_word(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_word(item) for key, item in value.items()}
    return NOTHING if value is None else value
