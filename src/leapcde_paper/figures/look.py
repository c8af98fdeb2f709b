"""How each model looks, the same in every figure: its colour says what family it is of, its marker which model it is."""

from __future__ import annotations

from typing import NamedTuple

from leapcde_paper.paper_numbers import LABELS
from leapcde_paper.rows import BASELINES, PLUS


class Look(NamedTuple):
    colour: str
    marker: str  # Matplotlib's

    @property
    def front(self) -> bool:
        """Whether it lies on top of the others: what the figures are about."""
        return self.colour in (OURS, PAPERS)


OURS, PAPERS, SIMPLE, OTHER = "#2563eb", "#0f766e", "#b45309", "#9ca3af"
# From light to dark within a family, so that lines can be told apart where they have no room for markers.
FAMILIES = {
    ("rnn", "lstm", "gru", "gru-dt", "gru-d"): ("#fbbf24", "#f59e0b", "#ea580c", "#b91c1c", "#7f1d1d"),
    ("gru-ode", "ode-rnn", "latent-ode", "augmented-ode", "ace-node"): ("#f0abfc", "#e879f9", "#c026d3", "#9333ea", "#581c87"),
    ("ncde", "ancde"): ("#84cc16", "#3f6212"),
}
MARKERS = "so^Dv"
LOOKS = {PLUS.label: Look(OURS, "*"), "LEAP": Look(PAPERS, "P")}
LOOKS |= {
    LABELS[name]: Look(colour, marker)
    for family, colours in FAMILIES.items()
    for name, colour, marker in zip(family, colours, MARKERS, strict=False)
}
LOOKS |= {
    label: Look(colour, "X")
    for label, colour in zip(BASELINES.values(), (OTHER, "#4b5563", "#111827", SIMPLE) * 2, strict=False)
}
# Paths: what was given, and what was made of it.
LOOKS |= {
    "X": Look("#6b7280", "o"),
    "Y of LEAP": Look(PAPERS, "P"),
    "Y of LEAP+": Look(OURS, "*"),
    "observed": Look("#111827", "."),
}


def look(name: str) -> Look:
    """Of a model, a baseline or a path, by the name that figures give it; who has none is grey.

    >>> look("LEAP").marker, look("somebody's model").colour
    ('P', '#9ca3af')
    """
    return LOOKS.get(name, Look(OTHER, "o"))


def path_of(row: str) -> str:
    """The name of the path that a row's model learned.

    >>> path_of("LEAP+ (ours)"), path_of("LEAP (medium)")
    ('Y of LEAP+', 'Y of LEAP')
    """
    return f"Y of {row.split(' (')[0]}"
