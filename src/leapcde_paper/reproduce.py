"""`leapcde reproduce`: from the names of tables and figures to their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from leapcde.datasets.registry import find_data_dir, source_of
from leapcde.datasets.source import make_dataset_options
from leapcde.errors import InputError, LeapError, Problems, TrainingError, choose
from leapcde.files import atomic, json_text, write_text
from leapcde_paper import studies
from leapcde_paper.figures import draw
from leapcde_paper.figures.figures import figure
from leapcde_paper.run import collected, records
from leapcde_paper.run.cell import Cell
from leapcde_paper.run.experiment import Experiment, from_toml
from leapcde_paper.run.records import Record
from leapcde_paper.run.sweep import Progress, Swept, sweep
from leapcde_paper.tables import render
from leapcde_paper.tables.archive import archive, archive_grid
from leapcde_paper.tables.hidden import hidden, hidden_grid
from leapcde_paper.tables.margins import margin_grid, margins
from leapcde_paper.tables.table import by_key, metric_of, of_settings, table
from leapcde_paper.tables.ttests import t_grid, t_tests

TABLES, FIGURES = "tables", "figures"
_BY_SAMPLE = {
    "t-tests": (t_tests, t_grid),
    "t-tests-plus": (t_tests, t_grid),
    "margins": (margins, margin_grid),
    "margins-plus": (margins, margin_grid),
    "hidden": (hidden, hidden_grid),
    "archive": (archive, archive_grid),
}  # tables that need more than scores, or another layout


class Asked(NamedTuple):
    """What can be made, and why the rest cannot."""

    experiments: list[Experiment]
    missing: list[str]


def ask(name: str, budget: str, data_dir: str | None = None) -> Asked:
    """The experiments behind a name: one table or figure, `all` of them, or a TOML file. Data that is not there is
    an error, but of `all` what can be made is made."""
    if name.endswith(".toml"):
        return _usable([replace(_from_file(Path(name)), data_dir=data_dir)], strict=True)
    chosen = studies.names() if name == studies.ALL_NAME else [name]
    if name not in (*studies.names(), studies.ALL_NAME):
        raise InputError(
            f"there is no table or figure {name!r}; choose one of: all, {', '.join(studies.names())}, or a .toml file"
        )
    return _usable([studies.preset(one, budget, data_dir) for one in chosen], strict=name != studies.ALL_NAME)


def cells_of(experiments: Sequence[Experiment]) -> list[Cell]:
    """The cells of all experiments, each once."""
    return list({entry.cell.key: entry.cell for one in experiments for entry in one.entries()}.values())


def reproduce(
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    only: Sequence[Experiment] | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Swept, list[Path]]:
    """Run what has no record yet, or `only` these parts of it, then write every table and figure from all records that
    are there. Returns the sweep and the files written."""
    asked = experiments if only is None else only
    swept = sweep(cells_of(asked), folder, jobs=jobs, cluster=cluster, on_progress=on_progress)
    there = records.read_all(folder) if folder.is_dir() else []
    return swept, write_all(experiments, [*there, *swept.records], folder)  # the later of two counts: that of this data


def parts(
    experiments: Sequence[Experiment], models: Sequence[str], seeds: int | None, columns: Sequence[str] = ()
) -> list[Experiment]:
    """The parts of experiments with these models and columns and their first seeds; one that none of them has is an error."""
    settings = [setting for one in experiments for setting in one.settings]
    for model in models:
        choose("model of these tables", model, sorted({one.config.model for one in settings}))
    for column in columns:
        choose("column of these tables", column, list(dict.fromkeys(one.column for one in settings)))
    return [one.part(models, seeds, columns) for one in experiments]


def records_of(paths: Sequence[Path]) -> list[Record]:
    """The records that paths mean: a record's own file, or FOLDER/NAME with how the names of collected records begin. One
    error lists all paths that mean none."""
    found: list[Record] = []
    problems = Problems()
    for path in paths:
        try:
            found += _collected(path) if not path.exists() else [records.parse(path)]
        except (OSError, ValueError, TypeError) as error:
            problems.add(f"{path}: {error}")
    problems.raise_if_any(f"not records; 'leapcde reproduce' writes them to the folder '{records.FOLDER}' of --out")
    return found


def _collected(path: Path) -> list[Record]:
    alone = [records.parse(file) for file in (path.parent / records.FOLDER).glob(f"{path.name}*.json")]
    known = {record["name"]: record for record in [*collected.read_records(path.parent), *alone]}
    found = [record for name, record in sorted(known.items()) if name.startswith(path.name)]
    if not found:
        raise ValueError(f"no such file, and no record in {path.parent} whose name begins with {path.name!r}")
    return found


def again(old: Record, data_dir: str | None = None, *, on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Run the cell of a record once more, somewhere else, and say whether every figure came out the same, bit for bit."""
    with TemporaryDirectory() as folder:
        swept = sweep([Cell.from_json(old, data_dir)], Path(folder), on_progress=on_progress)
    if swept.failures:
        raise TrainingError(f"{old['name']}: {swept.failures[0].message}")
    new = swept.records[0]
    metric = metric_of(old)
    around = {"key": "revision of the model", "data_hash": "data"}  # the settings are the record's own, so the key tells this
    changed = [around.get(key, key) for key in (*around, "versions", "hardware", "commit") if old[key] != new[key]]
    figures = {"metric": metric, "recorded": old["metrics"]["test"][metric], "now": new["metrics"]["test"][metric]}
    return {"cell": old["name"], **figures, "same": _figures(old) == _figures(new), "changed": changed}


def _figures(record: Record) -> list[Any]:
    """All that was measured, but for time and memory."""
    rows = [{key: value for key, value in row.items() if "seconds" not in key} for row in record["history"]]
    return [record["metrics"], rows, record["parameters"], record["stopped"]]


def collect(folder: Path) -> int:
    """Fold the records of a folder into a few files; of their arrays stays what some table or figure reads.

    Those are the answers by sample; errors by step of what t-tests and LEAP+'s margins compare; and paths of one seed for
    each data set.
    """
    found = by_key(records.read_all(folder))
    asked = {one.name: of_settings(one, found) for one in experiments_of(list(found.values()))}
    tested = {record["id"] for name in ("t-tests", "margins-plus") for mine in asked.get(name, {}).values() for record in mine}
    shown = {mine[0]["id"] for mine in asked.get("paths", {}).values() if mine}

    def keep(record: Record, arrays: records.Arrays) -> records.Arrays:
        left = () if record["id"] in tested else ("error", "sequence")
        left += () if record["id"] in shown else ("path_", "many_")
        return {name: array for name, array in arrays.items() if not name.startswith(left)}

    return records.collect(folder, keep)


def write_all(experiments: Sequence[Experiment], found: Sequence[Record], folder: Path) -> list[Path]:
    """Tables as Markdown, LaTeX, HTML and JSON; figures as PNG, SVG and JSON."""
    written: list[Path] = []
    for one in experiments:
        if one.kind == "table":
            written += _write_table(one, found, folder)
        else:
            made = figure(one, by_key(found), folder)
            written.append(_write(folder / FIGURES / f"{one.name}.json", json_text(made).encode()))
            drawn = draw.files(made) if made["charts"] else {}
            written += [_write(folder / FIGURES / f"{one.name}.{kind}", content) for kind, content in drawn.items()]
    return written


def grid_of(one: Experiment, found: Sequence[Record], folder: Path) -> tuple[dict[str, Any] | None, render.Grid | None]:
    """The data of a table, and the table laid out."""
    if one.name in _BY_SAMPLE:
        make, lay_out = _BY_SAMPLE[one.name]
        tests = make(one, by_key(found), folder)
        return tests, None if tests is None else lay_out(tests)
    made = table(one, by_key(found))
    return made, render.grid(made)


def experiments_of(found: Sequence[Record]) -> list[Experiment]:
    """The tables and figures for which a folder holds any record, at the budgets of its records."""
    keys = {record["key"] for record in found}
    budgets = list(dict.fromkeys(record["budget"] for record in found if record["budget"] in ("full", "standard", "smoke")))
    made = [studies.preset(name, budget) for budget in budgets for name in studies.names()]
    return [one for one in made if any(entry.cell.key in keys for entry in one.entries())]


def read_found(folder: Path) -> list[Record]:
    found = records.read_all(folder)
    if not found:
        raise InputError(f"{folder} holds no records; 'leapcde reproduce' makes them")
    return found


def _write_table(one: Experiment, found: Sequence[Record], folder: Path) -> list[Path]:
    data, grid = grid_of(one, found, folder)
    if grid is None:
        return []
    paths = [_write(folder / TABLES / f"{one.name}.{kind}", how(grid).encode()) for kind, how in render.FORMATS.items()]
    write_text(folder / TABLES / f"{one.name}.json", json_text(data))
    return [*paths, folder / TABLES / f"{one.name}.json"]


def _write(path: Path, content: bytes) -> Path:
    with atomic(path) as temporary:
        temporary.write_bytes(content)
    return path


def _from_file(path: Path) -> Experiment:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return from_toml(path.read_text(encoding="utf-8"))


def _usable(experiments: list[Experiment], *, strict: bool) -> Asked:
    missing: dict[str, str] = {}
    for one in experiments:
        for setting in one.settings:
            if setting.config.data not in missing and (
                problem := _problem(one, setting.config.data, setting.config.dataset_options)
            ):
                missing[setting.config.data] = problem
    if missing and strict:
        raise InputError("data is missing", list(missing.values()))
    there = lambda one: tuple(setting for setting in one.settings if setting.config.data not in missing)
    kept = [replace(one, settings=there(one)) for one in experiments]
    return Asked([one for one in kept if one.settings], [f"{data} is left out: {why}" for data, why in missing.items()])


def _problem(one: Experiment, data: str, dataset_options: dict[str, Any]) -> str:
    try:
        source = source_of(data)
        source.files(find_data_dir(one.data_dir), make_dataset_options(data, source.options, dataset_options))
    except LeapError as error:
        return str(error)
    return ""
