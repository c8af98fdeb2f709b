"""`leapcde data …`: list, fetch, check, describe and make data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from leapcde.cli.options import DataDir, Json, Quiet, Seed, command, name_values, print_json, print_table
from leapcde.errors import InputError

data_app = typer.Typer(help="List, download, check, describe and make data sets.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="A data set ('leapcde data list'), uea:NAME, or a .ts file.")]
DatasetOption = Annotated[
    list[str] | None, typer.Option("--dataset-option", "-d", help="Dataset option, as name=value; repeatable.")
]


@command(data_app, name="list")
def data_list(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the data sets, whether their files are there, and the options of each."""
    from leapcde.datasets.registry import DATASETS, find_data_dir, state
    from leapcde.datasets.source import dataset_options_of

    where = find_data_dir(data_dir)
    rows = [
        {
            "name": name,
            "title": source.about.title,
            "task": source.task,
            "licence": source.about.licence,
            "state": state(name, data_dir),
            "options": dataset_options_of(source),
        }
        for name, source in DATASETS.items()
    ]
    if as_json:
        return print_json({"directory": where, "datasets": rows})
    for row in rows:
        typer.echo(f"{row['name']}: {row['title']} ({row['task']}; {row['state']})")
        typer.echo("  " + (", ".join(f"{key}={value}" for key, value in row["options"].items()) or "no options") + "\n")
    typer.echo("uea:NAME: a problem of the UEA/UCR archive below DATA_DIR/uea; or give the path of a .ts file")
    typer.echo(f"data directory: {where}")


@command(data_app, name="fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A data set that is downloaded, or uea:NAME.")],
    base: Annotated[str | None, typer.Option("--from", help="Another address that holds the files, such as a mirror.")] = None,
    unpack: Annotated[bool, typer.Option("--extract", help="Unpack too; loading does not need it.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds without an answer before trying again.")] = 30.0,
    tries: Annotated[int, typer.Option(min=1, help="How often to try.")] = 5,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Download a data set from its official address; repeat the command to go on after an interruption."""
    from leapcde.datasets.fetch import fetch
    from leapcde.datasets.registry import find_data_dir, source_of
    from leapcde.training.track.progress import watch_bytes

    about = source_of(name).about
    silent = quiet or as_json
    with watch_bytes(quiet=silent) as progress:
        found = fetch(name, find_data_dir(data_dir), base=base, unpack=unpack, progress=progress, timeout=timeout, tries=tries)
    if as_json:
        return print_json({"name": name, "licence": about.licence, "citation": about.citation, "files": found})
    if quiet:
        return None
    for row in found:
        typer.echo(f"{row['file']}\n  SHA-256 {row['sha256']}; {row['compared']}")
        if unpack:
            typer.echo(f"  {row['files']} files in {row['folder']}")
    typer.echo(f"licence: {about.licence}\nplease cite: {about.citation}\nmore: {about.page}")


@command(data_app, name="check")
def data_check(
    name: Name,
    dataset_option: DatasetOption = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare a data set with the published figures and look for leaks; exit code 1 if something is wrong."""
    from leapcde.datasets.describe import check

    found = check(name, data_dir=data_dir, **name_values(dataset_option or [], "--dataset-option", "words=all"))
    wrong = [row for row in found if row.ok is False]
    if as_json:
        print_json({"name": name, "ok": not wrong, "checks": [row._asdict() for row in found]})
    elif not quiet:
        marks = {True: "ok", None: "note", False: "WRONG"}
        for row in found:
            typer.echo(f"{marks[row.ok]:5}  {row.what}" + (f": {row.detail}" if row.detail else ""))
    if wrong:
        raise typer.Exit(1)


@command(data_app, name="describe")
def data_describe(
    name: Name,
    plot: Annotated[Path | None, typer.Option(help="Draw a few samples into this PNG file.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="How many samples to draw.")] = 3,
    dataset_option: DatasetOption = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show counts, lengths, channels, missing values, classes and ranges, beside the published figures."""
    from leapcde.datasets import describe as module

    chosen = name_values(dataset_option or [], "--dataset-option", "words=all")
    found = module.describe(name, data_dir=data_dir, **chosen)
    if plot is not None:
        _write_plot(plot, module.plot(name, data_dir=data_dir, samples=samples, **chosen))
    if as_json:
        return print_json({**found, "plot": plot})
    if not quiet:
        _print_description(found)
    if plot is not None and not quiet:
        typer.echo(f"plot: {plot}")


@command(data_app, name="make")
def data_make(
    name: Annotated[str, typer.Argument(help="mujoco: simulate dm_control's Hopper.")],
    out: Annotated[Path, typer.Option(help="File to write: .npy (float32) or .npz (compact, quantised).")],
    count: Annotated[int, typer.Option(min=1, help="How many sequences.")] = 10_000,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Simulate a data set; the same seed gives the same bytes."""
    from leapcde.datasets import hopper
    from leapcde.training.track.progress import watch_count

    if name != "mujoco":
        raise InputError(f"cannot make {name!r}; 'mujoco' can be made")
    hopper.file_kind(out)  # before anything is said to be simulated
    with watch_count("simulating", count, quiet=quiet or as_json) as progress:
        hopper.make(out, count, seed, progress)
    if as_json:
        return print_json({"file": str(out), "count": count, "seed": seed})
    if not quiet:
        typer.echo(f"{count} sequences: {out}")


def _write_plot(path: Path, figure: Any) -> None:
    from leapcde.explain.plots import png
    from leapcde.files import atomic

    if path.suffix != ".png":
        raise InputError(f"cannot draw {path}: the name must end in .png")
    with atomic(path) as temporary:
        temporary.write_bytes(png(figure))


def _print_description(found: dict[str, Any]) -> None:
    length, time = found["length"], found["time"]
    typer.echo(f"{found['name']}: {found['title']} ({found['task']})")
    typer.echo(f"{found['samples']:,} samples; length {length['min']} to {length['max']}, median {length['median']:g}")
    typer.echo(f"time {time['first']:g} to {time['last']:g}; {found['missing']:.1%} of the values missing")
    typer.echo("splits: " + ", ".join(f"{part} {count:,}" for part, count in found["splits"].items()) + "\n")
    stats = ("min", "mean", "max", "std")
    cells = [[c["name"], f"{c['missing']:.1%}", *(_number(c[key]) for key in stats)] for c in found["channels"]]
    print_table(["channel", "missing", *stats], cells)
    if found["classes"]:
        total = sum(found["classes"].values())
        typer.echo("")
        print_table(["class", "samples", "share"], [[k, f"{n:,}", f"{n / total:.1%}"] for k, n in found["classes"].items()])
    if found["published"]:
        typer.echo("")
        rows = [[r["what"], f"{r['published']:,}", f"{r['found']:,}"] for r in found["published"]]
        print_table(["", "published", "here"], rows)
    for row in found["published"]:
        if not row["same"]:
            typer.echo(f"{row['what']}: {row['why'] or 'not known why it differs'}")
    typer.echo("\noptions: " + ", ".join(f"{key}={value}" for key, value in found["options"].items() if key != "sha256"))
    typer.echo(f"licence: {found['licence']}\nplease cite: {found['citation']}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
