"""Limits of memory under which JAX could only abort are one error; others change nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leapcde import memory
from leapcde.errors import LeapError
from leapcde.memory import MEGABYTE, NotEnoughMemory, need_memory

FIT = """
import resource
import numpy as np
from leapcde import LeapClassifier
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
LeapClassifier("gru", epochs=1).fit(np.zeros((4, 3, 1)), np.arange(4) % 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are read from Linux")
def test_a_limit_of_the_process_is_one_error():
    """A process of its own: 1,600 MB of addresses are too few, and XLA ended it with signal 6."""
    done = subprocess.run(
        [sys.executable, "-c", FIT.format(limit=1600 * MEGABYTE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "NotEnoughMemory: there is not enough memory: the limit of this process is 1,600 MB" in last
    assert last.endswith("2,100 MB or more are needed: ulimit -v unlimited")


@pytest.fixture
def container(monkeypatch, tmp_path):
    """The files of a container that may have some bytes and uses others; a process without a limit of its own."""

    def make(limit: str, current: int, inactive: int) -> None:
        (tmp_path / "own").mkdir()
        (tmp_path / "group").write_text("1:cpu:/\n0::/own\n")
        (tmp_path / "own" / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "own" / "memory.current").write_text(f"{current}\n")
        (tmp_path / "own" / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
        monkeypatch.setattr(memory, "GROUP", tmp_path / "group")
        monkeypatch.setattr(memory, "GROUPS", tmp_path)

    return make


def test_a_limit_of_the_container_is_one_error(container):
    container(str(700 * MEGABYTE), 650 * MEGABYTE, 10 * MEGABYTE)
    with pytest.raises(NotEnoughMemory, match="container is 700 MB, of which 640 MB are in use; 768 MB or more") as error:
        need_memory()
    assert isinstance(error.value, LeapError) and isinstance(error.value, MemoryError)


@pytest.mark.parametrize("limit", ["max", str(700 * MEGABYTE), "damaged"])
def test_what_is_enough_or_cannot_be_read_is_no_error(container, limit):
    """Pages of files that nobody needs can be had back."""
    container(limit, 650 * MEGABYTE, 200 * MEGABYTE)
    need_memory()


def test_the_command_says_so_too(container, tmp_path):
    from command import leapcde

    container(str(300 * MEGABYTE), 100 * MEGABYTE, 0)
    rows = "".join(f"{i},{t},{t + i % 2},{i % 2}\n" for i in range(20) for t in range(3))
    (tmp_path / "a.csv").write_text(f"id,t,a,y\n{rows}")
    fit = ("fit", tmp_path / "a.csv", "--id", "id", "--time", "t", "--target", "y", "--model", "gru")
    answer = leapcde(*fit, "--out", tmp_path / "run")
    assert answer.code == 2 and answer.err.startswith(
        "error: there is not enough memory: the limit of this container is 300 MB"
    )
