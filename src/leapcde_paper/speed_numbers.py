"""Tables of docs/speed.md, and README's, from the records of benchmarks/ and from what trainings took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leapcde_paper import paper_numbers as paper
from leapcde_paper.figures.time_picture import seconds_until
from leapcde_paper.rows import PLUS
from leapcde_paper.run.records import read_all
from leapcde_paper.studies import preset
from leapcde_paper.tables.table import by_key, of_settings

ROOT = Path(__file__).parents[2]  # this is of use in the source tree only


def _bench_rows() -> list[dict[str, Any]]:
    return json.loads((ROOT / "benchmarks" / "record.json").read_text())


def bench() -> str:
    """How many times faster a training step is than the peers', on one thread: a row a shape, a column a peer."""
    steps = [row for row in _bench_rows() if row["case"] == "training step" and row["threads"] == 1]
    peers = list(dict.fromkeys(row["peer"] for row in steps if not row["peer"].startswith("ours")))
    lines = [f"| shape | {' | '.join(peers)} |", f"|---|{'---:|' * len(peers)}"]
    for shape in dict.fromkeys(row["shape"] for row in steps):
        found = {row["peer"]: f"{row['ratio']:.1f} ×" for row in steps if row["shape"] == shape}
        lines.append(f"| {shape} | {' | '.join(found.get(peer, '') for peer in peers)} |")
    return "\n".join(lines) + "\n"


def instead() -> str:
    """How many times longer a training step of other models takes, of the same size and on the same rows, on one thread."""
    steps = [row for row in _bench_rows() if row["case"] == "training step of another model" and row["threads"] == 1]
    peers = list(dict.fromkeys(row["peer"] for row in steps))
    lines = [f"| ours | shape | {' | '.join(peers)} |", f"|---|---|{'---:|' * len(peers)}"]
    for model, shape in dict.fromkeys((row["model"], row["shape"]) for row in steps):
        found = {row["peer"]: f"{row['ratio']:.1f} ×" for row in steps if (row["model"], row["shape"]) == (model, shape)}
        lines.append(f"| {model} | {shape} | {' | '.join(found.get(peer, '') for peer in peers)} |")
    return "\n".join(lines) + "\n"


def until() -> str:
    """Processor seconds until validation data is classified so well, the first seed of each model: nothing was compiled yet."""
    bars = {("character", "30 %"): (0.95, 0.98), ("speech", paper.OTHER_SPEECH): (0.9, 0.93)}
    there = {key: of_settings(preset(key[0], "standard"), by_key(read_all(ROOT / "results" / "standard"))) for key in bars}
    titles = [f"{name} {bar}" for name, key in zip(("letters", "words"), bars, strict=True) for bar in bars[key]]
    lines = [f"| model | {' | '.join(titles)} |", f"|---|{'---:|' * 4}"]
    for row in (*paper.LABELS.values(), PLUS.label):
        first = [there[key][row, key[1]][0] for key in bars]
        found = [seconds_until(one, bar) for one, key in zip(first, bars, strict=True) for bar in bars[key]]
        lines.append(f"| {row} | {' | '.join('–' if seconds is None else f'{seconds:.0f}' for seconds in found)} |")
    return "\n".join(lines) + "\n"


def latency() -> str:
    """What one answer costs, in milliseconds, from the record of benchmarks/latency.py."""
    kinds = ("lowest", "processor", "median")
    lines = ["| model | `predict`, lowest | processor | median | `push`, lowest | processor | median |", f"|---|{'---:|' * 6}"]
    for row in json.loads((ROOT / "benchmarks" / "latency.json").read_text())["rows"]:
        cells = [f"{row[case][kind]:.2f}" if row[case] else "" for case in ("predict_ms", "push_ms") for kind in kinds]
        lines.append(f"| {row['model']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def speed() -> str:
    """The tables of `bench` and `instead` in two sentences."""
    steps = [row for row in _bench_rows() if row["threads"] == 1]
    ratios = lambda case, peer: [row["ratio"] for row in steps if row["case"] == case and row["peer"].startswith(peer)]
    spread = lambda found: f"{min(found):.2g} to {max(found):.2g}"
    torch, diffrax = (spread(ratios("training step", peer)) for peer in ("torchcde", "Diffrax"))
    plus = [row for row in steps if row["case"] == "training step of another model" and row["model"] == "leap+"]
    gru = [row["ratio"] for row in plus if row["peer"].startswith("GRU")]
    return (
        f"A training step of the same model takes {torch} times as long in torchcde and {diffrax} times in Diffrax, on one "
        f"thread. A plain GRU in PyTorch takes {spread(gru)} times as long as `leap+` ([how](docs/speed.md)).\n"
    )


def bench_all() -> str:
    """Training steps and predictions in the record of `make bench`."""
    lines = ["| model, shape | case | threads | ours, s | peer | time against ours | quartiles | MB, ours and theirs |"]
    lines.append("|---|---|---:|---:|---|---:|---:|---:|")
    for row in _bench_rows():
        if row["peer"] is None:
            continue
        low, high = row["spread"]
        memory = f"{row['peak_mb']:.0f}, {row['peer_peak_mb']:.0f}" if "peak_mb" in row else ""
        where = f"{row['model']}, {row['shape']} | {row['case']} | {row['threads']} | {row['ours_s']:.4f}"
        lines.append(f"| {where} | {row['peer']} | {row['ratio']:.2f} × | {low:.2f} – {high:.2f} | {memory} |")
    return "\n".join(lines) + "\n"


def bench_single() -> str:
    """What has no peer: compilation, one sample, and the share of the machine's matmul rate."""
    rows = [row for row in _bench_rows() if row["peer"] is None]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    lines = [f"| model, shape | threads | {' | '.join(cases)} |", f"|---|---:|{'---:|' * len(cases)}"]
    for key in dict.fromkeys((row["model"], row["shape"], row["threads"]) for row in rows):
        found = {row["case"]: row for row in rows if (row["model"], row["shape"], row["threads"]) == key}
        cells = [_single(found.get(case)) for case in cases]
        lines.append(f"| {key[0]}, {key[1]} | {key[2]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _single(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['ours_s']:.{4 if row['ours_s'] < 0.1 else 1}f} s" if "ours_s" in row else f"{row['ratio']:.0%}"


def memory() -> str:
    """What a fresh process needs at its peak to train, from the record of benchmarks/memory.py."""
    lines = ["| data set, model | imported | data read | trained | peak, MB | asked |", "|---|---:|---:|---:|---:|---:|"]
    for case, found in json.loads((ROOT / "benchmarks" / "memory.json").read_text()).items():
        cells = [f"{found[key]:,}" for key in ("imported", "loaded", "trained", "peak", "may_need")]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def large() -> str:
    """A Parquet folder larger than memory should be, from the record of benchmarks/big_data.py."""
    record = json.loads((ROOT / "benchmarks" / "big_data.json").read_text())
    lines = [
        "| model | rows lie in | rows | peak, MB | µs a row | processor µs a row |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for model, found in record.items():
        if model == "gigabytes":
            continue
        for where, title in (("store", f"store ({record['gigabytes']:.1f} GB of Parquet)"), ("memory", "memory (a twentieth)")):
            one = found[where]
            times = f"{one['microseconds_a_row']:.2f} | {one['cpu_microseconds_a_row']:.2f}"
            lines.append(f"| {model} | {title} | {one['rows']:,} | {one['megabytes']:,} | {times} |")
    return "\n".join(lines) + "\n"


def scaling() -> str:
    """Exponents of `make bench-scaling`, and what the longest series needs."""
    lines = ["| model | against | checkpoint | exponent of seconds | of memory | largest | seconds | MB |"]
    lines.append("|---|---|---|---:|---:|---:|---:|---:|")
    for curve in json.loads((ROOT / "benchmarks" / "scaling.json").read_text())["curves"]:
        last, fits = curve["points"][-1], curve["exponents"]
        what = f"{curve['model']} | {curve['axis']} | {'yes' if curve['checkpoint'] else ''}"
        size = f"{last[curve['axis']]:,} | {last['seconds']:.2f} | {last['megabytes']:,.0f}"
        lines.append(f"| {what} | {fits['seconds']:.2f} | {fits['megabytes']:.2f} | {size} |")
    return "\n".join(lines) + "\n"
