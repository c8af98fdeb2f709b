"""Tables as text: one grid of marked cells, written as Markdown, LaTeX or HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

from leapcde_paper.tables.table import METRICS


class Text(NamedTuple):
    """A cell of a grid; `value` is what it sorts by."""

    text: str = ""
    bold: bool = False
    value: float | None = None


class Grid(NamedTuple):
    """A header, rows of cells, and what must stand above and below them: a table without its budget says nothing."""

    name: str
    title: str
    header: list[str]
    rows: list[list[Text]]
    notes: list[str]


def grid(table: dict[str, Any]) -> Grid:
    """The grid of a table: a score and the paper's for each column, then what it cost."""
    columns = table["columns"]
    header = ["model"]
    for column in columns:
        label = column["label"] if len(columns) > 1 else ""
        metric = METRICS.get(column["metric"], "")
        header += [f"{label} {metric}".strip(), *([f"{label} paper".strip()] if has_paper(column) else [])]
    groups = _groups(columns)
    for data, _ in groups:
        place = f"{data} " if len(groups) > 1 else ""
        header += [f"{place}{name}" for name in ("parameters", "step MB", "process MB", "s / epoch", "paper MB")]
    rows = [_row(row, columns, groups) for row in table["rows"]]
    return Grid(table["name"], table["title"], header, rows, _notes(table))


def has_paper(column: dict[str, Any]) -> bool:
    """Whether the paper prints anything there; a column of nothing tells nothing."""
    return any(cell and cell["paper"] for cell in column["cells"].values())


def _row(row: str, columns: list[dict[str, Any]], groups: list[tuple[str, list[dict[str, Any]]]]) -> list[Text]:
    cells = [Text(row)]
    for column in columns:
        found = column["cells"].get(row) or {"scores": [], "paper": None}
        cells += [score(found), *([_paper(found["paper"])] if has_paper(column) else [])]
    for _, members in groups:
        mine = [column["cells"][row] for column in members if column["cells"].get(row)]
        cells += [
            number(_first(mine, "parameters"), "{:,.0f}"),
            number(_first(mine, "step_mb"), "{:,.1f}"),
            number(_first(mine, "process_mb"), "{:,.0f}"),
            number(_first(mine, "seconds"), "{:.2f}"),
            number(_first(mine, "paper_mb"), "{:,g}"),
        ]
    return cells


def _groups(columns: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Columns of one data set share what they cost: the first of them says it."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for column in columns:
        found.setdefault(column["data"], []).append(column)
    return [(members[0]["label"], members) for members in found.values()]


def _first(cells: list[dict[str, Any]], key: str) -> float | None:
    return next((cell[key] for cell in cells if cell.get(key) is not None), None)


def score(cell: dict[str, Any]) -> Text:
    """Mean and deviation as every table writes them.

    >>> score({"scores": [0.5], "mean": 0.5, "std": None}).text
    '0.500'
    """
    if not cell["scores"]:
        return Text("–")
    places = 3 if cell["mean"] >= 0.1 else 4 if cell["mean"] >= 0.01 else 5
    text = f"{cell['mean']:.{places}f}" + ("" if cell["std"] is None else f" ± {cell['std']:.{places}f}")
    return Text(text, bool(cell.get("best")), cell["mean"])


def _paper(figure: Sequence[float | None] | None) -> Text:
    if figure is None or figure[0] is None:
        return Text()
    return Text(f"{figure[0]:.3f}" + ("" if figure[1] is None else f" ± {figure[1]:.3f}"), value=figure[0])


def number(value: float | None, form: str) -> Text:
    return Text() if value is None else Text(form.format(value), value=value)


def _notes(table: dict[str, Any]) -> list[str]:
    from leapcde_paper.budgets import BUDGETS

    about = BUDGETS[table["budget"]].about if table["budget"] in BUDGETS else "settings of its own"
    notes = [f"Budget {table['budget']}: {about}. {made(table)}"]
    notes.append(
        "± is the deviation over seeds. Bold: the best mean, and those not significantly different from it (paired t-test over "
        "seeds, p ≥ 0.05). step MB: XLA's count for the compiled training step; process MB: the worker's peak; s / epoch: "
        "processor time."
    )
    return [*notes, *([table["note"]] if table["note"] else [])]


def made(table: dict[str, Any]) -> str:
    """How much of it there is, over how many seeds, and what it cost."""
    counts = {row: _counts(table, row) for row in table["rows"] if row not in table["baselines"]}
    usual = next(iter(sorted(counts.values(), key=list(counts.values()).count, reverse=True)), "no")
    others = [f"{text} of {row}" for row, text in counts.items() if text != usual]
    seeds = (
        f"Seeds of the models, by column where they differ: {usual}" + (f", but {', '.join(others)}" if others else "") + "."
    )
    where = f" on {', '.join(table['processors'])}" if table["processors"] else ""
    return f"{table['done']} of {table['cells']} cells done. {seeds} {table['hours']:.1f} processor hours{where}."


def _counts(table: dict[str, Any], row: str) -> str:
    """How many seeds a row has, by column where they differ."""
    found = [str(len((column["cells"].get(row) or {"scores": []})["scores"])) for column in table["columns"]]
    return found[0] if len(set(found)) == 1 else "/".join(found)


def markdown(grid: Grid) -> str:
    """The grid as Markdown.

    >>> print(markdown(Grid("x", "T", ["model", "score"], [[Text("LEAP"), Text("0.9", True)]], ["Budget smoke."])), end="")
    ### T
    <BLANKLINE>
    | model | score |
    |---|---:|
    | LEAP | **0.9** |
    <BLANKLINE>
    Budget smoke.
    """
    bold = lambda cell: f"**{cell.text}**" if cell.bold else cell.text
    lines = [f"| {' | '.join(grid.header)} |", "|---|" + "---:|" * (len(grid.header) - 1)]
    lines += [f"| {' | '.join(map(bold, row))} |" for row in grid.rows]
    return "\n".join([f"### {grid.title}", "", *lines, "", "\n\n".join(grid.notes)]) + "\n"


def latex(grid: Grid) -> str:
    """The grid as a LaTeX table, with booktabs."""
    bold = lambda cell: f"\\textbf{{{_tex(cell.text)}}}" if cell.bold else _tex(cell.text)
    line = lambda cells: " & ".join(cells) + r" \\"
    body = [line([bold(cell) for cell in row]) for row in grid.rows]
    caption = _tex(" ".join([grid.title + ".", *grid.notes]))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * (len(grid.header) - 1)}}}",
            r"\toprule",
            line([_tex(cell) for cell in grid.header]),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{caption}}}\label{{tbl:{grid.name}}}",
            r"\end{table}",
            "",
        ]
    )


def html(grid: Grid) -> str:
    """The grid as an HTML section; every cell carries the number it sorts by."""
    mark = lambda cell: f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
    value = lambda cell: "" if cell.value is None else f' data-value="{cell.value!r}"'
    top = "".join(f'<th scope="col"><button type="button">{escape(cell)}</button></th>' for cell in grid.header)
    lines = []
    for first, *rest in grid.rows:
        cells = "".join(f"<td{value(cell)}>{mark(cell)}</td>" for cell in rest)
        lines.append(f'<tr><th scope="row">{escape(first.text)}</th>{cells}</tr>')
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in grid.notes)
    table = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<h3>{escape(grid.title)}</h3><div class="scroll" tabindex="0">{table}</div>{notes}'


_TEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}


_TEX |= {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
}


_TEX |= {"≥": r"$\geq$", "–": "--", "−": "$-$", "²": "$^2$", "=": "="}


def _tex(text: str) -> str:
    """Escaped for LaTeX.

    >>> _tex("30 % ± 1")
    '30 \\\\% $\\\\pm$ 1'
    """
    return "".join(_TEX.get(letter, letter) for letter in text)


FORMATS: dict[str, Callable[[Grid], str]] = {"md": markdown, "tex": latex, "html": html}
