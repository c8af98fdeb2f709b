"""Files of trained models that other programs run: StableHLO through `jax.export`, ONNX through jax2onnx."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from leapcde.errors import InputError, LeapError, choose, need
from leapcde.estimators.export.function import exported
from leapcde.files import atomic, json_text, write_text
from leapcde.training.fitted import FittedModel

FORMATS = ("onnx", "stablehlo")
PLATFORMS = ("cpu", "cuda", "tpu")
ANSWERS = {
    "classification": "probabilities (sample, class)",
    "labels": "probabilities (sample, label)",
    "regression": "numbers (sample,)",
    "forecasting": "values (sample, step, channel)",
    "survival": "survival (sample, time), at the times named",
}


def export(estimator: Any, path: Path | str, *, format: str, length: int) -> dict[str, Any]:
    """Write a trained estimator as a file that needs no leapcde, and what there is to know of it beside it, as PATH.json.

    Parameters
    ----------
    estimator : Estimator
        A trained LeapClassifier, LeapRegressor, LeapSurvival or LeapForecaster.
    path : Path
        Of the file.
    format : str
        "onnx" (for onnxruntime and others; needs `pip install 'leapcde[export]'`) or "stablehlo" (for `jax.export`).
    length : int
        How many rows a sample has in this file; shorter ones are filled up with rows whose time is NaN. The number of
        samples is free.

    Returns
    -------
    dict
        What PATH.json holds: inputs, channels, classes, what the answer is.

    >>> from leapcde import LeapRegressor
    >>> export(LeapRegressor(), "model.bin", format="tflite", length=8)
    Traceback (most recent call last):
    leapcde.errors.InputError: there is no format 'tflite'; choose one of: onnx, stablehlo
    """
    choose("format", format, FORMATS)
    if length < 1:
        raise InputError(f"length {length}: give the number of rows that a sample has, at least 1")
    fitted = getattr(estimator, "fitted_", None)
    if fitted is None and hasattr(estimator, "fit"):
        check_is_fitted(estimator, "fitted_")
    if not isinstance(fitted, FittedModel) or fitted.preprocessor.task not in ANSWERS:
        raise InputError(
            f"{type(estimator).__name__} cannot be exported; a classifier, regressor or forecaster with one model can: "
            "not the answer of a race (model='auto', the default of 'leapcde fit') or of an ensemble. "
            "Fit with model='leap+' (--model leap+), or another name"
        )
    if fitted.preprocessor.spec.each_row:
        raise InputError("a model that answers after each row (target_per='row') cannot be exported yet; stream it")
    if getattr(estimator, "known", None):
        raise InputError("a forecaster with channels that are known ahead cannot be exported; fit one without known=")
    path = Path(path)
    (_write_onnx if format == "onnx" else _write_stablehlo)(fitted, path, length)
    about = described(fitted, format, length)
    write_text(path.with_name(path.name + ".json"), json_text(about, indent=2) + "\n")
    return about


def onnx_milliseconds(path: Path | str, about: dict[str, Any], runs: int = 100) -> float | None:
    """How long onnxruntime takes for one sample at a time, on one thread: the median of so many; None if it is not installed.

    Parameters
    ----------
    path, about : Path, dict
        What `export` wrote, and what it gave back.
    runs : int
        How many times one sample is answered.

    Returns
    -------
    float or None
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    given = {name: np.zeros((1, *shape[1:]), np.float32) for name, shape in about["inputs"].items()}
    given["times"] += np.arange(given["times"].size, dtype=np.float32)
    spent = []
    for _ in range(runs):
        began = time.perf_counter()
        session.run(None, given)
        spent.append(time.perf_counter() - began)
    return 1000 * float(np.median(spent))


def described(fitted: FittedModel, format: str, length: int) -> dict[str, Any]:
    """What a user of the file must know."""
    preprocessor = fitted.preprocessor
    return {
        "format": format,
        "model": fitted.name,
        "task": preprocessor.task,
        "inputs": {name: ["samples", *shape] for name, shape in inputs_of(fitted, length).items()},
        "channels": preprocessor.channels,
        **({"static": preprocessor.static_names} if preprocessor.static_names else {}),
        "classes": preprocessor.target_names if preprocessor.task == "labels" else preprocessor.classes,
        "answer": ANSWERS[preprocessor.task],
        **({} if preprocessor.bins is None else {"times": preprocessor.bins.edges}),
    }


def inputs_of(fitted: FittedModel, length: int) -> dict[str, tuple[int, ...]]:
    """Names of the inputs and their shapes for one sample."""
    spec = fitted.preprocessor.spec
    static = {"static": (spec.static,)} if spec.static else {}
    return {"times": (length,), "values": (length, spec.values), **static}


def _write_stablehlo(fitted: FittedModel, path: Path, length: int) -> None:
    from jax import export as jax_export  # half a second that nobody else needs

    need("flatbuffers", "export")  # in which JAX writes, but which it does not bring
    (samples,) = jax_export.symbolic_shape("samples")
    shapes = [jax.ShapeDtypeStruct((samples, *shape), np.float32) for shape in inputs_of(fitted, length).values()]
    try:
        data = jax_export.export(jax.jit(exported(fitted)), platforms=PLATFORMS)(*shapes).serialize()
    except LeapError:
        raise
    except Exception as error:  # whatever a model is made of that a compiler does not take
        raise _refused(fitted, "stablehlo", error) from error
    with atomic(path) as temporary:
        temporary.write_bytes(data)


def _write_onnx(fitted: FittedModel, path: Path, length: int) -> None:
    """In a process of its own: jax2onnx puts functions of its own in the place of JAX's, for good."""
    if importlib.util.find_spec("jax2onnx") is None:
        need("jax2onnx", "export")
    with atomic(path) as temporary, TemporaryDirectory() as folder:
        model = Path(folder) / "model.safetensors"
        fitted.save(model)
        command = [sys.executable, "-m", "leapcde.estimators.export.onnx_file", str(model), str(temporary), str(length)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=False)
        if done.returncode:
            raise _refused(fitted, "onnx", (done.stderr.strip().splitlines() or ["no reason given"])[-1])


def _refused(fitted: FittedModel, format: str, why: Any) -> InputError:
    reason = (str(why).strip().splitlines() or [type(why).__name__])[0]
    return InputError(
        f"model {fitted.name!r} cannot be written as {format}: {reason}; models with a fixed solver can, such as 'rk4', "
        "and of one's own those that ONNX knows the operations of"
    )
