"""`leapcde export`: a trained run as a file that needs no leapcde."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leapcde.cli.options import Json, Quiet, command, print_json

export_app = typer.Typer()


@command(export_app)
def export(
    run: Annotated[Path, typer.Argument(help="A folder that 'leapcde fit' or 'leapcde train' made, or a model file.")],
    length: Annotated[int, typer.Option(min=1, help="Rows that a sample has in the file; shorter ones are filled up.")],
    format: Annotated[str, typer.Option(help="onnx or stablehlo.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="The file; default model.onnx or model.stablehlo in the run folder.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a trained run as ONNX or StableHLO, with all its preprocessing inside."""
    from leapcde.estimators.export.files import export as write
    from leapcde.estimators.export.files import onnx_milliseconds
    from leapcde.estimators.load import load
    from leapcde.estimators.run import files_of
    from leapcde.files import check_apart

    path = out or (run if run.is_dir() else run.parent) / f"model.{format}"
    for written in (path, path.with_name(f"{path.name}.json")):
        check_apart(written, files_of(run))
    about = write(load(run), path, format=format, length=length)
    spent = onnx_milliseconds(path, about) if format == "onnx" else None
    if as_json:
        return print_json({"file": str(path), **about, **({} if spent is None else {"milliseconds a sample": spent})})
    if not quiet:
        typer.echo(f"{path}: times, values{', static' if 'static' in about['inputs'] else ''} -> {about['answer']}")
        if spent is not None:
            typer.echo(f"onnxruntime takes {spent:.2g} ms for one sample at a time, on one thread")
