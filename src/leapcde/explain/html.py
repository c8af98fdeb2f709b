"""Self-contained HTML pages: no script, no font, no image comes from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light; --ink:#1f2937; --soft:#6b7280; --line:#e5e7eb; --accent:#2563eb; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.2rem; font-size: 1.25rem; border-bottom: 1px solid var(--line); }
p.note, figcaption { color: var(--soft); font-size: .92rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th { text-align: left; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.best td { font-weight: 650; } img { max-width: 100%; height: auto; } figure { margin: 1rem 0; } pre { overflow-x: auto; }
"""


def page(title: str, parts: Sequence[str]) -> str:
    """A whole page of ready-made parts."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"{meta}<title>{escape(title)}</title>"
    body = "\n".join([f"<h1>{escape(title)}</h1>", *parts])
    return f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>\n{body}\n</body></html>\n'


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, note: bool = False) -> str:
    """Escaped text in a paragraph.

    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    kind = ' class="note"' if note else ""
    return f"<p{kind}>{escape(text)}</p>"


def figure(image: str, caption: str) -> str:
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, best: int | None = None) -> str:
    """The first column is text, the others numbers; row `best` is set in bold."""
    kind = lambda i: ' class="number"' if i else ""
    top = "".join(f"<th{kind(i)}>{escape(cell)}</th>" for i, cell in enumerate(header))
    lines = []
    for r, row in enumerate(rows):
        cells = "".join(f"<td{kind(i)}>{escape(cell)}</td>" for i, cell in enumerate(row))
        lines.append(f"<tr{' class=best' if r == best else ''}>{cells}</tr>")
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
