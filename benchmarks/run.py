"""Speed of a training step, side by side with Diffrax: same weights, same data, same midpoint steps, interleaved timing.

`make bench` writes benchmarks/record.json. Seconds mean nothing on another machine; ratios from one run do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde import Recipe, Spec, as_series, build, make_buckets

SHAPES = {
    "character-trajectories": {"batch": 32, "length": 182, "values": 3, "hidden": 40, "width": 100, "depth": 3},
    "mujoco": {"batch": 1024, "length": 50, "values": 13, "hidden": 80, "width": 50, "depth": 5},
}


def problem(batch: int, length: int, values: int, hidden: int, width: int, depth: int):
    data = np.random.default_rng(0).normal(size=(batch, length, values)).cumsum(1) / length**0.5
    made = make_buckets(as_series(data), Recipe())[0].batch
    spec = Spec("classification", values, values + 1, (20,), span=length - 1.0)
    size = {"hidden": hidden, "width": width, "depth": depth}
    return made, build("ncde", spec, **size), build("leap", spec, **size, decoder_steps=32)


def gradient_of(predict):
    """A compiled loss and gradient of sum(prediction²) with respect to the model."""
    return eqx.filter_jit(eqx.filter_value_and_grad(lambda model, batch: jnp.sum(predict(model, batch) ** 2)))


def with_diffrax(adjoint):
    """The same NCDE as a Diffrax user writes it: one sample's solve, vmapped."""

    def predict(model, batch):
        def one(start, values, left, right):
            def rate(s, z, _):
                i = jnp.clip(jnp.floor(s).astype(int), 0, len(left) - 1)
                u, x0, x1 = s - i, values[i], values[i + 1]
                dX = 6 * u * (1 - u) * (x1 - x0) + (1 - u) * (1 - 3 * u) * left[i] + u * (3 * u - 2) * right[i]
                return model.g(z, dX)

            steps = len(left)
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(rate),
                diffrax.Midpoint(),
                0.0,
                float(steps),
                1.0,
                model.φ_z(start),
                adjoint=adjoint,
                max_steps=steps,
            )
            return model.head.layer(solution.ys[0])

        return jax.vmap(one)(batch.start, batch.X.values, batch.X.left, batch.X.right)

    return predict


def interleaved(functions: dict, rounds: int) -> dict[str, list[float]]:
    for function in functions.values():
        jax.block_until_ready(function())
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            began = time.perf_counter()
            jax.block_until_ready(function())
            seconds[name].append(time.perf_counter() - began)
    return seconds


def agree(name: str, ours, theirs) -> None:
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        scale = float(jnp.abs(b).max()) + 1e-6
        worst = float(jnp.abs(a - b).max()) / scale
        if worst > 1e-3:
            raise SystemExit(f"{name}: results differ by {worst:.1e} of their size; the comparison would mean nothing")


def compare(case: str, shape: dict, rounds: int) -> list[dict]:
    batch, ncde, leap = problem(**shape)
    ours = gradient_of(lambda model, batch: model(batch).prediction)
    peers = {
        "diffrax default (RecursiveCheckpointAdjoint)": gradient_of(with_diffrax(diffrax.RecursiveCheckpointAdjoint())),
        "diffrax DirectAdjoint": gradient_of(with_diffrax(diffrax.DirectAdjoint())),
    }
    for name, peer in peers.items():
        agree(name, ours(ncde, batch), peer(ncde, batch))
    functions = {"ours": lambda: ours(ncde, batch), "ours, leap with 32 decoder steps": lambda: ours(leap, batch)}
    functions |= {name: (lambda peer=peer: peer(ncde, batch)) for name, peer in peers.items()}
    seconds = interleaved(functions, rounds)
    rows = []
    for name in list(functions)[1:]:
        ratios = [theirs / mine for theirs, mine in zip(seconds[name], seconds["ours"], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        row = {"case": f"ncde gradient, {case}", "shape": shape, "peer": name, "ratio": statistics.median(ratios)}
        row |= {"ours_s": statistics.median(seconds["ours"]), "peer_s": statistics.median(seconds[name]), "spread": [low, high]}
        rows.append(row)
        print(f"{case:24} {name:46} {row['ratio']:6.2f} × ours ({low:.2f} to {high:.2f})", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "record.json")
    arguments = parser.parse_args()
    rows = [row for case, shape in SHAPES.items() for row in compare(case, shape, arguments.rounds)]
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
