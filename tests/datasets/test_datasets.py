"""The registry: every data set by one door, its options recorded, its splits without leaks, its prepared files sound."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from leapcde.cli import main as cli
from leapcde.cli.source import load_data
from leapcde.data.dataset import DataRequest
from leapcde.data.read import as_series
from leapcde.data.scale import Scaler
from leapcde.data.series import Series
from leapcde.datasets import describe, hopper, mujoco
from leapcde.datasets import registry as datasets
from leapcde.errors import InputError, LeapWarning
from leapcde.paths.batch import Recipe
from leapcde.training.preprocess import Preprocessor
from leapcde_paper.rows import OTHER_WORDS

HEAD = "@dimensions 2\n@classLabel true a b\n@data\n"
REAL = ("character-trajectories", "speech-commands", "sepsis", "mujoco-as-run", "hopper")


def cases(count: int, first: int = 0) -> str:
    return "".join(f"{i},{i + 1},{i}:{i * i},1,2:{'ab'[i % 2]}\n" for i in range(first, first + count))


def toy(folder: Path, head: str = HEAD) -> Path:
    home = folder / "uea"
    home.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(home / "Toy.zip", "w") as archive:
        archive.writestr("Toy_TRAIN.ts", head + cases(40))
        archive.writestr("Toy_TEST.ts", head + cases(20, 40))
    return folder


@pytest.fixture(scope="module")
def loaded() -> dict:
    return {}


@pytest.fixture(params=REAL)
def real(request, data_dir, loaded):
    if request.param not in loaded:
        words = OTHER_WORDS if request.param == "speech-commands" else {}  # the smaller file
        loaded[request.param] = datasets.load(request.param, data_dir=data_dir, drop_rate=0.3, **words)
    return loaded[request.param]


# No leaks


def test_no_sample_is_in_two_splits(real):
    by = [set(zip(*_identity(real, part), strict=True)) for part in real.parts.values()]
    shared = [a & b for i, a in enumerate(by) for b in by[i + 1 :]]
    # The supplied coefficients hold one clip twice, under one speaker and word.
    assert sum(map(len, shared)) <= (1 if real.name == "speech-commands" else 0)
    assert all(len(part) > 0 for part in real.parts.values())


def _identity(data, part):
    """What tells samples apart: the sequence for windows, else the content."""
    if data.task == "forecasting":
        return (part.ids.tolist(),)
    return ([t.tobytes() + x.tobytes() for t, x in (part.sample(i) for i in range(len(part)))],)


def test_splits_are_seventy_fifteen_fifteen_and_stratified(real):
    sizes = np.array([len(part) for part in real.parts.values()])
    np.testing.assert_allclose(sizes / sizes.sum(), [0.7, 0.15, 0.15], atol=0.002)
    if real.task == "classification":
        share = [np.mean(part.target == real.train.target[0]) for part in real.parts.values()]
        np.testing.assert_allclose(share[1:], share[0], atol=0.006)


def test_scaling_is_learned_from_training_data_only(real):
    """Against scikit-learn on the training part; other validation and test data change nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)  # channels that some patients never have
        preprocessor = Preprocessor.learn(real.train, real.task, Recipe())
    oracle = StandardScaler().fit(real.train.values.astype(np.float64))
    np.testing.assert_allclose(preprocessor.scaler.mean, oracle.mean_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(preprocessor.scaler.std, oracle.scale_, rtol=1e-6)


def test_drops_are_exact_and_fixed(loaded, data_dir):
    whole = datasets.load("mujoco-as-run", data_dir=data_dir)
    for rate, left in ((0.3, 35), (0.5, 25), (0.7, 15)):
        data = datasets.load("mujoco-as-run", data_dir=data_dir, drop_rate=rate)
        seen = np.add.reduceat(~np.isnan(data.test.values).all(1), data.test.offsets[:-1])
        assert (seen == left).all()
        np.testing.assert_array_equal(data.test.target, whole.test.target)  # what is to be forecast stays whole
    again = datasets.load("mujoco-as-run", data_dir=data_dir, drop_rate=0.7)
    np.testing.assert_array_equal(again.train.values, data.train.values)
    single = datasets.load("mujoco-as-run", data_dir=data_dir, drop_rate=0.5, drop_what="values")
    seen = np.add.reduceat(~np.isnan(single.train.values), single.train.offsets[:-1], axis=0)
    assert (seen == 25).all() and single.options["drop_what"] == "values"


# MuJoCo


def test_as_run_has_the_windows_of_the_published_test(data_dir):
    data = datasets.load("mujoco-as-run", data_dir=data_dir)
    assert [len(part) for part in data.parts.values()] == [2800, 600, 600]
    array = np.load(Path(data_dir) / mujoco.AS_RUN)
    for part, first in ((data.train, 0), (data.validation, 70), (data.test, 85)):
        np.testing.assert_array_equal(part.sample(0)[1], array[first, :50])
        np.testing.assert_array_equal(part.sample(39)[1], array[first, 39:89])
        np.testing.assert_array_equal(part.target[39], array[first, 89:99])
        assert part.ids[0] == first
    last = np.mean((data.test.target - np.stack([data.test.sample(i)[1][-1:] for i in range(600)])) ** 2)
    assert round(float(last), 5) == 0.00158  # the last value repeated, in the array's own units


def test_windows_are_options(tmp_path):
    hopper.write(tmp_path / mujoco.MADE, hopper.bundled()[:20])
    data = datasets.load("mujoco", data_dir=tmp_path, window=30, horizon=5, stride=20, sequences=10)
    assert data.train.target.shape == (7 * 4, 5, 14) and set(data.train.lengths) == {30}
    assert {data.options[key] for key in ("window", "horizon", "stride", "sequences")} == {30, 5, 20, 10}
    with pytest.raises(InputError, match="sequences=21: there are only 20"):
        datasets.load("mujoco", data_dir=tmp_path, sequences=21)
    (tmp_path / mujoco.MADE).unlink()
    with pytest.raises(InputError, match="data make mujoco"):
        datasets.load("mujoco", data_dir=tmp_path)
    hopper.write(tmp_path / mujoco.MADE.with_suffix(".npz"), hopper.bundled()[:20])
    assert datasets.load("mujoco", data_dir=tmp_path).options["sequences"] == 20


def test_check_simulates_again(tmp_path):
    pytest.importorskip("dm_control")
    array = hopper.simulate(60)
    hopper.write(tmp_path / mujoco.MADE, array)
    found = describe.check("mujoco", data_dir=tmp_path)
    assert [row.ok for row in found] == [False, True, True, True, True, True]  # 60 are not 10,000
    array[3, 7, 2] += 1e-6
    hopper.write(tmp_path / mujoco.MADE, array)
    assert describe.check("mujoco", data_dir=tmp_path)[-1].ok is None


# Character Trajectories


def test_padded_letters_repeat_their_last_value(data_dir):
    own = datasets.load("character-trajectories", data_dir=data_dir)
    padded = datasets.load("character-trajectories", data_dir=data_dir, lengths="padded")
    assert set(padded.train.lengths) == {182} and padded.train.target.tolist() == own.train.target.tolist()
    values, longer = own.test.sample(5)[1], padded.test.sample(5)[1]
    np.testing.assert_array_equal(longer[: len(values)], values)
    assert (longer[len(values) :] == values[-1]).all()


# .ts files


def test_uea_zip_folder_and_single_file(tmp_path):
    data = datasets.load("uea:Toy", data_dir=toy(tmp_path))
    assert data.task == "classification" and [len(part) for part in data.parts.values()] == [42, 9, 9]
    kept = datasets.load("uea:Toy", data_dir=tmp_path, split="archive")
    assert [len(part) for part in kept.parts.values()] == [34, 6, 20] and kept.options["split"] == "the archive's own"
    assert kept.test.values[0, 0] == 40 and all(str(name).startswith("train") for name in kept.validation.ids)
    with zipfile.ZipFile(tmp_path / "uea" / "Toy.zip") as archive:
        archive.extractall(tmp_path / "uea" / "Toy")
    (tmp_path / "uea" / "Toy.zip").unlink()
    again = datasets.load("uea:Toy", data_dir=tmp_path)
    np.testing.assert_array_equal(again.train.values, data.train.values)
    one = datasets.load(str(tmp_path / "uea" / "Toy" / "Toy_TRAIN.ts"))
    assert sum(len(part) for part in one.parts.values()) == 40


def test_numbers_to_predict_make_a_regression(tmp_path):
    path = tmp_path / "heat.ts"
    path.write_text("@targetLabel true\n@data\n" + "".join(f"{i},2,3:{i / 7}\n" for i in range(20)))
    data = datasets.load(str(path))
    assert data.task == "regression" and data.train.target.dtype.kind == "f"
    path.write_text("@targetLabel true\n@data\n1,2,3:warm\n")
    with pytest.raises(InputError, match=r"heat\.ts, line 3: target 'warm' is not a finite number"):
        datasets.load(str(path))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (HEAD.replace("2", "3") + cases(9), HEAD + cases(9), r"Toy_TRAIN\.ts, line 4: 2 dimensions, expected 3"),
        (HEAD + cases(9), "@dimensions 1\n@classLabel true a b\n@data\n1,2:a\n", "1 and 2 dimensions"),
        (HEAD + cases(9), None, "has no Toy_TEST.ts"),
        ("@classLabel false\n@data\n1,2:3,4\n", HEAD + cases(9), "no labels"),
    ],
)
def test_broken_ts_files(tmp_path, train, test, message):
    (tmp_path / "uea").mkdir()
    with zipfile.ZipFile(tmp_path / "uea" / "Toy.zip", "w") as archive:
        archive.writestr("Toy_TRAIN.ts", train)
        if test is not None:
            archive.writestr("Toy_TEST.ts", test)
    with pytest.raises(InputError, match=message):
        datasets.load("uea:Toy", data_dir=tmp_path)


def test_problems_that_aeon_brings_along_need_no_file(tmp_path):
    pytest.importorskip("aeon")
    data = datasets.load("uea:JapaneseVowels", data_dir=tmp_path, drop_rate=0.3)
    assert (len(data.train), len(data.validation), len(data.test)) == (448, 96, 96)
    assert data.train.values.shape[1] == 12 and len({*np.asarray(data.train.target)}) == 9
    assert len({*data.train.lengths}) > 5  # of uneven lengths


@pytest.mark.parametrize("name", ["uea:", "uea:../Toy", "uea:a/b"])
def test_names_that_are_no_problem_of_the_archive(name):
    with pytest.raises(InputError, match="write uea:NAME"):
        datasets.load(name)


def test_zip_with_a_name_that_points_outside(tmp_path):
    (tmp_path / "uea").mkdir()
    with zipfile.ZipFile(tmp_path / "uea" / "Toy.zip", "w") as archive:
        archive.writestr("../Toy_TRAIN.ts", HEAD + cases(9))
    with pytest.raises(InputError, match=r"Toy\.zip: the name '\.\./Toy_TRAIN\.ts' points outside"):
        datasets.load("uea:Toy", data_dir=tmp_path)


# Options


def test_wrong_options_are_listed_together():
    with pytest.raises(InputError) as caught:
        datasets.load("sepsis", hours=0, start="birth", statics="yes", colour="red")
    assert len(caught.value.problems) == 4 and "one of admission, record" in str(caught.value)
    assert "hours, start, statics" in str(caught.value)


@pytest.mark.parametrize("drop", [{"drop_rate": 1.0}, {"drop_rate": -0.1}, {"drop_rate": "half"}, {"drop_what": "all"}])
def test_wrong_drops(drop):
    with pytest.raises(InputError, match="drop"):
        datasets.load("hopper", **drop)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(
        InputError, match=r"no data set 'walker'; choose one of: .*hopper, .*sepsis, .*uea:NAME, the path of a \.ts"
    ):
        datasets.load("walker")


def test_runs_record_options_and_old_records_still_load(tmp_path):
    config = DataRequest("hopper", dataset_options={"horizon": 5, "sequences": 20})
    assert DataRequest.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert load_data(config).options["horizon"] == 5
    old = config.to_json()
    del old["dataset_options"]
    assert DataRequest.from_json(old).dataset_options == {}


# Prepared files (more of them in test_cache.py)


def test_switched_off_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAPCDE_CACHE", "off")
    datasets.load("uea:Toy", data_dir=toy(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["uea", "Toy.zip"]


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LEAPCDE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(LeapWarning, match="prepared anew each time"):
        assert len(datasets.load("uea:Toy", data_dir=toy(tmp_path)).train) == 42


# What is shown


def test_check_confirms_the_published_figures(data_dir):
    for name in ("character-trajectories", "sepsis", "mujoco-as-run"):
        found = describe.check(name, data_dir=data_dir)
        assert all(row.ok is not False for row in found) and sum(row.ok is True for row in found) >= 5


@pytest.mark.slow  # 500 wavs, whose coefficients are computed
def test_check_compares_wavs_with_their_coefficients(data_dir):
    speech = {row.what: row for row in describe.check("speech-commands", data_dir=data_dir, words="all")}
    assert (
        speech["wavs give the supplied coefficients"].ok and "143 clips" in speech["wavs give the supplied coefficients"].detail
    )


def test_check_finds_what_is_wrong(tmp_path):
    found = describe.check("uea:Toy", data_dir=tmp_path)
    assert [row.ok for row in found] == [False] and "no Toy.zip" in found[0].detail
    series = as_series(np.arange(30.0).reshape(10, 3), target=np.arange(10) % 2)
    leaky = datasets.Dataset("x", "classification", series, series.take([1]), series.take([2, 3]))
    assert [row.ok for row in describe._leaks(leaky)] == [None]
    windows = as_series(np.ones((4, 3, 1)), target=np.ones((4, 2, 1)))
    windows = Series(windows.times, windows.values, windows.offsets, ("a",), windows.target, ids=np.arange(4))
    assert [row.ok for row in describe._leaks(datasets.Dataset("x", "forecasting", windows, windows, windows))] == [False]


def test_describe_counts_by_hand(tmp_path):
    found = describe.describe("uea:Toy", data_dir=toy(tmp_path))
    assert found["samples"] == 60 and found["length"] == {"min": 3, "median": 3.0, "max": 3}
    assert found["classes"] == {"a": 30, "b": 30} and found["splits"] == {"train": 42, "validation": 9, "test": 9}
    first = found["channels"][0]
    assert (first["min"], first["max"], first["missing"]) == (0, 60, 0)
    np.testing.assert_allclose(first["mean"], np.mean([[i, i + 1, i] for i in range(60)]))


def run(*words):
    return CliRunner().invoke(cli.app, ["data", *map(str, words)], catch_exceptions=True)


def test_commands(tmp_path, monkeypatch):
    home = toy(tmp_path / "data")
    listed = json.loads(run("list", "--data-dir", home, "--json").stdout)
    assert {row["name"] for row in listed["datasets"]} == set(datasets.DATASETS)
    assert next(row for row in listed["datasets"] if row["name"] == "hopper")["options"]["window"] == 50
    shown = run("describe", "uea:Toy", "--data-dir", home, "--plot", tmp_path / "toy.png")
    assert shown.exit_code == 0 and "60 samples" in shown.stdout and (tmp_path / "toy.png").read_bytes()[:4] == b"\x89PNG"
    checked = run("check", "uea:Toy", "--data-dir", home, "--json")
    assert json.loads(checked.stdout)["ok"] is True
    assert run("check", "sepsis", "--data-dir", home).exit_code == 1
    bad = run("describe", "uea:Toy", "--data-dir", home, "-d", "split=other")
    assert isinstance(bad.exception, InputError) and "one of stratified, archive" in str(bad.exception)
    assert isinstance(run("describe", "uea:Toy", "--data-dir", home, "--plot", "a.jpg").exception, InputError)
    assert isinstance(run("fetch", "hopper", "--data-dir", home).exception, InputError)


def test_state_looks_and_does_not_touch(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAPCDE_CACHE", str(tmp_path / "cache"))
    home = toy(tmp_path / "data")
    assert datasets.state("uea:Toy", home) == "60 samples" and not (tmp_path / "cache").exists()
    assert datasets.state("sepsis", home).startswith("not found (PhysioNet Sepsis 2019 is not there")


# Memory


def test_scaling_in_blocks_changes_no_bit(monkeypatch):
    series = as_series(np.random.default_rng(0).normal(3, 5, size=(7, 11, 2)).astype(np.float32))
    scaler = Scaler.fit(series)
    whole = scaler.scale(series.values)
    monkeypatch.setattr("leapcde.data.scale.BLOCK", 4)
    assert scaler.scale(series.values).tobytes() == whole.tobytes()
