"""How seconds and memory of a training step grow with length, batch, channels and D_h.

`make bench-scaling` writes benchmarks/scaling.json. Seconds are the best of a few steps on one core; memory is XLA's own
count of what the compiled step needs beside its inputs, which is the same on every machine. An exponent of 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import jax
import numpy as np
import problems

BASE = {"batch": 32, "length": 200, "values": 7, "hidden": 32, "width": 64, "depth": 2}
CURVES = {
    "length": (50, 100, 200, 500, 1000, 2000, 5000, 10_000),
    "batch": (8, 16, 32, 64, 128, 256, 512),
    "values": (1, 3, 7, 15, 31, 63),
    "hidden": (8, 16, 32, 64, 128),
}
FIT_FROM = {"length": 200, "batch": 32, "values": 7, "hidden": 32}  # below, fixed costs hide the slope


def measure(model: str, checkpoint: bool, **shape) -> dict[str, float]:
    p = problems.problem(model, **shape, solver_options={"checkpoint": checkpoint})
    given = p.model, p.batch, p.labels, p.key, p.augment
    compiled = problems.gradient.lower(*given).compile()
    needs = compiled.compiled.memory_analysis()
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        jax.block_until_ready(compiled(*given))
        best = min(best, time.process_time() - began)
    return {"seconds": best, "megabytes": needs.temp_size_in_bytes / 1e6}


def exponent(points: list[dict], axis: str, what: str) -> float:
    """Slope of a line through the points in logarithms."""
    used = [point for point in points if point[axis] >= FIT_FROM[axis]]
    x, y = (np.log([point[name] for point in used]) for name in (axis, what))
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "scaling.json")
    out = parser.parse_args().out
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads
    curves = []
    for model in ("ncde", "leap"):
        for axis, values in CURVES.items():
            for checkpoint in (False, True) if axis == "length" else (False,):
                points = [{axis: v, **measure(model, checkpoint, **{**BASE, axis: v})} for v in values]
                fits = {what: exponent(points, axis, what) for what in ("seconds", "megabytes")}
                curves.append({"model": model, "axis": axis, "checkpoint": checkpoint, "exponents": fits, "points": points})
                print(model, axis, "checkpoint" if checkpoint else "", fits, points[-1], flush=True)
    out.write_text(json.dumps({"base": BASE, "curves": curves}, indent=1) + "\n")


if __name__ == "__main__":
    main()
