"""Draw benchmarks/record.json and benchmarks/scaling.json as the figures of docs/speed.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
# The same record gives the same bytes: no date, no random names.
STYLE = {"svg.hashsalt": "leapcde", "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False}


def ratios(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars: how many times longer a peer's training step takes, by shape, with quartiles."""
    rows = [row for row in rows if row["case"] == "training step" and not row["peer"].startswith("ours")]
    counts = sorted({row["threads"] for row in rows})
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    figure, axes = plt.subplots(1, len(counts), figsize=(5.5 * len(counts), 4), sharey=True, squeeze=False)
    for ax, threads in zip(axes[0], counts, strict=True):
        for j, peer in enumerate(peers):
            mine = [row for row in rows if (row["threads"], row["peer"]) == (threads, peer)]
            where = [shapes.index(row["shape"]) + (j - (len(peers) - 1) / 2) * 0.16 for row in mine]
            low, high = ([abs(row["ratio"] - row["spread"][i]) for row in mine] for i in (0, 1))
            ax.bar(where, [row["ratio"] for row in mine], 0.15, yerr=[low, high], label=peer, error_kw={"lw": 0.8})
        ax.axhline(1, color="black", lw=0.8)
        ax.set_xticks(range(len(shapes)), [shape.replace("-", "\n") for shape in shapes])
        ax.set_title(f"{threads} thread{'s' if threads > 1 else ''}")
        ax.set_yscale("log")
        ax.set_yticks([1, 2, 3, 5, 10], ["1", "2", "3", "5", "10"])
        ax.minorticks_off()
    axes[0][0].set_ylabel("time of a training step against ours")
    axes[0][0].legend(fontsize=7, frameon=False)
    _write(figure, path)


def scaling(curves: list[dict[str, Any]], path: Path) -> None:
    """Lines: seconds above, memory below, against each axis of the problem."""
    names = list(dict.fromkeys(curve["axis"] for curve in curves))
    figure, axes = plt.subplots(2, len(names), figsize=(3 * len(names), 5), squeeze=False)
    for column, axis in enumerate(names):
        for row, what in enumerate(("seconds", "megabytes")):
            ax = axes[row][column]
            for curve in (curve for curve in curves if curve["axis"] == axis):
                label = curve["model"] + (", checkpoint" if curve["checkpoint"] else "")
                points = curve["points"]
                slope = f"{label} ({curve['exponents'][what]:.2f})"
                ax.loglog([p[axis] for p in points], [p[what] for p in points], "o-", ms=3, lw=1, label=slope)
            ax.legend(fontsize=6, frameon=False)
            ax.set_xlabel(axis if row else "")
        axes[0][0].set_ylabel("seconds")
        axes[1][0].set_ylabel("MB")
    _write(figure, path)


def _write(figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        if (record := HERE / "record.json").exists():
            ratios(json.loads(record.read_text()), DOCS / "speed-ratios.svg")
        if (record := HERE / "scaling.json").exists():
            scaling(json.loads(record.read_text())["curves"], DOCS / "speed-scaling.svg")
