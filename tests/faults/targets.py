"""What bytes are turned into, what leapcde makes of it, and an oracle that shares no code with it.

Each target takes bytes and says whether they were accepted. It raises what is no LeapError, and Wrong if something was accepted
and is not what was given.
"""

from __future__ import annotations

import csv
import io
import json
import os
import struct
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
PLACE = Path(tempfile.mkdtemp(prefix="leapcde-fuzz-"))
Target = Callable[[bytes], bool]  # whether the input was accepted


class Wrong(AssertionError):
    """Something was accepted and is not what was given."""


def accepted(call: Callable[..., Any], *args: Any, **how: Any) -> Any:
    """What a call returns; None if it refused with a LeapError."""
    from leapcde.errors import LeapError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args, **how)
        except LeapError as error:
            if not str(error).strip() or len(str(error)) > 20_000:
                raise Wrong(f"a message of {len(str(error))} characters") from error
            return None


# Tables ---------------------------------------------------------------------------------------------------------------

TABLE = b"id,time,a,b,y\n007,0,1.5,,x\n007,1,-2,3e2,x\n8,0.5,4,5,z\n8,2,,6,z\n"


def table(data: bytes) -> bool:
    """A text file. Accepted: as many samples and rows as the csv module finds, and each number where it was written."""
    from leapcde.data.columns import Columns
    from leapcde.data.table_file import read

    path = PLACE / "a.csv"
    path.write_bytes(data)
    found = accepted(read, path, Columns("id", "time", "y"))
    if found is None:
        return False
    rows = _rows(data)
    if rows is None or not {"a"} <= set(found.channels) or "a" not in rows[0]:
        return True
    head, *body = rows
    column = {name: [row[i] for row in body] for i, name in enumerate(head)}
    if len(set(column["id"])) != len(found):
        raise Wrong(f"{len(found)} samples of {sorted(set(column['id']))}")
    plain = [_number(cell) for cell in column["a"]]
    if None not in plain:
        expected = sorted(x for x in plain if x == x)
        seen = found.values[:, found.channels.index("a")]
        if not np.array_equal(np.sort(seen[~np.isnan(seen)]), expected):
            raise Wrong(f"values {seen} of {column['a']}")
    return True


def _rows(data: bytes) -> list[list[str]] | None:
    """By Python's own reader; None where the file has no commas or is otherwise not for it."""
    text = data.decode("utf-8-sig")
    if any(mark in text for mark in ";\t|\"'\r"):
        return None
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) > 1]
    width = len(rows[0])
    return [row[:width] for row in rows] if all(len(row) >= width for row in rows) else None


def _number(cell: str) -> float | None:
    """What every reader takes for the same number; None if it is none of these."""
    cell = cell.strip()
    if cell == "":
        return float("nan")
    try:
        return float(cell) if set(cell) <= set("0123456789.-+eE") else None
    except ValueError:
        return None


# Arrays ---------------------------------------------------------------------------------------------------------------


def array(data: bytes) -> bool:
    """An array of any kind and shape. Accepted: every value is where it was, a mask is NaN, and times rise."""
    from leapcde import as_series

    kinds = ["<f8", "<f4", "<i8", "?", "<c16", "<M8[s]", "<U2", "O", "<f2", ">f8"]
    head, body = (data + bytes(4))[:4], data[4:]
    kind, shape = kinds[head[0] % len(kinds)], tuple(1 + size % 4 for size in head[1 : 2 + head[3] % 3])
    count = int(np.prod(shape))
    numbers = np.resize(np.frombuffer(body[: len(body) // 8 * 8] or bytes(8), "<f8"), count)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given: Any = numbers.astype("<i8").astype(kind) if "M8" in kind else numbers.astype(kind)
    given = given.reshape(shape)
    if head[3] & 64:
        given = np.ma.masked_array(given, np.resize([bit == "1" for bit in f"{head[2]:08b}"], shape))
    found = accepted(as_series, given)
    if found is None:
        return False
    if np.any(np.diff(found.times)[np.diff(found.owner) == 0] <= 0):
        raise Wrong("times that do not rise")
    if kind in ("<f8", "<f4", ">f8"):
        expected = np.ma.filled(np.ma.asarray(given).astype(float), np.nan)
        if np.isinf(expected).any() or not _same_values(found.values, expected):
            raise Wrong(f"{found.values} of {expected}")
    return True


def _same_values(found: np.ndarray, given: np.ndarray) -> bool:
    a, b = found[~np.isnan(found)].astype(float), given[~np.isnan(given)]
    return len(a) == len(b) and np.array_equal(np.sort(a), np.sort(b))


# Streams --------------------------------------------------------------------------------------------------------------


@cache
def fitted() -> Any:
    from leapcde import LeapClassifier

    X = np.random.default_rng(0).normal(size=(8, 6, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = LeapClassifier("gru-dt", interpolation="hermite", options={"hidden": 2}, epochs=1)
        return made.fit(X, np.arange(8) % 2)


def stream(data: bytes) -> bool:
    """Pushes of any times and values. Refused ones change nothing; the rest gives the answer of `predict` on all of it."""
    opened, kept = fitted().stream(), []
    numbers = struct.unpack(f"<{len(data) // 3 // 8 * 3}d", data[: len(data) // 24 * 24])
    for t, *x in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True):
        before = len(opened)
        if accepted(opened.push, t, x if data[0] & 1 else np.array(x)) is not None:
            kept.append((t, x))
        if len(opened) != len(kept) or len(opened) - before not in (0, 1):
            raise Wrong("a push that was refused was kept")
    if kept and data[-1] % 8 == 0:
        times, values = np.array([t for t, _ in kept]), np.array([x for _, x in kept])
        whole = accepted(fitted().predict_proba, [(times, values)])
        answer = accepted(opened.predict_proba)
        if whole is not None and answer is not None and not np.allclose(whole[0], answer, atol=1e-3):
            raise Wrong(f"{answer} instead of {whole[0]}")
    return bool(kept)


# Archives -------------------------------------------------------------------------------------------------------------


def archive(data: bytes) -> bool:
    """A zip or tar. Accepted: all that appears lies in the new folder, and no link is among it."""
    from leapcde.datasets._io.archive import extract

    home = PLACE / "archives"
    home.mkdir(exist_ok=True)
    path, target = home / ("a.zip" if data[:2] == b"PK" else "a.tar"), home / "out"
    path.write_bytes(data)
    count = accepted(extract, path, target, largest=2**20)
    beside = {one.name for one in home.iterdir()} - {"a.zip", "a.tar", "out"}
    inside = list(target.rglob("*")) if target.exists() else []
    _remove(target)
    if beside or any(one.is_symlink() for one in inside):
        raise Wrong(f"outside: {beside}")
    return count is not None


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/b.txt", "hello" * 20)
        made.writestr("c.txt", "x")
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        for name in ("a/b.txt", "c.txt"):
            about = tarfile.TarInfo(name)
            about.size = 5
            made.addfile(about, io.BytesIO(b"hello"))
    return file.getvalue()


# Model files ----------------------------------------------------------------------------------------------------------


@cache
def model_file() -> bytes:
    path = PLACE / "good.safetensors"
    fitted().save(path)
    return path.read_bytes()


def _content(path: Path) -> Any:
    from leapcde.files import load_file

    arrays, about = load_file(path, "model")
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}, about


def model(data: bytes) -> bool:
    """A saved model. Accepted: it holds what was saved, to the last bit."""
    path = PLACE / "m.safetensors"
    path.write_bytes(data)
    found = accepted(_content, path)
    if found is not None and found != _saved():
        raise Wrong("another content under the same digest")
    return found is not None


@cache
def _saved() -> Any:
    model_file()
    return _content(PLACE / "good.safetensors")


def header(data: bytes) -> bool:
    """The header of a model, rewritten by somebody who can write its digest too. Accepted: it answers, in numbers."""
    import leapcde
    from leapcde.files import digest, load_file

    arrays, _ = load_file(_good(), "model")
    try:
        about = json.loads(data)
        about = {**about, "version": 2, "kind": "model"}
        about["digest"] = digest(arrays, {key: value for key, value in about.items() if key != "digest"})
    except (ValueError, TypeError, RecursionError):
        return False
    from safetensors.numpy import save_file

    path = PLACE / "h.safetensors"
    save_file(arrays, path, {"leapcde": json.dumps(about)})
    loaded = accepted(leapcde.load, path)
    answer = None if loaded is None else accepted(loaded.predict, [([0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]])])
    if answer is not None and len(answer) != 1:
        raise Wrong(f"{answer}")
    return answer is not None


def _good() -> Path:
    model_file()
    return PLACE / "good.safetensors"


def _header() -> bytes:
    from leapcde.files import load_file

    return json.dumps(load_file(_good(), "model")[1]).encode()


# Settings and commands ------------------------------------------------------------------------------------------------


def settings(data: bytes) -> bool:
    """Files of a run and a sweep that hold JSON or TOML: config, journal, record, experiment; and a .ts file."""
    from leapcde.datasets._io.ts_file import parse_ts
    from leapcde.estimators.run import open_run
    from leapcde.estimators.tune import _mend
    from leapcde_paper.run.experiment import from_toml
    from leapcde_paper.run.records import read

    folder = PLACE / "run"
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(model_file())
    (folder / "config.json").write_bytes(data)
    found = [accepted(open_run, folder)]
    for name, call in (("study.journal", _mend), ("record.json", read)):
        (folder / name).write_bytes(data)
        accepted(call, folder / name)
    found += [accepted(parse_ts, data), accepted(from_toml, data.decode("utf-8", "replace"))]
    return any(one is not None for one in found)


CONFIG = {"data": "a.csv", "drop": 0.0, "columns": {"id": "id", "time": "t", "target": "y"}, "dataset_options": {}}
CONFIG |= {"model": "gru", "options": {}, "recipe": {}, "train": {}}
TS = b"@problemName a\n@univariate true\n@classLabel true x z\n@data\n1,2,3:x\n4,5,?:z\n"
WORDS = (
    "fit train tune predict evaluate explain export models doctor data list show fetch reproduce report rerun collect compare"
)
WORDS += " --id id --time t --target y --model gru leap+ auto --epochs 1 0 -1 --out x --json --quiet --horizon 3 nan a.csv"
WORDS += " --split time group:id --known --weights --coverage 0.9 --sample --format onnx --length 7 --final --ensemble 0"
WORDS += (
    " --time-limit 5m 0s --seed 99999999999999999999 --option hidden=2 hidden= -o =1 --data-dir --window 0 --stride -1 --static"
)


def arguments(data: bytes) -> bool:
    """Any command with any arguments, in an empty folder. It ends with 0 or 2 and without a traceback."""
    from leapcde.cli.main import main

    words = WORDS.split()
    args = [words[b % len(words)] if b < 200 else data[i : i + 5].decode("latin-1") for i, b in enumerate(data[:8])]
    if {"doctor", "fetch", "demo", "reproduce"} & set(args) or "a.csv" in args:  # which take minutes, or would train
        args = [*args, "--help"]
    out = io.StringIO()
    before, sys.argv = sys.argv, ["leapcde", *args]
    os.chdir(PLACE / "empty")
    try:
        with redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main()
        code: Any = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    if code not in (0, 2) or "Traceback" in out.getvalue():
        raise Wrong(f"{args}: exit code {code}, {out.getvalue()[-500:]}")
    return code == 0


TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]]]] = {
    "table": (table, lambda: [TABLE, TABLE.replace(b",", b";"), TABLE.replace(b"\n", b",\n")]),
    "array": (array, lambda: [bytes([0, 2, 3, 2]) + struct.pack("<9d", *range(9)), bytes([1, 3, 1, 65]) + bytes(64)]),
    "stream": (stream, lambda: [struct.pack("<9d", 0, 1, 2, 1, 3, 4, 2, 5, 6) + b"\0"]),
    "archive": (archive, lambda: [_zip(), _tar()]),
    "model": (model, lambda: [model_file()]),
    "header": (header, lambda: [_header()]),
    "settings": (settings, lambda: [json.dumps(CONFIG).encode(), TS, b'name = "x"\n[[setting]]\n']),
    "arguments": (arguments, lambda: [bytes(range(i, i + 6)) for i in range(0, 90, 6)]),
}
