"""Speed and memory side by side with other libraries: the same weights, data, solver and steps, timed in turns.

`make bench` checks that losses and gradients agree, times training steps and predictions on one thread (`--threads 1 2`: on
two as well), measures the memory of a step, and writes benchmarks/record.json. Beside them stand other models that people
would use instead, on the same rows and of the same size. Every comparison runs in a process of its own, because threads and
memory belong to a process. Seconds mean nothing on another machine; ratios from one run do.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS, ROUNDS = 30.0, (5, 40)  # for each comparison; fewest and most rounds
OURS = "ours"
TOLERANCE = 1e-4  # of the loss, relative
# Of gradients, relative to the largest entry of each array: with 32 bits, a ReLU that flips in one library for one sample
# moves some of them by 1e-4. (MuJoCo shape, against 64 bits: ours within 4e-7, torchcde's 8e-5.)
GRADIENTS = 3e-4
SHAPES = ("character-trajectories", "mujoco", "speech", "sepsis")
MODELS = ("ncde", "leap", "leap+")
INSTEAD = "training step of another model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "record.json")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=(*SHAPES, "tiny"))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each comparison, after its fewest rounds")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        task, settings = arguments.child
        return print(json.dumps(TASKS[task](**json.loads(settings))))
    rows = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    for shape, model, threads in product(arguments.shapes, arguments.models, arguments.threads):
        found = measured(shape, model, threads, arguments.seconds)
        rows = [row for row in rows if (row["shape"], row["model"], row["threads"]) != (shape, model, threads)] + found
        rows.sort(key=lambda row: ((*SHAPES, "tiny").index(row["shape"]), MODELS.index(row["model"]), row["threads"]))
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
        show(found)


def measured(shape: str, model: str, threads: int, seconds: float) -> list[dict[str, Any]]:
    """All rows of the record for a shape, a model and a number of threads."""
    rows = child("time", threads, shape=shape, model=model, seconds=seconds)
    if threads > 1:  # what does not depend on it is measured once
        return rows
    same = (row["peer"] for row in rows if row["case"] == "training step" and not row["peer"].startswith(OURS))
    peers = [OURS, *same]
    peaks = {peer: child("memory", threads, shape=shape, model=model, peer=peer) for peer in peers}
    for row in rows:
        if row["case"] == "training step" and row["peer"] in peaks:
            row |= {"peak_mb": peaks[OURS], "peer_peak_mb": peaks[row["peer"]]}
    with tempfile.TemporaryDirectory() as cache:
        more = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        rows += child("compile", threads, shape=shape, model=model, case="compilation of a training step", env=more)
        rows += child("compile", threads, shape=shape, model=model, case="the same from the cache", env=more)
    return rows + child("single", threads, shape=shape, model=model)


def child(task: str, threads: int, env: dict[str, str] | None = None, **settings) -> Any:
    """Run a task in a fresh process on so many cores."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    # Freed memory goes back to the system at once, in all libraries: else the peak of a step cannot be seen.
    small = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"} if task == "memory" else {}
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), **small, **(env or {})}
    command = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, __file__, "--child", task]
    done = subprocess.run([*command, json.dumps({**settings, "threads": threads})], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{task} {settings}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


# In the child ---------------------------------------------------------------------------------------------------------


def peers_of(model: str) -> dict[str, Any]:
    """The same model in other libraries; of LEAP+ there is none."""
    import diffrax_peers
    import torch_peers

    return {"ncde": {**torch_peers.PEERS, **diffrax_peers.PEERS}, "leap": torch_peers.LEAP_PEERS}.get(model, {})


def instead_of(model: str, shape: str, p) -> dict[str, Any]:
    """Other models that people would use, of the same size, on the same rows."""
    import torch_peers

    size = p.model.options.hidden if model == "leap+" else p.model.φ_z.weight.shape[1]
    found: dict[str, Any] = {"GRU in PyTorch": torch_peers.GruPeer(p, size)}
    if model == "leap+":
        found["NCDE in torchcde, direct"] = torch_peers.PEERS["torchcde, direct"](made(shape, "ncde"))
    if find_spec("discretax"):
        import scan_peers

        found["LinOSS in discretax"] = scan_peers.Peer(p, size)
    return found


def made(shape: str, model: str, **more):
    import problems

    if model == "leap+":
        return problems.leap_plus(shape)
    # The paper's grid: LEAP's decoder steps at every knot, as its peer does.
    return problems.problem(model, **problems.SHAPES[shape], **({"decoder_steps": None} if model == "leap" else {}), **more)


def timed(shape: str, model: str, threads: int, seconds: float) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(threads)
    p = made(shape, model)
    peers = {name: make(p) for name, make in peers_of(model).items()}
    worst = {name: disagreement(name, p, peer) for name, peer in peers.items()}
    others = instead_of(model, shape, p)
    same = {"model": model, "shape": shape, "threads": threads}
    rows = [*timed_steps(p, model, shape, peers, others, seconds), *timed_predictions(p, peers, seconds)]
    return [{"case": row["case"], **same, **row, **differ(worst, row["peer"])} for row in rows]


def timed_steps(p, model: str, shape: str, peers: dict, others: dict, seconds: float) -> list[dict[str, Any]]:
    import problems

    steps = {name: peer.step for name, peer in {**peers, **others}.items()}
    if model == "leap":
        coarse = problems.problem("leap", **problems.SHAPES[shape], decoder_steps=32)
        steps["ours, leap with 32 decoder steps"] = problems.training(coarse)
        steps["ours, ncde"] = problems.training(problems.problem("ncde", **problems.SHAPES[shape]))
    yardstick = {} if model == "leap+" else {"matmul": problems.matmul()}
    took = interleaved({OURS: problems.training(p), **steps, **yardstick}, seconds)
    case = lambda name: INSTEAD if name in others else "training step"
    rows = [{"case": case(name), "peer": name, **ratio(took[OURS], took[name])} for name in steps]
    return rows + [share_of_matmul(p, took) for _ in yardstick]


def share_of_matmul(p, took: dict[str, list[float]]) -> dict[str, Any]:
    import problems

    mine = problems.flops(p) / statistics.median(took[OURS])
    most = problems.MATMUL / statistics.median(took["matmul"])
    share = {"gflops": mine / 1e9, "matmul_gflops": most / 1e9, "ratio": mine / most}
    return {"case": "share of the matmul rate", "peer": None, **share}


def timed_predictions(p, peers: dict, seconds: float) -> list[dict[str, Any]]:
    import jax
    import problems

    # An adjoint is a way back; the way there is the same.
    theirs = {name: peer.forward for name, peer in peers.items() if "default" not in name}
    ours = lambda: jax.block_until_ready(problems.forward(p.model, p.batch))
    took = interleaved({OURS: ours, **theirs}, seconds) if theirs else {}
    return [{"case": "prediction", "peer": name, **ratio(took[OURS], took[name])} for name in theirs]


def differ(worst: dict[str, float], name: str | None) -> dict[str, float]:
    return {"gradients_differ": worst[name]} if name in worst else {}


def disagreement(name: str, p, peer) -> float:
    """How far gradients are apart at most; stops where the comparison would mean nothing."""
    import numpy as np
    import problems

    value, slope = problems.gradient(p.model, p.batch, p.labels, p.key, p.augment)
    theirs, slopes = peer.gradient()
    found = zip(peer.ours(slope), slopes, strict=True)
    worst = max(float(np.abs(a - b).max() / (np.abs(b).max() + 1e-9)) for a, b in found)
    # A continuous adjoint solves another equation backwards: it agrees in the loss only, and that is part of the record.
    if abs(float(value) - theirs) > TOLERANCE * abs(theirs) or (worst > GRADIENTS and "adjoint (" not in name):
        raise SystemExit(f"{name}: losses {float(value)} and {theirs}, gradients differ by {worst:.1e}")
    return worst


def interleaved(functions: dict[str, Any], limit: float = SECONDS) -> dict[str, list[float]]:
    """Seconds of each function, round by round, so that a noisy moment hits all of them.

    On one core they are processor time, which does not count what others do there meanwhile.
    """
    clock = time.process_time if len(os.sched_getaffinity(0)) == 1 else time.perf_counter
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    began = time.perf_counter()
    for done in range(ROUNDS[1]):
        if done >= ROUNDS[0] and time.perf_counter() - began > limit:
            break
        for name, function in functions.items():
            start = clock()
            function()
            seconds[name].append((clock() - start) / getattr(function, "steps", 1))
    return seconds


def ratio(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    found = {"ours_s": statistics.median(ours), "peer_s": statistics.median(theirs), "ratio": middle}
    return {**found, "spread": [low, high], "rounds": len(ratios)}


def compiled(shape: str, model: str, threads: int, case: str) -> list[dict[str, Any]]:
    """Seconds that the first training step takes longer than the following ones."""
    import problems

    step, seconds = problems.training(made(shape, model)), []
    for _ in range(4):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)  # all of a call's steps: what compiling took is left after the difference
    same = {"model": model, "shape": shape, "threads": threads, "peer": None}
    return [{"case": case, **same, "ours_s": seconds[0] - statistics.median(seconds[1:])}]


def single(shape: str, model: str, threads: int) -> list[dict[str, Any]]:
    """Seconds of a prediction for one sample once it is compiled."""
    import jax
    import problems

    p = made(shape, model)
    one = jax.tree.map(lambda a: a[:1], p.batch)
    latency = interleaved({"one": lambda: jax.block_until_ready(problems.forward(p.model, one))})["one"]
    same = {"model": model, "shape": shape, "threads": threads, "peer": None}
    return [{"case": "prediction for one sample", **same, "ours_s": statistics.median(latency)}]


def memory(shape: str, model: str, threads: int, peer: str) -> float:
    """Megabytes that a training step needs at its peak beside what is there between steps."""
    import problems

    p = made(shape, model)
    step = problems.training(p) if peer == OURS else peers_of(model)[peer](p).step
    step()
    step()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    between = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    step()
    return (status("VmHWM") - between) / 1e3


def status(what: str) -> int:
    """A figure of this process, in kB."""
    [found] = re.findall(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found)


def show(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        value = f"{row['ours_s']:8.4f} s" if "ours_s" in row else f"{row['ratio']:8.2f}  "
        against = "" if row["peer"] is None else f"{row['ratio']:6.2f} × ours  {row['peer']}"
        peaks = f", {row['peak_mb']:.0f} against {row['peer_peak_mb']:.0f} MB" if "peak_mb" in row else ""
        print(
            f"{row['shape']:22} {row['model']:5} {row['threads']} thread(s)  {row['case']:38} {value}  {against}{peaks}",
            flush=True,
        )


TASKS = {"time": timed, "memory": memory, "compile": compiled, "single": single}


if __name__ == "__main__":
    main()
