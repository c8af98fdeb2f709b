"""`leapcde demo`: LEAP, NCDE and the baselines on the bundled Hopper simulations, and a page about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leapcde.data.dataset import Dataset
from leapcde.datasets.registry import load
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.run import Result, run
from leapcde.explain import html as report
from leapcde.explain import plots
from leapcde.files import write_text
from leapcde.models.baselines import baselines_for, fit_baseline
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel

DROP = 0.3
TRAIN: dict[str, Any] = {"epochs": 16, "batch_size": 64, "learning_rate": 4e-3}
SIZE: dict[str, Any] = {"hidden": 32, "width": 32, "depth": 2}
OPTIONS: dict[str, dict[str, Any]] = {"leap": {**SIZE, "f_width": 64, "decoder_steps": 12}, "ncde": SIZE}


class Demo(NamedTuple):
    data: Dataset
    results: dict[str, list[Result]]  # by model, one a seed
    baselines: dict[str, FittedModel]

    def rows(self) -> list[dict[str, Any]]:
        """Test MSE in standardised units, worst first."""
        found = [_row(name, [self.baselines[name].evaluate(self.data.test)["mse"]], "no parameters") for name in self.baselines]
        for name, results in self.results.items():
            found.append(_row(name, [r.metrics["test"]["mse"] for r in results], f"{results[0].parameters:,} parameters"))
        return sorted(found, key=lambda row: -row["mean"])


def demo(seeds: list[int], *, epochs: int | None = None, models: tuple[str, ...] = ("ncde", "leap"), verbose: int = 0) -> Demo:
    """Train each model once a seed on 50 -> 10 forecasting with 30 % of the time points dropped."""
    data = load("hopper", drop_rate=DROP)
    results: dict[str, list[Result]] = {name: [] for name in models}
    for name in models:
        for seed in seeds:
            how = {"interpolation": "natural", "training": TrainConfig(**TRAIN), "epochs": epochs}
            made = LeapForecaster(name, options=OPTIONS[name], seed=seed, calibration=0.0, verbose=verbose, **how)
            results[name].append(run(made, data))
    preprocessor = results[models[-1]][0].estimator.fitted_.preprocessor
    known = preprocessor.encode_target(np.asarray(data.train.target))
    baselines = {
        name: FittedModel(preprocessor, fit_baseline(name, preprocessor.spec, known), name, {})
        for name in baselines_for(data.task)
    }
    return Demo(data, results, baselines)


def write_report(found: Demo, folder: Path) -> Path:
    """The page: the table, error by horizon, forecasts, what LEAP's path looks like, how training went."""
    rows = found.rows()
    base = next(row["mean"] for row in rows if row["model"] == "last-value")
    cells = [[r["model"], _mean_std(r), f"{r['mean'] / base:.2f} ×", r["size"]] for r in rows]
    parts = [
        report.paragraph(_INTRO),
        report.table(["model", "test MSE", "against last value", "size"], cells, best=len(cells) - 1),
        report.paragraph(
            "MSE over all test windows and channels, standardised units; ± is the deviation over seeds.", note=True
        ),
        report.heading("Error against how far ahead"),
        report.figure(plots.as_image(_horizon(found), "error by horizon"), "Mean squared error at each step ahead."),
        *_forecasts(found),
        *_paths(found),
        report.heading("Training"),
        report.figure(plots.as_image(_curves(found), "training curves"), "First seed of each model."),
    ]
    path = folder / "report.html"
    write_text(path, report.page("LEAP on Hopper", parts))
    return path


def _row(model: str, values: list[float], size: str) -> dict[str, Any]:
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"model": model, "metric": "mse", "mean": float(np.mean(values)), "std": std, "seeds": len(values), "size": size}


def _mean_std(row: dict[str, Any]) -> str:
    return f"{row['mean']:.4f} ± {row['std']:.4f}" if row["seeds"] > 1 else f"{row['mean']:.4f}"


def _fitted(found: Demo) -> dict[str, FittedModel]:
    return {**{name: results[0].estimator.fitted_ for name, results in found.results.items()}, **found.baselines}


def _horizon(found: Demo):
    preprocessor = next(iter(_fitted(found).values())).preprocessor
    truth = preprocessor.encode_target(np.asarray(found.data.test.target))
    errors = {name: ((p.raw(found.data.test) - truth) ** 2).mean((0, 2)) for name, p in _fitted(found).items()}
    return plots.plot_horizon(errors, "MSE")


def _forecasts(found: Demo) -> list[str]:
    """One test window, the three channels that move most."""
    one = found.data.test.take([0])
    t, past = one.sample(0)
    future = np.asarray(one.target)[0]
    said = {name: p.predict(one)[0] for name, p in _fitted(found).items() if name != "linear-trend"}
    parts = [report.heading("Forecasts of one test window")]
    for c in np.argsort(-np.nanstd(past, axis=0) / np.array(_scale(found)))[:3]:
        name = one.channels[c]
        drawn = plots.plot_forecast(t, past[:, c], future[:, c], {k: v[:, c] for k, v in said.items()}, name)
        parts.append(report.figure(plots.as_image(drawn, f"forecast of {name}"), name))
    return parts


def _scale(found: Demo) -> tuple[float, ...]:
    return next(iter(_fitted(found).values())).preprocessor.scaler.std


def _paths(found: Demo) -> list[str]:
    if "leap" not in found.results:
        return []
    fitted, one = found.results["leap"][0].estimator.fitted_, found.data.test.take([0])
    path = {key: array[0] for key, array in fitted.path(one).items()}
    channels = [(c, one.channels[c]) for c in (1, 4, 5)]
    image = plots.as_image(plots.plot_paths(path, one.sample(0), channels), "X against Y")
    caption = "X is the interpolation of the observations, Y the path that LEAP learned in its place; shaded: Y stands still."
    return [report.heading("The learned path"), report.figure(image, caption)]


def _curves(found: Demo):
    return plots.plot_history({name: results[0].estimator.history_ for name, results in found.results.items()}, "mse")


_INTRO = (
    "A one-legged robot falls: 2,000 simulations of dm_control's Hopper, 14 channels. Each model sees 50 time points, "
    "of which 30 % were dropped at random, and forecasts the next 10."
)
