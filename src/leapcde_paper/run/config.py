"""What an experiment is: runs in rows and columns, each once a seed. Frozen dataclasses, and the same as TOML.

A cell is one run with one seed. Its key is a hash of its settings; its identity is that of settings, data and protocol.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from leapcde.cli.run import RunConfig
from leapcde.errors import InputError, Problems
from leapcde.models.registry import MODELS

PROTOCOL = 1  # of what a cell does with its settings and data; raise it when numbers change for another reason than these
# and for all models; one that changes alone has its own `revision`.
NOTHING = "none"  # TOML has no word for it
KINDS = ("table", "figure")


@dataclass(frozen=True)
class Cell:
    """One training with one seed. `samples` and `length` make the data small: so many of them, and the last so many rows
    of each, at even times, so that cells of all drop rates share what is compiled."""

    config: RunConfig
    budget: str = "standard"
    samples: int | None = None
    length: int | None = None
    paths: bool = False  # keep X and Y of some test samples, where the model learns a path

    @property
    def key(self) -> str:
        """A hash of all settings, wherever the data lies.

        >>> a, b = Cell(RunConfig("hopper")), Cell(RunConfig("hopper", data_dir="/data"))
        >>> a.key == b.key, a.key == Cell(RunConfig("hopper"), budget="full").key
        (True, False)
        """
        revision = MODELS[self.config.model].revision if self.config.model in MODELS else 1
        return _hash({**self.to_json(), "protocol": PROTOCOL, **({"revision": revision} if revision > 1 else {})})

    def identity(self, data_hash: str) -> str:
        """A hash of settings, data and protocol: the same cell is never run twice."""
        return _hash({"key": self.key, "data": data_hash})

    def name(self, identity: str) -> str:
        """The name of its record.

        >>> Cell(RunConfig("hopper", "gru-d", drop=0.3)).name("0123456789abcdef")
        'hopper-30-gru-d-0-0123456789ab'
        """
        data = Path(self.config.data).stem.replace(":", "-")
        return f"{data}-{round(100 * self.config.drop)}-{self.config.model}-{self.config.train.seed}-{identity[:12]}"

    def to_json(self) -> dict[str, Any]:
        """Without the data's place on this machine, which is nobody's business."""
        own = {key: getattr(self, key) for key in ("budget", "samples", "length", "paths")}
        return {"config": public(self.config), **own}

    @classmethod
    def from_json(cls, data: dict[str, Any], data_dir: str | None = None) -> Cell:
        """What `to_json` wrote, with data that lies in `data_dir`."""
        return cls(**{**data, "config": replace(RunConfig.from_json(data["config"]), data_dir=data_dir)})


@dataclass(frozen=True)
class Run:
    """A row and a column of an experiment: one config, trained once a seed."""

    row: str
    column: str
    config: RunConfig
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

    >>> one = Experiment("mine", "My table", "table", "standard", (Run("GRU", "Hopper", RunConfig("hopper", "gru"), (0, 1)),))
    >>> [entry.cell.config.train.seed for entry in one.entries()]
    [0, 1]
    >>> from_toml(to_toml(one)) == one
    True
    """

    name: str
    title: str
    kind: str
    budget: str
    runs: tuple[Run, ...]
    note: str = ""
    data_dir: str | None = field(default=None, compare=False)

    def __post_init__(self):
        problems = Problems()
        if self.kind not in KINDS:
            problems.add(f"kind {self.kind!r}: give one of {', '.join(KINDS)}")
        places = [(run.row, run.column) for run in self.runs]
        for place in dict.fromkeys(place for place in places if places.count(place) > 1):
            problems.add(f"row {place[0]!r}, column {place[1]!r} is there twice")
        for run in self.runs:
            if not run.seeds:
                problems.add(f"row {run.row!r}, column {run.column!r} has no seeds")
        problems.raise_if_any(f"experiment {self.name!r} is not usable")

    def entries(self) -> Iterator[Entry]:
        for run in self.runs:
            for seed in run.seeds:
                train = replace(run.config.train, seed=seed)
                config = replace(run.config, train=train, data_dir=self.data_dir)
                yield Entry(run.row, run.column, Cell(config, self.budget, run.samples, run.length, run.paths))

    def part(self, models: Sequence[str] = (), seeds: int | None = None) -> Experiment:
        """What is to be run of it for now: these models (all of them if none is named), each with its first seeds.

        >>> one = Experiment("mine", "My table", "table", "full", (Run("GRU", "x", RunConfig("hopper", "gru"), (0, 1)),))
        >>> [len(list(one.part(*ask).entries())) for ask in ((), (["gru"], 1), (["lstm"],))]
        [2, 1, 0]
        """
        runs = (replace(run, seeds=run.seeds[:seeds]) for run in self.runs if not models or run.config.model in models)
        return replace(self, runs=tuple(runs))

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(run.row for run in self.runs))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(run.column for run in self.runs))


def public(config: RunConfig) -> dict[str, Any]:
    """A config as JSON, without the data's place on this machine."""
    return json.loads(json.dumps(replace(config, data_dir=None).to_json()))


def to_toml(experiment: Experiment) -> str:
    """The whole experiment as a TOML document, one [[runs]] a row and column."""
    head = {key: getattr(experiment, key) for key in ("name", "title", "kind", "budget", "note")}
    lines = [f"{key} = {_value(value)}" for key, value in head.items()]
    for run in experiment.runs:
        config = public(run.config)
        config["train"].pop("seed")
        own = {key: getattr(run, key) for key in _OWN}
        given = {key: value for key, value in {**own, **config}.items() if value is not None}
        lines += ["", "[[runs]]", *_lines(given, "runs")]
    return "\n".join(lines) + "\n"


def from_toml(text: str) -> Experiment:
    """Read what `to_toml` wrote, or what somebody made of it; what is missing has its default."""
    try:
        data = tomllib.loads(text)
        runs = tuple(_run(item) for item in data.pop("runs"))
        return Experiment(**data, runs=runs)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"this is not an experiment: {error}; 'leapcde reproduce NAME --toml' prints one") from None


_OWN = ("row", "column", "seeds", "samples", "length", "paths")  # of a run, besides its config


def _run(data: dict[str, Any]) -> Run:
    own = {key: data.pop(key) for key in _OWN if key in data}
    data = {"recipe": {}, "train": {}, "columns": None, **{key: _without_word(value) for key, value in data.items()}}
    return Run(**{**own, "seeds": tuple(own["seeds"])}, config=RunConfig.from_json(data))


def _lines(table: dict[str, Any], name: str) -> list[str]:
    """Plain values first, then the tables inside."""
    plain = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if not isinstance(v, dict)]
    for key, value in table.items():
        if isinstance(value, dict) and value:
            plain += [f"[{name}.{_key(key)}]", *_lines(value, f"{name}.{_key(key)}")]
    return plain


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _without_word(value: Any) -> Any:
    """Inside a table, the word for nothing becomes nothing: a default may be something else."""
    if isinstance(value, dict):
        return {key: _without_word(item) for key, item in value.items()}
    return None if value == NOTHING else value


def _value(value: Any) -> str:
    if value is None:
        return json.dumps(NOTHING)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)  # strings, whole numbers and truth values are written as in JSON


def _hash(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
