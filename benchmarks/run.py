"""Speed side by side with other libraries: the same weights, data, solver and steps, timed in turns.

`make bench` checks that losses and gradients agree, times training steps and predictions with one thread and with two,
and writes benchmarks/record.json. Every comparison runs in a process of its own, because the number of threads
belongs to a process. Seconds mean nothing on another machine; ratios from one run do.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS, ROUNDS = 40.0, (5, 40)  # for each comparison; fewest and most rounds
TOLERANCE = 1e-4  # of the loss, relative
# Of gradients, relative to the largest entry of each array: with 32 bits, a ReLU that flips in one library for one sample
# moves some of them by 1e-4. (MuJoCo shape, against 64 bits: ours within 4e-7, torchcde's 8e-5.)
GRADIENTS = 3e-4
SHAPES = ("character-trajectories", "mujoco", "speech", "sepsis")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "record.json")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        task, settings = arguments.child
        return print(json.dumps({"time": timed, "compile": compiled}[task](**json.loads(settings))))
    rows = []
    for shape in arguments.shapes:
        for model in ("ncde", "leap"):
            for threads in arguments.threads:
                rows += child("time", threads, shape=shape, model=model)
            rows += child("compile", 2, shape=shape, model=model)
            arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
            show(rows, shape, model)


def child(task: str, threads: int, **settings) -> Any:
    """Run a task in a fresh process on so many cores."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, __file__, "--child", task]
    done = subprocess.run([*command, json.dumps({**settings, "threads": threads})], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{task} {settings}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# In the child ---------------------------------------------------------------------------------------------------------


def peers_of(model: str) -> dict[str, Any]:
    import diffrax_peers
    import torch_peers

    return {**torch_peers.PEERS, **diffrax_peers.PEERS} if model == "ncde" else torch_peers.LEAP_PEERS


def made(shape: str, model: str, **more):
    import problems

    # The paper's grid: LEAP's decoder steps at every knot, as its peer does.
    return problems.problem(model, **problems.SHAPES[shape], **({"decoder_steps": None} if model == "leap" else {}), **more)


def timed(shape: str, model: str, threads: int) -> list[dict[str, Any]]:
    import jax
    import problems
    import torch

    torch.set_num_threads(threads)
    p, rows = made(shape, model), []
    peers = {name: make(p) for name, make in peers_of(model).items()}
    worst = {name: disagreement(name, p, peer) for name, peer in peers.items()}
    for case, ours in {
        "training step": problems.training(p),
        "prediction": lambda: jax.block_until_ready(problems.forward(p.model, p.batch)),
    }.items():
        theirs = {name: peer.step if case == "training step" else peer.forward for name, peer in peers.items()}
        if case == "training step" and model == "leap":
            theirs["ours, leap with 32 decoder steps"] = problems.training(
                problems.problem("leap", **problems.SHAPES[shape], decoder_steps=32)
            )
            theirs["ours, ncde"] = problems.training(problems.problem("ncde", **problems.SHAPES[shape]))
        seconds = interleaved({"ours": ours, **theirs})
        for name in theirs:
            rows.append(
                {
                    "case": case,
                    "model": model,
                    "shape": shape,
                    "threads": threads,
                    "peer": name,
                    **ratio(seconds["ours"], seconds[name]),
                    "gradients_differ": worst.get(name),
                }
            )
    return rows


def disagreement(name: str, p, peer) -> float:
    """How far gradients are apart at most; stops where the comparison would mean nothing."""
    import numpy as np
    import problems

    value, slope = problems.gradient(p.model, p.batch, p.labels, p.key)
    theirs, slopes = peer.gradient()
    found = zip(peer.ours(slope), slopes, strict=True)
    worst = max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-9)) for a, b in found)
    # A continuous adjoint solves another equation backwards: it agrees in the loss only, and that is part of the record.
    if abs(float(value) - theirs) > TOLERANCE * abs(theirs) or (worst > GRADIENTS and "adjoint (" not in name):
        raise SystemExit(f"{name}: losses {float(value)} and {theirs}, gradients differ by {worst:.1e}")
    return worst


def interleaved(functions: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of each function, round by round, so that a noisy moment hits all of them."""
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    began = time.perf_counter()
    for done in range(ROUNDS[1]):
        if done >= ROUNDS[0] and time.perf_counter() - began > SECONDS:
            break
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    found = {"ours_s": statistics.median(ours), "peer_s": statistics.median(theirs), "ratio": middle}
    return {**found, "spread": [low, high], "rounds": len(ratios)}


def compiled(shape: str, model: str, threads: int) -> list[dict[str, Any]]:
    """Seconds to compile the training step, and of a prediction for one sample once it is compiled."""
    import jax
    import problems

    p = made(shape, model)
    start = time.perf_counter()
    problems.training(p)()
    first = time.perf_counter() - start
    one = jax.tree.map(lambda a: a[:1], p.batch)
    latency = interleaved({"one": lambda: jax.block_until_ready(problems.forward(p.model, one))})["one"]
    same = {"model": model, "shape": shape, "threads": threads, "peer": None}
    return [
        {"case": "first training step, compilation included", **same, "ours_s": first},
        {"case": "prediction for one sample", **same, "ours_s": statistics.median(latency)},
    ]


def show(rows: list[dict[str, Any]], shape: str, model: str) -> None:
    for row in rows:
        if (row["shape"], row["model"]) == (shape, model):
            against = "" if row["peer"] is None else f"{row['ratio']:6.2f} × ours  {row['peer']}"
            print(
                f"{shape:24} {model:5} {row['threads']} thread(s)  {row['case']:42} {row['ours_s']:8.4f} s  {against}",
                flush=True,
            )


if __name__ == "__main__":
    main()
