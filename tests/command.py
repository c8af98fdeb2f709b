"""Running the command line inside a test."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from leapcde.cli.main import main

COLUMNS = ["--id", "seq", "--time", "t", "--values", "height,angle"]
# Compiling takes longer than training here: one length of series, one layer, the simplest path.
SMALL = [
    "--interpolation",
    "linear",
    "--epochs",
    "2",
    "--batch-size",
    "8",
    "--learning-rate",
    "0.02",
    "-o",
    "hidden=8",
    "-o",
    "width=8",
    "-o",
    "depth=1",
]
LEAP = ["--model", "leap", *SMALL, "-o", "f_width=8", "-o", "decoder_steps=4", "-o", "beta=0.0"]


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        """The one JSON object on standard output, as a strict reader sees it."""
        assert self.code == 0 and self.out.count("\n") == 1, self
        return json.loads(self.out, parse_constant=pytest.fail)


def leapcde(*args) -> Answer:
    """Run the command line in this process, as the installed command does."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["leapcde", *map(str, args)]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    return Answer(caught.value.code or 0, out.getvalue(), err.getvalue())


def contents(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.md5(p.read_bytes()).hexdigest() if p.is_file() else "" for p in sorted(folder.rglob("*"))}


def fails(folder: Path, *args, words: tuple[str, ...]) -> None:
    """Exit code 2, one message with these words, nothing on standard output, nothing written."""
    before = contents(folder)
    for more in ([], ["--json"]):
        answer = leapcde(*args, *more)
        assert answer.code == 2 and answer.out == "", answer
        lines = answer.err.strip().splitlines()
        assert lines[0].startswith("error: ") and not any(line.startswith("error:") for line in lines[1:]), answer.err
        assert "Traceback" not in answer.err
        assert all(word in answer.err for word in words), (answer.err, words)
        assert contents(folder) == before
