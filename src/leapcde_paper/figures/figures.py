"""Figures as plain data made of records, and drawn from it: PNG and SVG here, interactive in the report."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.errors import MissingDependencyError, need
from leapcde_paper.figures.look import path_of
from leapcde_paper.paper_numbers import MUJOCO
from leapcde_paper.run import records
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables.table import METRICS, Found, costs, metric_of, of_settings, score, spread
from leapcde_paper.tables.ttests import rank_models

Chart = dict[str, Any]
Figure = dict[str, Any]
CHANNELS = 2  # of each data set, in the printed figure of paths; the report shows all
NEIGHBOURS = 15
REACH = 0.05  # of the mean: so far an axis reaches at least where small differences are noise


def figure(experiment: Experiment, found: Found, folder: Path) -> Figure:
    """A figure as plain data: charts of named series. Charts without any record are left out."""
    charts = _CHARTS[experiment.name](experiment, found, folder)
    about = {"name": experiment.name, "title": experiment.title, "budget": experiment.budget, "note": experiment.note}
    return {**about, "charts": [chart for chart in charts if chart["series"]]}


def _chart(title: str, x: str, y: str, series: list[dict[str, Any]], **more: Any) -> Chart:
    return {"title": title, "x": x, "y": y, "series": series, "kind": "line", "logx": False, "logy": False, **more}


def _metric(mine: list[Record]) -> str:
    return f"test {METRICS[metric_of(mine[0])]}" if mine else ""


def _output_length(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
    there = of_settings(experiment, found)
    series = [_by_number(row, {float(c): there.get((row, c), []) for c in experiment.columns}) for row in experiment.rows]
    return [_chart(MUJOCO, "steps ahead", "test MSE", [one for one in series if one["x"]])]


def _by_number(name: str, mine: dict[float, list[Record]]) -> dict[str, Any]:
    there = {x: spread([score(record) for record in each]) for x, each in mine.items() if each}
    return {
        "name": name,
        "x": list(there),
        "y": [one["mean"] for one in there.values()],
        "err": [one["std"] for one in there.values()],
    }


def _sensitivity(x: str) -> Callable[[Experiment, Found, Path], list[Chart]]:
    def charts(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
        there, made = of_settings(experiment, found), []
        for column in experiment.columns:
            mine = {float(row): there.get((row, column), []) for row in experiment.rows}
            some = next((each for each in mine.values() if each), [])
            series = [_by_number("LEAP", mine)] if some else []
            made.append(_chart(column, x, _metric(some), series, logx=True, reach=REACH))
        return made

    return charts


def _paths(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
    """What was observed of one test sample, X, and the paths that models learned of it."""
    made = []
    for column, kept in _kept(experiment, found, folder, "path_t").items():
        record, arrays = next(iter(kept.values()))
        t, seen_t, seen = (arrays[f"path_{key}"][0] for key in ("t", "seen_t", "seen"))
        for c, name in enumerate(record["channels"][:CHANNELS]):
            series = [_line("X", t, arrays["path_X"][0, :, c])]
            series += [_line(path_of(row), mine["path_t"][0], mine["path_Y"][0, :, c]) for row, (_, mine) in kept.items()]
            there = np.isfinite(seen[:, c])
            series.append({**_line("observed", seen_t[there], seen[there, c]), "dots": True})
            made.append(_chart(f"{column}: {name}", "time", name, series, plain=True))
    return made


def _kept(
    experiment: Experiment, found: Found, folder: Path, array: str
) -> dict[str, dict[str, tuple[Record, records.Arrays]]]:
    """The first seed of each row that has an array, by column."""
    made: dict[str, dict[str, tuple[Record, records.Arrays]]] = {}
    for (row, column), mine in of_settings(experiment, found).items():
        arrays = records.arrays(folder, mine[0]) if mine else {}
        if array in arrays:
            made.setdefault(column, {})[row] = mine[0], arrays
    return made


def _line(name: str, x: Any, y: Any) -> dict[str, Any]:
    return {"name": name, "x": [float(v) for v in x], "y": [float(v) for v in y], "err": None}


def _projected(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
    """X of test samples and the paths that models learned of them, all in the same two dimensions."""
    made = []
    for column, kept in _kept(experiment, found, folder, "many_X").items():
        first = next(iter(kept.values()))[1]["many_X"]
        paths = {"X": first} | {path_of(row): arrays["many_Y"] for row, (_, arrays) in kept.items()}
        every = np.concatenate([path.reshape(len(path), -1) for path in paths.values()])
        how, flat = project(np.nan_to_num(every.astype(np.float64)), small=experiment.budget == "smoke")
        series = [_line(name, *part.T) for name, part in zip(paths, np.split(flat, len(paths)), strict=True)]
        made.append(_chart(f"{column} ({how})", f"{how} 1", f"{how} 2", series, kind="scatter"))
    return made


def project(rows: np.ndarray, *, small: bool) -> tuple[str, np.ndarray]:
    """Rows in two dimensions by UMAP; by principal components where umap-learn is missing, or the budget too small for it.

    >>> project(np.eye(6), small=True)[1].shape
    (6, 2)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # umap-learn misses TensorFlow, and says that a seed makes it slower
        umap = None if small else _umap()
        if umap is not None:
            near = min(NEIGHBOURS, len(rows) - 1)
            return "UMAP", np.asarray(umap.UMAP(n_neighbors=near, random_state=0, n_jobs=1).fit_transform(rows))
    u, s, _ = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    return "PCA", (u * s)[:, :2]


def _umap() -> Any:
    try:
        return need("umap", "plot")
    except MissingDependencyError:
        return None


def _curves(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
    made = []
    there = of_settings(experiment, found)
    for column in experiment.columns:
        firsts = {row: there[row, column][0] for row in experiment.rows if there.get((row, column))}
        firsts = {row: record for row, record in firsts.items() if record["history"]}
        for key, label, log in (("train_loss", "training loss", True), ("", "validation", False)):
            series = [_curve(row, record, key) for row, record in firsts.items()]
            what = label if key else f"validation {METRICS[next(iter(firsts.values()))['metric']]}" if firsts else ""
            made.append(_chart(column, "epoch", what, series, logy=log))
    return made


def _curve(row: str, record: Record, key: str) -> dict[str, Any]:
    rows = record["history"]
    return _line(row, [one["epoch"] + 1 for one in rows], [one[key or record["metric"]] for one in rows])


def _cost(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
    there, made = of_settings(experiment, found), []
    for column in experiment.columns:
        mine = {row: there[row, column] for row in experiment.rows if there.get((row, column))}
        for key, label in (("seconds", "seconds an epoch"), ("step_mb", "megabytes of the training step")):
            points = {row: (costs(each)[key], np.mean([score(r) for r in each])) for row, each in mine.items()}
            series = [_line(row, [x], [y]) for row, (x, y) in points.items() if x]
            made.append(_chart(column, label, _metric(next(iter(mine.values()), [])), series, kind="scatter", logx=True))
    return made


def _ranks(experiment: Experiment, found: Found, folder: Path) -> list[Chart]:
    ranked = rank_models(experiment, found)
    if ranked is None:
        return []
    made, _ = ranked
    order = sorted(made.average, key=made.average.__getitem__)
    series = [{"name": name, "x": [made.average[name]], "y": [float(-i)], "err": None} for i, name in enumerate(order)]
    critical = f"critical difference {made.critical_difference:.2f} (Nemenyi, 5 %)"
    who = f"{len(order)} of {len(experiment.rows)} models, those with all {made.sets} data sets"
    title = f"{who}, Friedman p = {made.friedman_p:.2g}, {critical}"
    pairs = {f"{a} – {b}": p for (a, b), p in made.wilcoxon_p.items()}
    more = {"kind": "ranks", "critical": made.critical_difference, "wilcoxon": pairs, "sets": made.sets}
    return [_chart(title, "average rank", "", series, **more)]


_CHARTS: dict[str, Callable[[Experiment, Found, Path], list[Chart]]] = {
    "output-length": _output_length,
    "sensitivity": _sensitivity("α = β"),
    "ratio": _sensitivity("α / β"),
    "paths": _paths,
    "umap": _projected,
    "curves": _curves,
    "cost": _cost,
    "ranks": _ranks,
    "archive-ranks": _ranks,
}
