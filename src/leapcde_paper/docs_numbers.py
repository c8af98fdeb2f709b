"""Write the numbers of results/ into README.md and docs/: whatever stands between `<!-- numbers: NAME -->` and `<!-- end -->`.

`make numbers` runs it (`python -m leapcde_paper.docs_numbers`); tests/test_docs.py fails when a page and the records disagree.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from leapcde_paper import paper_numbers as paper
from leapcde_paper import rivals
from leapcde_paper.baselines import is_baseline
from leapcde_paper.reproduce import grid_of
from leapcde_paper.rows import BASELINES
from leapcde_paper.run.records import read_all
from leapcde_paper.speed_numbers import bench, bench_all, bench_single, instead, large, latency, memory, scaling, speed, until
from leapcde_paper.studies import STUDIES, preset
from leapcde_paper.tables import render
from leapcde_paper.tables.archive import by_problem
from leapcde_paper.tables.summary import MAIN
from leapcde_paper.tables.table import METRICS, by_key, metric_of, of_settings, score, spread, table
from leapcde_paper.tune import best_trial, by_model, read_trials, worst_trial

ROOT = Path(__file__).parents[2]  # this is of use in the source tree only
STANDARD = ROOT / "results" / "standard"
PAGES = (
    "README.md",
    "docs/findings.md",
    "docs/measurements.md",
    "docs/reproduce.md",
    "docs/speed.md",
    "docs/guide/every-row.md",
)
RATES = ["0 %", "30 %", "50 %", "70 %"]
PLUS_LABEL = "LEAP+ (ours)"
MARK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def read(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def hopper() -> str:
    """The demo's table over three seeds."""
    rows = read("demo-hopper")["rows"]
    base = next(row["mean"] for row in rows if row["model"] == "last-value")
    lines = ["| model | test MSE | against last value |", "|---|---:|---:|"]
    for row in rows:
        spread = f" ± {row['std']:.4f}" if row["seeds"] > 1 else ""
        lines.append(f"| {row['model']} | {row['mean']:.4f}{spread} | {row['mean'] / base:.2f} × |")
    return "\n".join(lines) + "\n"


def characters() -> str:
    """Character Trajectories with 30 % of the time points dropped, beside the paper's own figures."""
    found = read("first-runs")
    lines = ["| model | α | test accuracy | best epoch | s / epoch | the paper |", "|---|---:|---:|---:|---:|---:|"]
    for row in found["rows"]:
        mean, deviation = paper.cell("character", paper.LABELS[row["model"]], "30 %") or (0.0, 0.0)
        alpha = f"{row['options']['alpha']:g}" if "alpha" in row["options"] else ""
        ours = f"{row['accuracy']:.3f} | {row['best_epoch']} | {row['seconds_per_epoch']:.1f}"
        lines.append(f"| {row['model']} | {alpha} | {ours} | {mean:.3f} ± {deviation:.3f} |")
    return "\n".join([*lines, f"| class prior | | {found['class_prior']:.3f} | | | |"]) + "\n"


def _columns(study: str) -> list[dict[str, Any]]:
    return table(preset(study, "standard"), by_key(read_all(STANDARD)))["columns"]


def column_of(study: str, label: str) -> dict[str, Any]:
    """One column of a table, from the records."""
    return next(column for column in _columns(study) if column["label"] == label)


def _ranked(columns: list[dict[str, Any]], labels: list[str], by: int = 0) -> str:
    """All models on one data set, the best in column `by` first, beside the paper's figures; baselines in italics."""
    printed = [render.has_paper(column) for column in columns]
    about = "the paper" if sum(printed) < 2 else f"the paper, at {sum(printed)} rates"
    lines = [f"| model | {' | '.join(labels)} | {about} | parameters | s / epoch |"]
    lines.append(f"|---|{'---:|' * len(labels)}---|---:|---:|")
    lower = columns[by]["metric"] in ("mse", "mse_units")
    rows = {row: [column["cells"].get(row) or {"scores": []} for column in columns] for row in columns[by]["cells"]}
    there = {row: cells for row, cells in rows.items() if cells[by]["scores"]}
    for row, cells in sorted(there.items(), key=lambda item: item[1][by]["mean"] * (1 if lower else -1)):
        name = f"*{row}*" if row in BASELINES.values() else row
        papers = [
            f"{cell['paper'][0]:.3f}" if cell.get("paper") else "–" for cell, has in zip(cells, printed, strict=True) if has
        ]
        figures = "" if set(papers) <= {"–"} else " / ".join(papers)
        cost = [f"{cells[by]['parameters']:,}", f"{cells[by]['seconds']:.1f}"] if cells[by]["parameters"] else ["", ""]
        lines.append(f"| {name} | {' | '.join(render.score(cell).text for cell in cells)} | {figures} | {' | '.join(cost)} |")
    return "\n".join(lines) + "\n"


def _across(regular: str, dropped: str) -> str:
    """A data set at four drop rates, the first from the table of regular series; the order is that at 30 %."""
    columns = [column for column in _columns("regular") if column["label"] == regular] + _columns(dropped)
    return _ranked(columns, RATES, by=1)


def letters() -> str:
    """Character Trajectories at four drop rates."""
    return _across(paper.CHARACTERS, "character")


def hoppers() -> str:
    """MuJoCo as the paper ran it at four drop rates."""
    return _across(paper.MUJOCO, "mujoco")


def simulations() -> str:
    """10,000 simulations at four drop rates."""
    return _ranked(_columns("simulations"), RATES, by=1)


def words() -> str:
    """Speech Commands: 5,000 clips and the paper's words, each model as it was trained better; and both trainings."""
    columns = [*_columns("speech"), *_columns("noise")]
    return _ranked(columns, [paper.SPEECH, "5,000 clips", "with noise", "without noise"])


def patients() -> str:
    return _ranked(_columns("sepsis"), ["test AUROC"])


ALARMS = {  # by name in the record of hourly alarms: its title, and the row that answers the paper's question
    "leap+": ("`leap+`, causal", PLUS_LABEL),
    "boosted-trees": ("*boosted trees on running summaries*", "boosted trees on all summaries"),
    "class-prior": ("*class prior, no alarm*", "class prior"),
}


def alarms() -> str:
    """Sepsis as the challenge poses it, an alarm in every hour, beside the paper's one answer a stay."""
    found, once = read("sepsis-hourly"), _columns("sepsis")[0]["cells"]
    metrics = {"auroc": "AUROC", "auprc": "AUPRC", "brier": "Brier score", "ece": "calibration error", "utility": "utility"}
    lines = [f"| every hour, six hours ahead: | {' | '.join(metrics.values())} | once a stay, as the paper: AUROC |"]
    lines += ["|---|" + "---:|" * (len(metrics) + 1)]
    for name, (title, row) in ALARMS.items():
        cells = [f"{found['test'][name][key]:.{4 if key in ('brier', 'ece') else 3}f}" for key in metrics]
        lines.append(f"| {title} | {' | '.join(cells)} | {once[row]['mean']:.3f} |")
    far = f"{found['largest difference from streaming']:.0e}".replace("e-0", "e-")
    told = (
        f"Hourly: {found['training stays']:,} stays train, {found['test stays']:,} test; `leap+` learned for {found['epochs']} "
        f"epochs, seed {found['seed']}. Streams of {found['streamed stays']} test stays, hour by hour, differ by at most {far}."
    )
    return "\n".join([*lines, "", told]) + "\n"


def _scores(corner: str, columns: dict[str, dict[str, Any]]) -> list[str]:
    """Rows times columns, the best of a column in bold; baselines in italics."""
    lines = [f"| {corner} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for row in dict.fromkeys(row for column in columns.values() for row in column["cells"]):
        scores = [render.score(column["cells"].get(row) or {"scores": []}) for column in columns.values()]
        name = f"*{row}*" if row in BASELINES.values() else row
        lines.append(f"| {name} | {' | '.join(f'**{one.text}**' if one.bold else one.text for one in scores)} |")
    return lines


def _laid_out(study: str) -> str:
    """A table as `reproduce` lays it out, without its title, its notes and its empty rows."""
    grid = grid_of(preset(study, "standard"), read_all(STANDARD), STANDARD)[1]
    assert grid is not None
    rows = [row for row in grid.rows if any(cell.text != "–" for cell in row[1:])]
    return render.markdown(grid._replace(rows=rows, notes=[])).split("\n\n", 1)[1].strip() + "\n"


def leads() -> str:
    """LEAP's lead over every row on the same test samples."""
    return _laid_out("margins")


def leads_plus() -> str:
    """LEAP+'s lead over every row on the same test samples."""
    return _laid_out("margins-plus")


def hidden() -> str:
    """Error of paths at observations that were hidden from them."""
    return _laid_out("hidden")


def parts() -> str:
    """LEAP+ and less of it."""
    return _begun("LEAP+", "leap-plus")


def ages() -> str:
    """What ages are worth on Sepsis."""
    return _ranked(_columns("ages"), ["test AUROC"])


def same_training() -> str:
    """LEAP+'s strongest rivals as they are in the tables, with the best of as many trials of its training, and LEAP+."""
    lines = ["| data | rival | as in the tables | trained as LEAP+ is | trials | LEAP+ |", "|---|---|---:|---:|---:|---:|"]
    with_ages = column_of("ages", paper.SEPSIS)["cells"]
    asked = [(title, place) for title, place in MAIN.items() if place[1] != paper.SPEECH]
    for (title, (study, label)), column in zip(asked, _columns("same-training"), strict=True):
        usual = {**with_ages, **column_of(study, label)["cells"]}
        for row in [row for row in column["cells"] if row != PLUS_LABEL and _run(column, row)]:
            scores = [render.score(cells.get(row) or {"scores": []}) for cells in (usual, column["cells"])]
            plus = render.score(column["cells"][PLUS_LABEL])
            texts = [f"**{one.text}**" if one.bold else one.text for one in (scores[1], plus)]
            lines.append(f"| {title} | {row} | {scores[0].text} | {texts[0]} | {rivals.TRIALS[column['data']]} | {texts[1]} |")
    return "\n".join(lines) + "\n"


def _run(column: dict[str, Any], row: str) -> bool:
    return bool((column["cells"].get(row) or {"scores": []})["scores"])


def _begun(corner: str, *studies: str) -> str:
    """The columns of which more than one row was run."""
    found = {column["label"]: column for study in studies for column in _columns(study)}
    run = lambda column: sum(_run(column, row) for row in column["cells"])
    return "\n".join(_scores(corner, {label: column for label, column in found.items() if run(column) > 1})) + "\n"


def layers() -> str:
    """Learnable layers in place of a learned path, and LEAP without likelihood."""
    return _begun("model", "layers-classification", "layers-forecasting")


def alphas() -> str:
    """LEAP with α = β."""
    return _begun("α = β", "sensitivity")


def ratios() -> str:
    """LEAP with α / β."""
    return _begun("α / β", "ratio")


def lengths() -> str:
    """Error against how many steps are predicted."""
    return _begun("steps ahead", "output-length")


def archives() -> str:
    """Problems of the archives, each with the mean over four shares dropped; the best in bold."""
    found = {problem: rows for problem, rows in by_problem(_columns("archive")).items() if rows}
    rows = [row for row in preset("archive", "standard").rows if any(row in mine for mine in found.values())]
    lines = [f"| problem | {' | '.join(rows)} |", f"|---|{'---:|' * len(rows)}"]
    for problem, mine in found.items():
        best = max(mine.values())
        texts = [f"{mine[row]:.3f}" if row in mine else "–" for row in rows]
        texts = [f"**{text}**" if text == f"{best:.3f}" else text for text in texts]
        lines.append(f"| {problem} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def overview() -> str:
    """Every model on every data set, in the paper's order; the best of a column in bold, below them the paper's LEAP."""
    columns = [column_of(study, label) for study, label in MAIN.values()]
    lines = _scores("model", dict(zip(MAIN, columns, strict=True)))
    figures = [paper.cell(study, "LEAP", label) for study, label in MAIN.values()]
    lines.append(f"| the paper's LEAP | {' | '.join(f'{one[0]:.3f}' if one else '' for one in figures)} |")
    return "\n".join(lines) + "\n"


def front() -> str:
    """A row a data set: LEAP as the paper prints it and as we have it, the best of the others, of baselines, and LEAP+."""
    heads = ("LEAP, as printed", "LEAP, our run", "best of the paper's others", "best without a network", "**LEAP+**")
    lines = [f"| data | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for title, (study, label) in MAIN.items():
        if title.startswith(paper.OTHER_SPEECH):  # which the paper does not have
            continue
        column = column_of(study, label)
        lower, printed = column["metric"] in ("mse", "mse_units"), paper.cell(study, "LEAP", label)
        cells = {row: cell for row, cell in column["cells"].items() if cell and cell["scores"]}
        best = lambda rows: min(rows, key=lambda row: cells[row]["mean"] * (1 if lower else -1), default=None)  # noqa: B023
        simple = best([row for row in cells if row in BASELINES.values()])
        other = best([row for row in cells if row not in {simple, "LEAP", PLUS_LABEL, *BASELINES.values()}])
        shown = {"LEAP": "", other: f"{other} ", simple: f"{simple} ", PLUS_LABEL: ""}
        texts = [_named(cells.get(row), name) for row, name in shown.items()]
        lines.append(f"| {title} | {f'{printed[0]:.3f}' if printed else '–'} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _named(cell: dict[str, Any] | None, name: str) -> str:
    if cell is None:
        return "–"
    found = render.score(cell)
    text = f"{name}{found.text.split(' ±')[0]}"
    return f"**{text}**" if found.bold else text


def released() -> str:
    """What leapcde_paper/released_code.py found, by seed."""
    lines = ["| seed | test accuracy | its decoder taken away | predictions that stay | tr ∂f/∂h | ε = ±1 | ε uniform |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for seed, one in read("released")["runs"].items():
        share = f"{one['accuracy']:.3f} | {one['without_decoder']:.3f} | {one['agree']:.1%}"
        lines.append(f"| {seed} | {share} | {one['trace']:.2f} | {one['trace_rademacher']:.2f} | {one['trace_uniform']:.2f} |")
    return "\n".join(lines) + "\n"


def tuned() -> str:
    """What was chosen for each model, and what its best and its worst trial reached on validation data."""
    lines = ["| data | model | trials | learning rate | weight penalty | best | worst |", "|---|---|---:|---:|---:|---:|---:|"]
    for (data, model), trials in by_model(read_trials(STANDARD)).items():
        best, worst = best_trial(trials), worst_trial(trials)
        cells = [data, model, str(len(trials)), f"{best['learning_rate']:g}", f"{best['weight_penalty']:g}"]
        lines.append(f"| {' | '.join(cells)} | {best['value']:.4f} | {worst['value']:.4f} |")
    return "\n".join(lines) + "\n"


def baselines() -> str:
    """What the baselines of the tables reach, by data set and drop, beside the paper's figure for LEAP."""
    found = by_key(read_all(STANDARD))
    mine: dict[tuple[str, float, bool], dict[str, list[Any]]] = {}
    for one in (preset(study.name, "standard") for study in STUDIES.values() if study.kind == "table"):
        there = of_settings(one, found)
        for setting in one.settings:
            if is_baseline(setting.config.model) and (records := there.get((setting.row, setting.column))):
                other = "words" in setting.config.dataset_options  # than the paper's
                mine.setdefault((setting.config.data, setting.config.drop, other), {})[setting.row] = records
    lines = ["| data | metric | baselines | the paper's LEAP |", "|---|---|---|---:|"]
    return "\n".join([*lines, *(_baseline_line(*where, rows) for where, rows in sorted(mine.items()))]) + "\n"


def _baseline_line(data: str, drop: float, other_words: bool, rows: dict[str, list[Any]]) -> str:
    means = {row: spread([score(one) for one in records])["mean"] for row, records in rows.items()}
    texts = [f"{row} {mean:.{4 if mean < 0.1 else 3}f}" for row, mean in means.items()]
    metric = METRICS[metric_of(next(iter(rows.values()))[0])]
    printed = None if other_words else paper.figure(data, drop, "leap")
    leap = "" if printed is None else f"{printed[0]:.3f}"
    named = f"{data}, ten other words" if other_words else data
    return f"| {named}, {drop:.0%} dropped | {metric} | {', '.join(texts)} | {leap} |"


def decoder() -> str:
    """LEAP's accuracy by the grid of its decoder, from benchmarks/decoder.toml."""
    found: dict[int | None, list[float]] = {}
    for record in read_all(ROOT / "results" / "decoder"):
        found.setdefault(record["config"]["options"].get("decoder_steps"), []).append(score(record))
    lines = ["| decoder | test accuracy | seeds |", "|---|---:|---:|"]
    for steps, scores in sorted(found.items(), key=lambda item: item[0] or float("inf")):
        one = spread(scores)
        where = "a step at every knot" if steps is None else f"{steps} steps"
        lines.append(f"| {where} | {one['mean']:.3f} ± {one['std']:.3f} | {len(scores)} |")
    return "\n".join(lines) + "\n"


TABLES = {
    "hopper": hopper,
    "characters": characters,
    "letters": letters,
    "archives": archives,
    "overview": overview,
    "front": front,
    "ages": ages,
    "alarms": alarms,
    "leads": leads,
    "leads-plus": leads_plus,
    "hidden": hidden,
    "parts": parts,
    "same-training": same_training,
    "layers": layers,
    "alphas": alphas,
    "ratios": ratios,
    "lengths": lengths,
    "hoppers": hoppers,
    "simulations": simulations,
    "words": words,
    "patients": patients,
    "released": released,
    "tuned": tuned,
    "baselines": baselines,
    "bench": bench,
    "speed": speed,
    "bench-all": bench_all,
    "instead": instead,
    "latency": latency,
    "memory": memory,
    "large": large,
    "until": until,
    "bench-single": bench_single,
    "scaling": scaling,
    "decoder": decoder,
}


def filled(text: str) -> str:
    return MARK.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text()))
