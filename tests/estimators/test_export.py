"""Models as files that need no leapcde: what they answer is what `predict` answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.request
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export as jax_export
from jax import lax
from sklearn.exceptions import NotFittedError

import leapcde
from command import leapcde as run_command
from conftest import ROOT
from leapcde import LeapClassifier, LeapForecaster, LeapImputer, LeapRegressor, as_series
from leapcde.errors import LeapError
from leapcde.estimators.export.files import export, onnx_milliseconds
from leapcde.estimators.export.function import exported
from leapcde.estimators.export.simplify import simplified
from leapcde.paths.apart import apart

ROWS, CHANNELS = 8, 2
OPTIONS = {
    "leap+": {"hidden": 4, "depth": 1, "path_width": 4},
    "leap": {"hidden": 4, "width": 4, "depth": 1},
    "ncde": {"hidden": 4, "width": 4, "depth": 1},
    "gru-d": {"hidden": 4},
}
PAGE = (ROOT / "docs" / "guide" / "export.md").read_text()


def ragged(samples: int = 12):
    """Pairs with holes, empty rows and other lengths, the same as arrays filled up with NaN, and labels."""
    rng = np.random.default_rng(0)
    times = np.full((samples, ROWS), np.nan, np.float32)
    values = np.full((samples, ROWS, CHANNELS), np.nan, np.float32)
    pairs = []
    for i in range(samples):
        n = ROWS - i % 3
        t, x = np.sort(rng.uniform(0, 9, n)).astype(np.float32), rng.normal(size=(n, CHANNELS)).cumsum(0).astype(np.float32)
        x[1:][rng.random((n - 1, CHANNELS)) < 0.3] = np.nan
        x[3], x[2] = np.nan, 1.0
        times[i, :n], values[i, :n] = t, x
        pairs.append((t, x))
    pairs[0][1][-1] = values[0, -1] = np.nan  # watched until then, and nothing seen
    return pairs, times, values, np.arange(samples) % 3


@pytest.fixture(scope="module")
def trained():
    pairs, _, _, y = ragged()
    make = lambda name: LeapClassifier(name, options=OPTIONS[name], epochs=1, validation=0.0)
    return {name: make(name).fit(pairs, y) for name in ("gru-d", "leap+")}


@pytest.fixture(scope="module")
def files(trained, tmp_path_factory):
    """visits.onnx and visits.stablehlo, as the page has them: of 48 rows."""
    folder = tmp_path_factory.mktemp("export")
    for kind in ("onnx", "stablehlo"):
        export(trained["gru-d"], folder / f"visits.{kind}", format=kind, length=48)
    return folder


def wide(times, values, rows: int = 48):
    more = ((0, 0), (0, rows - ROWS))
    return np.pad(times, more, constant_values=np.nan), np.pad(values, (*more, (0, 0)), constant_values=np.nan)


@pytest.mark.parametrize("name", ["gru-d", "leap+"])
def test_the_function_is_predict_proba(trained, name):
    pairs, times, values, _ = ragged()
    found = jax.jit(exported(trained[name].fitted_))(times, values)
    np.testing.assert_allclose(found, trained[name].predict_proba(pairs), atol=1e-5)


def test_regression_with_statics_and_forecasts_have_their_units():
    pairs, times, values, _ = ragged()
    rng = np.random.default_rng(1)
    static = rng.normal(10, 3, (len(pairs), 2)).astype(np.float32)
    static[2, 1] = np.nan
    series = as_series(pairs, static=static)
    regressor = LeapRegressor("gru-d", options={"hidden": 4}, epochs=1, validation=0.0).fit(
        series, 100 + 50 * rng.random(len(pairs))
    )
    found = jax.jit(exported(regressor.fitted_))(times, values, static)
    np.testing.assert_allclose(found, regressor.predict(series), rtol=1e-5)
    whole = (100 + 20 * rng.normal(size=(12, ROWS, CHANNELS))).astype(np.float32)
    forecaster = LeapForecaster("gru-d", horizon=2, window=5, options={"hidden": 4}, epochs=1).fit(whole)
    clock = np.tile(np.arange(5.0, dtype=np.float32), (12, 1))
    found = jax.jit(exported(forecaster.fitted_))(clock, whole[:, :5])
    np.testing.assert_allclose(found, forecaster.predict(whole[:, :5]), rtol=1e-5)


@pytest.mark.parametrize("rows", [[0], [5, 1], list(range(12))])
def test_files_answer_as_predict_does_for_any_number_of_samples(files, trained, rows):
    onnxruntime = pytest.importorskip("onnxruntime")
    pairs, times, values, _ = ragged()
    want = trained["gru-d"].predict_proba([pairs[i] for i in rows])
    times, values = wide(times[rows], values[rows])
    function = jax_export.deserialize(bytearray((files / "visits.stablehlo").read_bytes()))
    np.testing.assert_allclose(function.call(times, values), want, atol=1e-5)
    session = onnxruntime.InferenceSession(files / "visits.onnx")
    np.testing.assert_allclose(session.run(None, {"times": times, "values": values})[0], want, atol=1e-5)
    about = json.loads((files / "visits.onnx.json").read_text())
    assert about["inputs"] == {"times": ["samples", 48], "values": ["samples", 48, 2]}
    assert about["classes"] == [0, 1, 2] and about["channels"] == ["x0", "x1"] and "probabilities" in about["answer"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["onnx", "stablehlo"])
@pytest.mark.parametrize("name", OPTIONS)
def test_all_four_models(name, kind, tmp_path):
    pairs, times, values, y = ragged()
    one = LeapClassifier(name, options=OPTIONS[name], epochs=1, validation=0.0).fit(pairs, y)
    want, path = one.predict_proba(pairs), tmp_path / "model"
    export(one, path, format=kind, length=ROWS)
    if kind == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(path)
        found = session.run(None, {"times": times, "values": values})[0]
    else:
        found = jax_export.deserialize(bytearray(path.read_bytes())).call(times, values)
    np.testing.assert_allclose(found, want, atol=1e-5)


def blocks() -> dict[str, str]:
    return dict(re.findall(r"```python\n# (\w+)\n(.*?)```", PAGE, re.S))


@pytest.mark.parametrize("name", ["onnx", "stablehlo"])
def test_the_pages_examples_run_without_leapcde(files, name, trained):
    pytest.importorskip("onnxruntime")
    code = "import sys; sys.modules['leapcde'] = None\n" + blocks()[name]
    done = subprocess.run([sys.executable, "-c", code], cwd=files, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert len(re.findall(r"\d: ", done.stdout)) == 3 and "onnxruntime" not in done.stderr
    x = np.full((3, 2), np.nan)
    x[:, 0] = [36.6, 37.2, 38.4]
    with warnings.catch_warnings():  # a channel never observed is told once a model, here or in another test
        warnings.simplefilter("ignore", leapcde.LeapWarning)
        want = trained["gru-d"].predict_proba([(np.array([0.0, 1.5, 4.0]), x)])[0]
    found = [float(number) for number in re.findall(r"(?:float32\()?(\d\.\d+(?:e-\d+)?)\)?[,}]", done.stdout)]
    np.testing.assert_allclose(found, want, atol=1e-4)


def test_the_pages_service_answers(files, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(files)
    code = blocks()["service"].replace("8000", "0").replace("server.serve_forever()", "")
    scope: dict = {}
    exec(code, scope)
    scope["Handler"].log_message = lambda *args: None
    server = scope["server"]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        sent = re.search(r"--data '(.*)'", PAGE)[1].encode()
        with urllib.request.urlopen(f"http://localhost:{server.server_port}", data=sent, timeout=30) as reply:
            found = json.load(reply)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert set(found) == {"0", "1", "2"} and sum(found.values()) == pytest.approx(1.0, abs=1e-5)


def test_the_command_writes_a_file(trained, tmp_path, monkeypatch):
    trained["gru-d"].save(tmp_path / "model.safetensors")
    found = run_command("export", tmp_path, "--format", "stablehlo", "--length", 8, "--json").json
    assert found["file"] == str(tmp_path / "model.stablehlo") and (tmp_path / "model.stablehlo.json").exists()
    _, times, values, _ = ragged()
    answer = jax_export.deserialize(bytearray((tmp_path / "model.stablehlo").read_bytes())).call(times, values)
    assert answer.shape == (12, 3)


def test_mistakes_write_nothing(trained, tmp_path):
    out = tmp_path / "model"
    for settings, words in (({"format": "tflite", "length": 8}, "no format"), ({"format": "onnx", "length": 0}, "length 0")):
        with pytest.raises(LeapError, match=words):
            export(trained["gru-d"], out, **settings)
    with pytest.raises(NotFittedError):
        export(LeapClassifier(), out, format="stablehlo", length=8)
    imputer = LeapImputer()
    imputer.fitted_ = "something"
    with pytest.raises(LeapError, match="LeapImputer cannot be exported"):
        export(imputer, out, format="stablehlo", length=8)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(trained, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "jax2onnx", None)
    with pytest.raises(LeapError, match=r"leapcde\[export\]"):
        export(trained["gru-d"], tmp_path / "model", format="onnx", length=8)
    monkeypatch.setitem(sys.modules, "flatbuffers", None)  # which JAX does not bring
    with pytest.raises(LeapError, match=r"'flatbuffers'.*leapcde\[export\]"):
        export(trained["gru-d"], tmp_path / "model", format="stablehlo", length=8)


def test_rules_keep_the_numbers():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3, 2)))
    index = jnp.array([4, 0, 6])
    for function in (
        lambda x: lax.cummax(x, axis=1, reverse=True) + lax.cummin(x, axis=0),
        lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros((3, 2)), x, reverse=True),
        lambda x: jnp.take_along_axis(x, index[:, None, None], 0),
        lambda x: jnp.moveaxis(x, 0, 1)[:, index],
        lambda x: jax.vmap(lambda row, t: jnp.searchsorted(row, t))(jnp.sort(x[:1, :, 0]), x[:1, :, 1]),
        lambda x: jnp.pad(x, ((2, 0), (0, 1), (0, 0)), constant_values=3.0),
        lambda x: jnp.concatenate([x, jnp.zeros((7, 3, 0))], -1) @ jnp.ones((2, 4)) + jnp.zeros((7, 3, 0)) @ jnp.ones((0, 4)),
        lambda x: jax.nn.silu(x) + jax.jit(jnp.sin)(x),
    ):
        jax.tree.map(np.testing.assert_array_equal, jax.jit(simplified(function))(x), jax.jit(function)(x))
    trace = str(jax.make_jaxpr(simplified(lambda x: lax.cummax(x, axis=0)))(x))
    assert "cummax" not in trace and "reverse=True" not in trace


def test_the_answer_of_several_says_what_to_fit_instead(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 5, 1))
    several = LeapRegressor("gru", options={"hidden": 2}, epochs=1, ensemble=2, calibration=0.0).fit(X, np.arange(12.0))
    with pytest.raises(LeapError, match=r"not the answer of a race .* or of an ensemble\. Fit with model='leap\+'"):
        export(several, tmp_path / "a.stablehlo", format="stablehlo", length=5)
    assert not list(tmp_path.iterdir())


def test_how_long_a_sample_takes_is_measured_and_printed(files, monkeypatch, trained, tmp_path):
    pytest.importorskip("onnxruntime")
    about = json.loads((files / "visits.onnx.json").read_text())
    spent = onnx_milliseconds(files / "visits.onnx", about, runs=3)
    assert spent is not None and 0 < spent < 60_000
    trained["gru-d"].save(tmp_path / "model.safetensors")
    monkeypatch.setattr("leapcde.estimators.export.files._write_onnx", lambda fitted, path, length: path.write_bytes(b""))
    monkeypatch.setattr("leapcde.estimators.export.files.onnx_milliseconds", lambda path, about: 0.5)
    assert "0.5 ms for one sample" in run_command("export", tmp_path, "--length", 8).out
    assert run_command("export", tmp_path, "--length", 8, "--json").json["milliseconds a sample"] == 0.5


def test_what_is_compiled_apart_is_exported_without_its_condition():
    """ONNX's converter knows no conditions; one that may be false stays."""
    x = jnp.arange(3.0)
    plain = jax.make_jaxpr(simplified(lambda x: apart(jnp.exp, x)))(x)
    assert "cond" not in str(plain) and np.allclose(jax.jit(simplified(lambda x: apart(jnp.exp, x)))(x), np.exp(x))
    other = simplified(lambda x: jax.lax.cond(x[0] > 1, jnp.exp, jnp.sin, x))
    assert "cond" in str(jax.make_jaxpr(other)(x)) and np.allclose(other(x), np.sin(x))
