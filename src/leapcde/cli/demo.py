"""`leapcde demo`: LEAP+, LEAP, NCDE and the baselines on the bundled Hopper simulations, and a page about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leapcde import DEFAULT_MODEL
from leapcde.baselines.fitted import Baseline, fit_baseline
from leapcde.data.dataset import Dataset
from leapcde.datasets.registry import load
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.run import Result, run
from leapcde.explain import html as report
from leapcde.explain import plots
from leapcde.explain.hidden import LEARNED, hidden_errors, hide_rows
from leapcde.files import write_text
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import Fitted

DROP = 0.3
SIMPLE = ("last-value", "linear-trend")
HIDE = 0.3  # share of the rows that are left, in the picture of the learned path
EPOCHS = {"ncde": 16, "leap": 16, "leap+": 10}  # less than a minute of one idle core for all of them
SIZE: dict[str, Any] = {"hidden": 32, "width": 32, "depth": 2}
PAPER: dict[str, Any] = {"interpolation": "natural", "training": TrainConfig(batch_size=32, learning_rate=4e-3)}
SETTINGS: dict[str, dict[str, Any]] = {
    "ncde": {**PAPER, "options": SIZE},
    "leap": {**PAPER, "options": {**SIZE, "f_width": 64, "decoder_steps": 12}},
    "leap+": {},  # what a newcomer gets: all is chosen from the data's shape
}


class Demo(NamedTuple):
    data: Dataset
    results: dict[str, list[Result]]  # by model, one a seed
    baselines: dict[str, Baseline]

    def rows(self) -> list[dict[str, Any]]:
        """Test MSE in standardised units, worst first."""
        found = [_row(name, [self.baselines[name].evaluate(self.data.test)["mse"]], "no parameters") for name in self.baselines]
        for name, results in self.results.items():
            found.append(_row(name, [r.metrics["test"]["mse"] for r in results], f"{results[0].parameters:,} parameters"))
        return sorted(found, key=lambda row: -row["mean"])


def demo(seeds: list[int], *, epochs: int | None = None, models: tuple[str, ...] = tuple(SETTINGS), verbose: int = 0) -> Demo:
    """Train each model once a seed on 50 -> 10 forecasting with 30 % of the time points dropped."""
    data = load("hopper", drop_rate=DROP)
    first = np.unique(np.asarray(data.train.ids), return_index=True)[1]
    count = len(data.train) // len(first)
    # One window of each simulation, now an early and now a late one: all five of it would take five times as long.
    data = replace(data, train=data.train.take(first + np.arange(len(first)) % count))
    results: dict[str, list[Result]] = {name: [] for name in models}
    for name in models:
        for seed in seeds:
            how = {**SETTINGS[name], "epochs": epochs or EPOCHS[name]}
            made = LeapForecaster(name, seed=seed, calibration=0.0, verbose=verbose, **how)
            results[name].append(run(made, data))
    preprocessor = results[models[-1]][0].estimator.fitted_.preprocessor
    simple = [fit_baseline(name, data.train, data.validation, preprocessor) for name in SIMPLE]
    return Demo(data, results, {one.name: one for one in simple})


def write_report(found: Demo, folder: Path) -> Path:
    """The page: the table, error by horizon, the learned path and its forecast, all forecasts, how training went."""
    rows = found.rows()
    base = next(row["mean"] for row in rows if row["model"] == "last-value")
    cells = [[r["model"], _mean_std(r), f"{r['mean'] / base:.2f} ×", r["size"]] for r in rows]
    parts = [
        report.paragraph(_INTRO),
        report.table(["model", "test MSE", "against last value", "size"], cells, best=len(cells) - 1),
        report.paragraph(
            "MSE over all test windows and channels, standardised units; ± is the deviation over seeds. "
            f"Training took {sum(r.seconds for results in found.results.values() for r in results):.0f} seconds in all.",
            note=True,
        ),
        *_paths(found),
        report.heading("Error against how far ahead"),
        report.figure(plots.as_image(_horizon(found), "error by horizon"), "Mean squared error at each step ahead."),
        *_forecasts(found),
        report.heading("Training"),
        report.figure(plots.as_image(_curves(found), "training curves"), "First seed of each model."),
    ]
    path = folder / "report.html"
    write_text(path, report.page("LEAP+ on Hopper", parts))
    return path


def _row(model: str, values: list[float], size: str) -> dict[str, Any]:
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"model": model, "metric": "mse", "mean": float(np.mean(values)), "std": std, "seeds": len(values), "size": size}


def _mean_std(row: dict[str, Any]) -> str:
    return f"{row['mean']:.4f} ± {row['std']:.4f}" if row["seeds"] > 1 else f"{row['mean']:.4f}"


def _fitted(found: Demo) -> dict[str, Fitted]:
    return {**{name: results[0].estimator.fitted_ for name, results in found.results.items()}, **found.baselines}


def _horizon(found: Demo):
    preprocessor = next(iter(_fitted(found).values())).preprocessor
    truth = preprocessor.encode_target(np.asarray(found.data.test.target))
    errors = {name: ((p.raw(found.data.test) - truth) ** 2).mean((0, 2)) for name, p in _fitted(found).items()}
    return plots.plot_horizon(errors, "MSE")


def _forecasts(found: Demo) -> list[str]:
    one = found.data.test.take([0])
    t, past = one.sample(0)
    future = np.asarray(one.target)[0]
    said = {name: p.predict(one)[0] for name, p in _fitted(found).items() if name != "linear-trend"}
    parts = [report.heading("Forecasts of one test window")]
    for c, name in _lively(found):
        drawn = plots.plot_forecast(t, past[:, c], future[:, c], {k: v[:, c] for k, v in said.items()}, name)
        parts.append(report.figure(plots.as_image(drawn, f"forecast of {name}"), name))
    return parts


def _lively(found: Demo) -> list[tuple[int, str]]:
    """The three channels that move most in the first test window."""
    scale = next(iter(_fitted(found).values())).preprocessor.scaler.std
    moved = np.nanstd(found.data.test.sample(0)[1], axis=0) / np.array(scale)
    return [(int(c), found.data.test.channels[c]) for c in np.argsort(-moved)[:3]]


def _paths(found: Demo) -> list[str]:
    """LEAP+'s path through a test window of which more was hidden, and on into the forecast."""
    if DEFAULT_MODEL not in found.results:
        return []
    fitted, test = found.results[DEFAULT_MODEL][0].estimator.fitted_, found.data.test
    one = test.take([0])
    seen, times, values = hide_rows(one, HIDE, seed=0)
    path = {key: array[0] for key, array in fitted.path(seen).items()}
    future, said = np.asarray(one.target)[0], fitted.predict(seen)[0]
    ahead = one.times[-1] + np.arange(1, len(future) + 1)
    drawn = plots.plot_filled(path, seen.sample(0), (times[0], values[0]), (ahead, future, said), _lively(found))
    error = hidden_errors(fitted, test, share=HIDE)
    caption = (
        "Black points were seen, open circles were hidden. X joins what was seen by straight lines; Y is the path that LEAP+ "
        "learned, and its forecast is Y going on. Squared error at hidden rows of all test windows, standardised units: "
        f"Y {error[LEARNED]:.4f}, straight line {error['straight line']:.4f}, natural cubic {error['natural cubic']:.4f}."
    )
    return [report.heading("The learned path"), report.figure(plots.as_image(drawn, "X and Y between hidden rows"), caption)]


def _curves(found: Demo):
    return plots.plot_history({name: results[0].estimator.history_ for name, results in found.results.items()}, "mse")


_INTRO = (
    "A one-legged robot falls: 2,000 simulations of dm_control's Hopper, 14 channels. Each model sees 50 time points, "
    "of which 30 % were dropped at random, and forecasts the next 10. LEAP+ has the settings that estimators choose by "
    "themselves, but for fewer epochs."
)
