"""How long one answer takes once everything is compiled, for every model: `predict` of one sample, `push` of one row.

    python benchmarks/latency.py [--out benchmarks/latency.json] [--models leap+ leap ...] [--rounds 200]

The shape is that of Character Trajectories; models are as they start, because weights do not change how long they take.
What is timed is what users call: an estimator's `predict` on a list with one (times, values) pair, and a stream's `push`
with a NumPy row. Seconds are of the machine that made the record; on a busy one the lowest says more than the median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.estimators.classifier import LeapClassifier
from leapcde.models.registry import MODELS, options_of
from leapcde.paths.batch import Recipe
from leapcde.training.fitted import new_model

LENGTH, VALUES, CLASSES = 182, 3, 20
BARS = {"predict_ms": 3.0, "push_ms": 0.3}


def estimator(model: str, *, streamed: bool) -> LeapClassifier:
    """A classifier that has everything but training."""
    data = np.random.default_rng(0).normal(size=(2 * CLASSES, LENGTH, VALUES)).cumsum(1)
    series = as_series(data, target=np.arange(2 * CLASSES) % CLASSES)
    options = {"causal": True} if streamed and "causal" in options_of(model) else {}
    recipe = Recipe("hermite" if streamed else "linear")
    made = LeapClassifier(model, options=options, interpolation=recipe.interpolation)
    options = made._options(series, recipe, 32)
    if streamed:  # what divides a whole series into steps cannot be streamed
        options = {name: None if name in ("steps", "encoder_steps") else value for name, value in options.items()}
    made._keep(new_model(series, task="classification", model=model, options=options, recipe=recipe, seed=0))
    return made


def milliseconds(function: Callable[[], object], rounds: int) -> dict[str, float]:
    """Median and lowest of so many calls after a few that compile, and the processor time of a call, which waits for nobody."""
    for _ in range(3):
        function()
    took, worked = [], time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        function()
        took.append(1e3 * (time.perf_counter() - began))
    processor = 1e3 * (time.process_time() - worked) / rounds
    found = {"median": statistics.median(took), "lowest": min(took), "processor": processor}
    return {name: round(value, 3) for name, value in found.items()}


def pushes(made: LeapClassifier) -> Callable[[], object]:
    """A function that pushes one more row, and waits until it has arrived."""
    import jax

    stream, rows = made.stream(), iter(np.random.default_rng(1).normal(size=(100_000, VALUES)))

    def push() -> None:
        stream.push(float(len(stream)), next(rows))
        jax.block_until_ready(stream.carry)

    return push


def measure(model: str, rounds: int) -> dict[str, object]:
    one = [(np.arange(LENGTH, dtype=float), np.random.default_rng(2).normal(size=(LENGTH, VALUES)).cumsum(0))]
    made = estimator(model, streamed=False)
    found: dict[str, object] = {"model": model, "predict_ms": milliseconds(lambda: made.predict(one), rounds)}
    try:
        found["push_ms"] = milliseconds(pushes(estimator(model, streamed=True)), rounds)
    except InputError:
        found["push_ms"] = None  # it looks at the whole series
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "latency.json")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        rows.append(measure(model, arguments.rounds))
        print(json.dumps(rows[-1]), flush=True)
    arguments.out.write_text(json.dumps({"length": LENGTH, "values": VALUES, "bars": BARS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
