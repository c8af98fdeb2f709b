"""PhysioNet / CinC Challenge 2019: hourly records of 40,336 intensive-care stays, and whether sepsis was among them.

Read straight from `training_setA.zip` and `training_setB.zip` (or the folders inside them), a text file a patient: 34 vital
signs and laboratory values, six columns that say who and when, and the hourly label. The published experiments look at
the first 72 hours and ask whether sepsis was reported within them. Times are the hours since admission to intensive
care (ICULOS) as recorded: 8,793 records start later than in the first hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from leapcde.data.series import BLOCK, Series
from leapcde.data.store.mapped import alike, end_to_end, let_go
from leapcde.datasets._io.archive import open_zip
from leapcde.datasets._io.cache import Arrays, Made, prepared
from leapcde.datasets._io.psv_files import Table, read_tables
from leapcde.datasets.registry import register_dataset
from leapcde.datasets.source import About, Download, PublishedNumber, Read, Source
from leapcde.errors import InputError, Problems

FOLDER, SETS = "sepsis", ("training_setA", "training_setB")
ADDRESS = "https://archive.physionet.org/users/shared/challenge-2019"
VERSION = 1  # of what is cached; raise it when parsing changes
# fmt: off
COLUMNS = (
    "HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp", "EtCO2", "BaseExcess", "HCO3", "FiO2", "pH", "PaCO2", "SaO2",
    "AST", "BUN", "Alkalinephos", "Calcium", "Chloride", "Creatinine", "Bilirubin_direct", "Glucose", "Lactate",
    "Magnesium", "Phosphate", "Potassium", "Bilirubin_total", "TroponinI", "Hct", "Hgb", "PTT", "WBC", "Fibrinogen",
    "Platelets", "Age", "Gender", "Unit1", "Unit2", "HospAdmTime", "ICULOS", "SepsisLabel",
)
# fmt: on
CHANNELS, STATIC = COLUMNS[:34], COLUMNS[34:39]
HOUR, LABEL = 39, 40
FEWEST = 3  # rows; shorter records are left out, as in the published experiments
AT_ONCE = 2000  # files parsed together: large enough to be fast, small enough to need little memory


@dataclass(frozen=True)
class Options:
    hours: int = 72  # what is seen of each stay
    start: Literal["admission", "record"] = "admission"  # the clock starts in hour 1, or with a record's first row
    statics: bool = False  # age, gender, units, hours between hospital and intensive care


def read(data_dir: Path, options: Options) -> Read:
    arrays, notes = prepared(FOLDER, files(data_dir, options), {"version": VERSION}, data_dir, lambda: prepare(data_dir))
    return Read(select(arrays, options), notes)


def files(data_dir: Path, options: Options | None = None) -> list[Path]:
    """The two zips, or the two folders."""
    found, problems = [], Problems()
    for name in SETS:
        places = [data_dir / FOLDER / f"{name}.zip", data_dir / FOLDER / name]
        there = [path for path in places if path.exists()]
        found += there[:1]
        if not there:
            problems.add(f"no {places[0]}, nor a folder {name} beside it")
    problems.raise_if_any("PhysioNet Sepsis 2019 is not there; get it with 'leapcde data fetch sepsis'")
    return found


def prepare(data_dir: Path) -> Made:
    """Every row of every record, end to end, by file name."""
    ids: list[np.ndarray] = []
    arrays = end_to_end(_block(path, texts, ids) for path in files(data_dir) for texts in _in_blocks(_texts(path)))
    names = np.concatenate(ids)
    if len(set(names.tolist())) < len(names):
        twice = sorted({name for name in names.tolist() if (names == name).sum() > 1})
        raise InputError(f"these records are there twice: {', '.join(twice[:5])}; keep one of each")
    order = np.argsort(names)  # A before B: the names say so
    if (order != np.arange(len(names))).any():
        raise InputError(f"the records of {SETS[0]} must come before those of {SETS[1]} by name; are the files swapped?")
    offsets = np.concatenate([[0], np.cumsum(arrays.pop("lengths"))])
    return {**arrays, "offsets": offsets, "ids": names}, {"records": len(names)}


def select(arrays: Arrays, options: Options) -> Series:
    """The first hours of the records that have more than two rows in them; the target is 1 if sepsis was reported there."""
    times, offsets = np.asarray(arrays["times"]), np.asarray(arrays["offsets"])
    early = times <= options.hours
    counts = np.add.reduceat(early, offsets[:-1])
    chosen = counts >= FEWEST
    sick = np.maximum.reduceat(np.where(early, arrays["label"], 0), offsets[:-1])
    rows = np.flatnonzero(early & np.repeat(chosen, np.diff(offsets)))
    counts = counts[chosen]
    # An empty row in hour 1 makes the clock of a late record start there: what is observed keeps its hour.
    late = (times[offsets[:-1]][chosen] > 1) & (options.start == "admission")
    ends = np.cumsum(counts + late)
    place = np.arange(len(rows)) + np.repeat(np.cumsum(late), counts)
    clock = np.ones(int(ends[-1]) if len(ends) else 0)
    values = alike(arrays["values"], (len(clock), len(CHANNELS)))
    clock[place] = times[rows]
    source = np.full(len(clock), -1)
    source[place] = rows
    for start in range(0, len(clock), BLOCK):  # less memory: what is picked at once is a copy
        some = source[start : start + BLOCK]
        values[start : start + BLOCK] = np.where(some[:, None] < 0, np.float32(np.nan), arrays["values"][some])
        let_go(arrays["values"], values)
    static = np.asarray(arrays["static"])[chosen] if options.statics else None
    ids = np.asarray(arrays["ids"])[chosen]
    return Series(clock, values, np.concatenate([[0], ends]), CHANNELS, sick[chosen].astype(np.int64), static, ids)


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each .psv in a zip or a folder, in the order of the names."""
    if path.is_dir():
        found = sorted(path.rglob("*.psv"), key=lambda file: file.name)
        yield from ((str(file.relative_to(path)), file.read_bytes()) for file in found)
    else:
        with open_zip(path) as archive:
            found = [m for m in archive.infolist() if m.filename.endswith(".psv") and not m.filename.startswith("__MACOSX")]
            for member in sorted(found, key=lambda member: Path(member.filename).name):
                yield member.filename, archive.read(member)
    if not found:
        raise InputError(f"{path} holds no .psv files; download it again")


def _in_blocks(texts: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    while block := list(islice(texts, AT_ONCE)):
        yield block


def _block(path: Path, texts: list[tuple[str, bytes]], ids: list[np.ndarray]) -> Arrays:
    """What some records hold, end to end; their names join `ids`."""
    ids.append(np.array([Path(name).stem for name, _ in texts]))
    tables = read_tables([(f"{path}/{name}", text) for name, text in texts], COLUMNS)
    _check(tables)
    cells, first = tables.cells, tables.offsets[:-1]
    return {
        "times": cells[:, HOUR].astype(np.float64),
        "values": cells[:, : len(CHANNELS)],
        "label": cells[:, LABEL].astype(np.int8),
        "static": cells[first, len(CHANNELS) : HOUR],
        "lengths": np.diff(tables.offsets),
    }


def _check(tables: Table) -> None:
    """Hours are whole and go up, labels are 0 or 1. Outliers in the measurements are real and stay."""
    hour, label, problems = tables.cells[:, HOUR], tables.cells[:, LABEL], Problems()
    first = np.zeros(len(hour), bool)
    first[tables.offsets[:-1]] = True
    wrong = ~(hour >= 1) | (hour != np.round(hour)) | (~first & (np.diff(hour, prepend=0) <= 0))
    for row in np.flatnonzero(wrong)[:20].tolist():
        problems.add(f"{tables.where(row)}: ICULOS is {hour[row]:g}; it must be whole, at least 1, and go up from row to row")
    for row in np.flatnonzero((label != 0) & (label != 1))[:20].tolist():
        problems.add(f"{tables.where(row)}: SepsisLabel is {label[row]:g}; it must be 0 or 1")
    problems.raise_if_any("cannot read the Sepsis records")


SOURCE = register_dataset(
    Source(
        name="sepsis",
        task="classification",
        options=Options,
        files=files,
        downloads=tuple(Download(f"{ADDRESS}/{name}.zip", Path(FOLDER, f"{name}.zip")) for name in SETS),
        read=read,
        about=About(
            title="PhysioNet / CinC Challenge 2019, early sepsis in intensive care",
            licence="Creative Commons Attribution 4.0, as printed on its PhysioNet page; read it there",
            citation="Reyna et al., Early Prediction of Sepsis From Clinical Data: The PhysioNet/Computing in Cardiology "
            "Challenge 2019, Critical Care Medicine 48(2), 2020; Goldberger et al., PhysioBank, PhysioToolkit, and PhysioNet, "
            "2000",
            page="https://physionet.org/content/challenge-2019/1.0.0/",
            figures=(
                PublishedNumber("patients with more than two rows in 72 hours", 40_333, len),
                PublishedNumber("of them with sepsis", 2_188, lambda series: int(np.asarray(series.target).sum())),
                PublishedNumber("channels", 34, lambda series: len(series.channels)),
                PublishedNumber("last hour", 72, lambda series: int(series.times.max())),
                PublishedNumber(
                    "patients in the paper",
                    40_355,
                    len,
                    "more than the 40,336 files there are; three of them start after hour 72",
                ),
            ),
        ),
    )
)
