"""A model file as ONNX, as a program: `python -m leapcde.estimators.export.onnx_file MODEL OUT LENGTH`."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from leapcde.errors import need
from leapcde.estimators.export.files import inputs_of
from leapcde.estimators.export.function import of_one
from leapcde.estimators.export.simplify import run_trace, simplified
from leapcde.training.fitted import FittedModel

ANSWER = "answer"


def write(fitted: FittedModel, path: Path, length: int) -> None:
    """Write a model; afterwards, this process must not use JAX for anything else."""
    inputs = inputs_of(fitted, length)
    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in inputs.values()]
    trace = jax.make_jaxpr(simplified(of_one(fitted)))(*shapes)  # before jax2onnx changes what JAX's functions are
    logging.disable(logging.WARNING)  # onnx_ir's, on shapes that nobody needs
    warnings.simplefilter("ignore")
    converter = need("jax2onnx", "export")
    function = lambda *batch: jax.vmap(lambda *sample: run_trace(trace.jaxpr, trace.consts, sample)[0])(*batch)
    model = converter.to_onnx(
        function,
        [("samples", *shape) for shape in inputs.values()],
        model_name=f"leapcde {fitted.name}",
        input_names=list(inputs),
        output_names=[ANSWER],
    )
    _drop_unused(model.graph, _names_used(model.graph))
    path.write_bytes(model.SerializeToString())


def _names_used(graph: Any) -> set[str]:
    """Whatever a node asks for, or a graph answers with, here and in the bodies of loops."""
    inner = [name for node in graph.node for one in node.attribute for name in _names_used(one.g)]
    return {*inner, *(name for node in graph.node for name in node.input), *(one.name for one in graph.output)}


def _drop_unused(graph: Any, used: set[str]) -> None:
    """Without constants that nobody asks for: onnxruntime warns of each whenever a file is opened."""
    kept = [one for one in graph.initializer if one.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for one in (one for node in graph.node for one in node.attribute if one.HasField("g")):
        _drop_unused(one.g, used)


def main() -> None:
    model, out, length = sys.argv[1:]
    write(FittedModel.load(model), Path(out), int(length))


if __name__ == "__main__":
    main()
