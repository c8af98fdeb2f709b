"""What the released code of the paper computes on Character Trajectories, in the paper's letters, trained like our LEAP.

Three of its differences act together in classification. The derivatives are in the other order than the states, so that h,
which starts at φ_h(e(t_N)), gets g(·)W f and is what the head reads. It is read at index 1 of the 182 time points, because all
series are padded to one length. And Y is written to a file and read again, so that L_Y has no gradient. What is left is one
step of a differential equation behind a Neural CDE. `python -m leapcde_paper.released_code` trains it, removes that step, and
writes results/released.json; it also measures what noise that is uniform on [0, 1) estimates in place of a trace.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.data.dataset import Dataset
from leapcde.files import json_text, write_text
from leapcde.models.base import Model, Output
from leapcde.models.leap import Leap
from leapcde.models.registry import build, count_parameters
from leapcde.paths.batch import Batch
from leapcde.paths.path import join_linear
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver
from leapcde.solve.trace import value_and_divergence
from leapcde.training.loop import fit
from leapcde.training.predict import predict
from leapcde.training.preprocess import Preprocessor
from leapcde_paper import budgets
from leapcde_paper.run.cell import Cell, CellConfig
from leapcde_paper.run.data import cell_data
from leapcde_paper.run.records import commit
from leapcde_paper.run.train_cell import compute_on_one_thread

FILE = Path("results") / "released.json"
DATA, DROP, DRAWS = "character-trajectories", 0.3, 2000


class AsReleased(Model):
    """The letters are the paper's; what is done with them is the released code's."""

    of: Leap
    decoder: bool = eqx.field(static=True, default=True)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        of, start = self.of, self.of.φ_e(batch.start)  # one layer starts both e and z there
        e, _ = solve(of.k, start, batch.X, of.solver)
        h = of.φ_h(e)
        if self.decoder:
            h = self.one_step(start, h)
        return Output(of.head(h, batch.obs), jnp.zeros(()))  # L_Y has no gradient there, so it is nothing

    def one_step(self, z, h):
        """d[z, h] = [f(h), g(z) W f(h)] from t = 0 to t = 1."""

        def field(state, dt):
            z, h = state
            f = self.of.f(h)
            return f * dt, self.of.g(z, self.of.J_m(f) * dt)

        ends = jnp.tile(jnp.array([[0.0, 1.0]]), (len(h), 1))
        (_, h), _ = solve(field, (z, h), join_linear(ends, ends[..., None]), Solver("rk4"))
        return h

    def regularised(self):
        return self.of.k


def main() -> None:
    compute_on_one_thread()
    spend = budgets.budget("standard")
    config = budgets.config(spend, DATA, DROP, "leap", {"swings": 0.0}, {})
    data = cell_data(Cell(config))
    runs = json.loads(FILE.read_text())["runs"] if FILE.exists() else {}
    for seed in budgets.seeds(spend, DATA, "gru"):
        if str(seed) not in runs:
            print(f"seed {seed} …", flush=True)
            runs[str(seed)] = one(config, data, seed)
            write_text(FILE, json_text({"config": config.to_json(), "commit": commit(), "runs": runs}, indent=1) + "\n")
        print(seed, runs[str(seed)], flush=True)


def one(config: CellConfig, data: Dataset, seed: int) -> dict[str, Any]:
    """Test accuracy as released, and when its decoder is taken away after training."""
    preprocessor = Preprocessor.learn(data.train, data.task, config.recipe)
    leap = build(config.model, preprocessor.spec, seed=seed, **config.options)
    assert isinstance(leap, Leap)
    train, validation, test = (preprocessor.encode(part) for part in (data.train, data.validation, data.test))
    settings = replace(config.train, seed=seed)
    trained = fit(AsReleased(leap), data.task, train, validation, settings, metric="accuracy")
    model = trained.model
    assert isinstance(model, AsReleased)
    truth = preprocessor.encode_target(np.asarray(data.test.target))
    whole, without = (predict(AsReleased(model.of, on), test).argmax(-1) for on in (True, False))
    batch = test[0].batch
    e, _ = solve(model.of.k, model.of.φ_e(batch.start), batch.X, model.of.solver)
    return {
        "accuracy": float(np.mean(whole == truth)),
        "without_decoder": float(np.mean(without == truth)),
        "agree": float(np.mean(whole == without)),
        "parameters": count_parameters(model),
        "epochs": len(trained.history.rows),
        **traces(model.of, model.of.φ_h(e)),
    }


def traces(model: Leap, h: jax.Array) -> dict[str, float]:
    """tr ∂f/∂h, averaged over samples: exactly, and as noise of two kinds estimates it."""
    keys = jax.random.split(jax.random.key(0), DRAWS)
    f = model.f
    exact = value_and_divergence(f, h, None)[1]
    with_noise = lambda draw: float(jax.lax.map(lambda key: value_and_divergence(f, h, draw(key))[1].mean(), keys).mean())
    return {
        "trace": float(exact.mean()),
        "trace_rademacher": with_noise(lambda key: jax.random.rademacher(key, h.shape, h.dtype)),
        "trace_uniform": with_noise(lambda key: jax.random.uniform(key, h.shape, h.dtype)),
    }


if __name__ == "__main__":
    main()
