"""`leapcde report`: one page with everything in it. Its script and style are files beside this one, put into the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.explain import html as report
from leapcde.files import json_text, write_text
from leapcde_paper.budgets import BUDGETS
from leapcde_paper.figures.figures import figure
from leapcde_paper.figures.look import LOOKS, path_of
from leapcde_paper.report.summary import summary
from leapcde_paper.reproduce import experiments_of, grid_of, read_found
from leapcde_paper.run import records
from leapcde_paper.run.experiment import Experiment
from leapcde_paper.run.records import Record
from leapcde_paper.tables import render
from leapcde_paper.tables.differences import against_paper
from leapcde_paper.tables.summary import main_columns, relative_errors
from leapcde_paper.tables.table import by_key, spent
from leapcde_paper.tables.ttests import OURS

TITLE = "LEAP: the paper's tables and figures, reproduced"
DIGITS = 5  # of numbers that are only drawn
FOLDED = tuple(OURS)  # tables that few want to see whole


def write_page(folder: Path, path: Path) -> Path:
    """The page about all records of a folder."""
    found = read_found(folder)
    write_text(path, page(found, folder))
    return path


def page(found: Sequence[Record], folder: Path) -> str:
    """The page as text: all at a glance, tables, figures, paths, the paper against ours, and how it was made."""
    experiments = experiments_of(found)
    tables = [(one, made) for one in experiments if one.kind == "table" and (made := _table(one, found, folder))]
    figures = [figure(one, by_key(found), folder) for one in experiments if one.kind == "figure" and one.name != "paths"]
    figures = [one for one in figures if one["charts"]]
    data = {"figures": _rounded(figures), "paths": _paths(experiments, found, folder)}
    data |= {"colours": {name: shown.colour for name, shown in LOOKS.items()}}
    data |= {"front": [name for name, shown in LOOKS.items() if shown.front]}
    sets = sorted({record["dataset"] for record in found})
    at_a_glance = summary(relative_errors(main_columns(experiments, by_key(found))))
    parts = [_intro(found, sets), _nav(), *([_section("summary", "At a glance", at_a_glance)] if at_a_glance else [])]
    parts += [_section("tables", "Tables", "".join(html for _, html in tables))]
    places = {setting.column: setting.config.data for one in experiments for setting in one.settings}
    parts.append(_section("figures", "Figures", "".join(_figure(i, one, places) for i, one in enumerate(figures))))
    parts += [
        _section("paths", "The paths", _EXPLORER),
        _section("against", "The paper against ours", _against(experiments, found)),
    ]
    parts.append(_section("made", "How this was made", _made(found)))
    # A closing tag inside a text would end the script; written like this it does not.
    safe = json_text(data).replace("</", "<\\/")
    script = f'<script type="application/json" id="data">{safe}</script>'
    page = report.page(TITLE, [*parts, script, f"<script>{_file('page.js')}</script>"])
    return page.replace("</head>", f"<style>{_file('page.css')}</style></head>", 1)


def _table(one: Experiment, found: Sequence[Record], folder: Path) -> str:
    _, grid = grid_of(one, found, folder)
    if grid is None:
        return ""
    shown = render.html(grid)
    if one.name in FOLDED:
        shown = f"<details><summary>{escape(one.title)}</summary>{shown}</details>"
    return f'<article data-sets="{_sets(one)}">{shown}</article>'


def _figure(index: int, one: dict[str, Any], places: dict[str, str]) -> str:
    note = escape(" ".join(filter(None, [f"Budget {one['budget']}.", one["note"]])))
    charts = ""
    for i, chart in enumerate(one["charts"]):
        data = next((name for label, name in places.items() if chart["title"].startswith(label)), None)
        sets = f' data-sets="{escape(data)}"' if data else ""
        charts += f'<div class="chart"{sets} data-chart="{index},{i}"></div>'
    tests = "".join(_wilcoxon(chart) for chart in one["charts"] if chart["kind"] == "ranks")
    title = escape(one["title"])
    return f'<article><h3>{title}</h3><div class="charts">{charts}</div>{tests}<p class="note">{note}</p></article>'


def _wilcoxon(chart: dict[str, Any]) -> str:
    """LEAP against each other model, over data sets. With four of them p cannot be below 0.125: said, not hidden."""
    pairs = {name: p for name, p in chart["wilcoxon"].items() if OURS["t-tests"] in name.split(" – ")}
    rows = [[render.Text(name), render.number(p, "{:.3g}")] for name, p in pairs.items()]
    sets = chart["sets"]
    note = f"Two-sided, over {sets} data sets; with so many, p cannot be below {2.0 ** (1 - sets):.3g}."
    return render.html(render.Grid("wilcoxon", "Wilcoxon's signed-rank test", ["pair", "p"], rows, [note]))


def _sets(one: Experiment) -> str:
    return " ".join(dict.fromkeys(setting.config.data for setting in one.settings))


def _section(name: str, title: str, content: str) -> str:
    return f'<section id="{name}"><h2>{title}</h2>{content}</section>'


def _nav() -> str:
    links = {"tables": "Tables", "figures": "Figures", "paths": "Paths", "against": "Paper against ours", "made": "How"}
    return "<nav>" + "".join(f'<a href="#{key}">{text}</a>' for key, text in links.items()) + "</nav>"


def _intro(found: Sequence[Record], sets: list[str]) -> str:
    budgets = list(dict.fromkeys(record["budget"] for record in found))
    about = "; ".join(f"{name}: {BUDGETS[name].about}" if name in BUDGETS else name for name in budgets)
    options = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in sets)
    pick = f'<label>Data set <select id="filter"><option value="">all</option>{options}</select></label>'
    trained = f"{len(found)} trainings, the budget {escape(about)}. Click a table's header to sort by it."
    return f"<p>{_ABOUT} {trained}</p><p>{pick}</p>"


def _against(experiments: Sequence[Experiment], found: Sequence[Record]) -> str:
    rows = against_paper(experiments, by_key(found))
    if not rows:
        return "<p>No cell of these records stands in a table of the paper.</p>"
    reasons = list(dict.fromkeys(reason for row in rows for reason in row["why"]))
    cells = [
        [
            render.Text(f"{row['table']}, {row['column']}: {row['row']}"),
            render.number(row["ours"], "{:.4g}"),
            render.number(row["paper"], "{:.4g}"),
            render.number(row["difference"], "{:+.4f}"),
            render.Text(", ".join(str(1 + reasons.index(reason)) for reason in row["why"])),
        ]
        for row in rows
    ]
    listed = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    shown = render.html(render.Grid("against", "Every figure of the paper that has one of ours", _AGAINST, cells, []))
    return f"<p>Why they may differ, by the numbers in the last column:</p><ol>{listed}</ol>{shown}"


def _made(found: Sequence[Record]) -> str:
    versions = {json.dumps(record["versions"]) for record in found if record["versions"]}
    lines = [", ".join(f"{key} {value}" for key, value in json.loads(one).items() if value) for one in sorted(versions)]
    commits = sorted({str(record["commit"]) for record in found})
    items = [f"{spent(found)['hours']:.1f} processor hours in {len(found)} cells", f"commit {', '.join(commits)}", *lines]
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _paths(experiments: Sequence[Experiment], found: Sequence[Record], folder: Path) -> list[dict[str, Any]]:
    """For the explorer: X, Y, dY/dt and what was seen, of the first seed of each run that kept its paths."""
    made: dict[str, dict[str, Any]] = {}  # by model, data set, drop and budget: experiments share these cells
    known = by_key(found)
    for row, _, cell in (entry for one in experiments for entry in one.entries() if entry.cell.paths):
        where = f"{cell.config.data}, {cell.config.drop:.0%} dropped, {cell.budget}"
        which = f"{cell.config.model}, {where}"
        if cell.key in known and which not in made:
            record = known[cell.key]
            arrays = {key: value for key, value in records.arrays(folder, record).items() if key.startswith("path_")}
            if arrays:
                made[which] = {
                    "name": f"{row}, {where}",
                    "learned": path_of(row),
                    "channels": record["channels"],
                    **_plain(arrays),
                }
    return list(made.values())


def _plain(arrays: records.Arrays) -> dict[str, Any]:
    """Lists by sample, and by channel where there are channels."""
    turned = {key: np.moveaxis(part, -1, 1) if part.ndim == 3 else part for key, part in arrays.items()}
    return {key.removeprefix("path_"): _rounded(part.tolist()) for key, part in turned.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def _file(name: str) -> str:
    return resources.files("leapcde_paper.report").joinpath(name).read_text(encoding="utf-8")


_ABOUT = """The models of <i>Learnable Path in Neural Controlled Differential Equations</i> (AAAI 2023), our LEAP+, and
methods without a neural network, all trained by us."""
_AGAINST = ["where", "ours", "paper", "difference", "why"]
_EXPLORER = """
<p>X is the interpolation of what was observed (dots), Y the path that the model learned in its place, dY/dt its slope.</p>
<p class="controls"><label>Model <select id="path-model"></select></label>
<label>Sample <select id="path-sample"></select></label> <label>Channel <select id="path-channel"></select></label></p>
<div id="path-chart" class="wide"></div>
<div id="path-slope" class="wide"></div>
"""
