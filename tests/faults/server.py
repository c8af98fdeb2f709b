"""Commands in processes that cost little: everything is imported once, and each run is a fork of that.

The fork happens before JAX has started a thread, or after a rehearsal (`hot.py`). A run is stopped at a moment of its life:
after so much processor time, or around the n-th time that it touches a file. Or one of its writes fails, as on a full disk.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

FILES = ("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.truncate")
IDLE = 120.0  # seconds without any work after which a run is one that hangs; a busy machine only makes it slow


class Moment(NamedTuple):
    """When a run gets a signal: so many seconds after it touches its `file`-th file, or when it has worked for so many."""

    signal: signal.Signals
    seconds: float
    file: int = 0  # 0: by the work done, which does not depend on how busy the machine is


class End(NamedTuple):
    code: int  # of the exit; below 0 the signal that ended it
    said: str
    files: int  # how many files it touched, or at which write it failed
    seconds: float  # of processor time


def warm() -> None:
    """Import what runs need. Nothing is computed: JAX would start threads, which a fork does not survive."""
    import jax._src.xla_bridge as bridge
    import optuna
    import sklearn.ensemble
    import sklearn.linear_model

    import leapcde.cli.fit
    import leapcde.cli.main
    import leapcde.cli.source
    import leapcde.estimators.run
    import leapcde.estimators.tune
    import leapcde.explain.explanation
    import leapcde_paper.run.sweep

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    assert sklearn and leapcde and leapcde_paper and not bridge._backends, "JAX has started already"


def command(*args: Any) -> Callable[[], None]:
    """The command line, as a job for `run`."""

    def job() -> None:
        from leapcde.cli.main import main

        sys.argv = ["leapcde", *map(str, args)]
        main()

    return job


def in_here(job: Callable[[], None]) -> None:
    """A job in this process, whatever its exit code."""
    with suppress(SystemExit):
        job()


def run(
    job: Callable[[], None],
    folder: Path,
    *,
    moment: Moment | None = None,
    full: int = 0,
    memory: int = 0,
    during: Callable[[int], None] | None = None,
) -> End:
    """A job in a fork. `folder` is where its files are counted; `full` says which write fails; `memory` limits its bytes.

    `during` is told the process, to do with it what it likes while it runs.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    log, count = folder.parent / f"{folder.name}.log", folder.parent / f"{folder.name}.count"
    count.unlink(missing_ok=True)
    pid = forked(lambda: _child(job, folder, log, count, moment, full, memory))
    if during is not None:
        during(pid)
    code, seconds = ended(pid, IDLE)
    files = int(count.read_text() or 0) if count.exists() else 0
    return End(code, log.read_text(errors="replace"), files, seconds)


def forked(job: Callable[[], Any]) -> int:
    """The process that does a job."""
    with warnings.catch_warnings():  # that there are threads is known here, and provided for
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        job()
    finally:
        os._exit(70)


def ended(pid: int, idle: float) -> tuple[int, float]:
    """The exit code of a process and its processor time. One that does nothing for so many seconds is killed."""
    worked, since = -1.0, time.monotonic()
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        if time.monotonic() - since > idle:
            now = sum(psutil.Process(pid).cpu_times()[:4])  # with that of children it has waited for
            if now == worked:
                os.kill(pid, signal.SIGKILL)
            worked, since = now, time.monotonic()
        time.sleep(0.005)


class _When(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("how", ctypes.c_int), ("rest", ctypes.c_char * 48)]


def alarm(number: int, seconds: float, clock: int) -> None:
    """Let the kernel send this process a signal: in the midst of a write or a computation, and whoever holds Python's lock."""
    libc, timer = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()
    whole, rest = divmod(max(1, round(seconds * 1e9)), 10**9)
    if libc.timer_create(clock, ctypes.byref(_When(signal=number)), ctypes.byref(timer)) or libc.timer_settime(
        timer, 0, ctypes.byref((ctypes.c_long * 4)(0, 0, whole, rest)), None
    ):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _child(job, folder: Path, log: Path, count: Path, moment, full: int, memory: int) -> None:
    """Never returns."""
    code = 70
    try:
        os.setpgid(0, 0)
        told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(told, 1)
        os.dup2(told, 2)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w"), write_through=True) for number in (1, 2))
        counted = Counted(folder, moment)
        sys.addaudithook(counted)
        broken = _Full(folder, full) if full else None
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if moment is not None and not moment.file:
            alarm(moment.signal, moment.seconds, time.CLOCK_PROCESS_CPUTIME_ID)
        try:
            job()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 1
        counted.on = False
        count.write_text(str(counted.seen if broken is None else broken.failed_at))
    finally:
        os._exit(code)


def _within(path: Any, folder: str) -> bool:
    """Also the folder itself; not what lies beside it."""
    return str(path) == folder or str(path).startswith(folder + os.sep)


class Counted:
    """An audit hook that counts the files a run touches in its folder, and sends the signal around one of them."""

    def __init__(self, folder: Path, moment: Moment | None):
        self.folder, self.moment, self.seen, self.on = str(folder), moment, 0, True

    def __call__(self, event: str, args: tuple) -> None:
        if not self.on or event not in FILES or not _within(args[0], self.folder):
            return
        if event == "open" and not (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        self.seen += 1
        if self.moment is not None and self.seen == self.moment.file:
            if self.moment.seconds <= 0:
                os.kill(os.getpid(), self.moment.signal)
            else:  # within the writing itself
                alarm(self.moment.signal, self.moment.seconds, time.CLOCK_MONOTONIC)


class _Full:
    """From the n-th write on the disk is full: a file takes half of what it is given, nothing is created or synced."""

    def __init__(self, folder: Path, number: int):
        self.folder, self.left, self.failed_at, self.number = str(folder), number, 0, number
        real, outer = builtins.open, self

        class Broken(io.FileIO):
            def write(self, data):
                outer.count(lambda: super(Broken, self).write(memoryview(data)[: len(data) // 2]))
                return super().write(data)

        def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest, **more):
            if not (set(mode) & set("wax+")) or not _within(file, outer.folder):
                return real(file, mode, buffering, encoding, errors, newline, *rest, **more)
            outer.count()
            raw = Broken(file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            made = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return made if "b" in mode else io.TextIOWrapper(made, encoding, errors, newline)

        builtins.open = io.open = opened
        for name in ("fsync", "replace", "mkdir", "truncate", "link"):
            setattr(os, name, self.failing(getattr(os, name), always=name == "fsync"))

    def count(self, half: Callable[[], Any] = lambda: None) -> None:
        self.left -= 1
        if self.left <= 0:
            self.failed_at = self.failed_at or self.number
            half()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def failing(self, real: Callable, always: bool) -> Callable:
        def call(*args, **how):
            if always or _within(args[0], self.folder):
                self.count()
            return real(*args, **how)

        return call


def any_moment(rng: random.Random, files: int, seconds: float) -> Moment:
    """Two in three around a file, before it, within its writing or behind it; else after any part of the work."""
    which = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
    if rng.random() < 0.67:
        return Moment(which, rng.choice([0.0, rng.uniform(0, 0.002), rng.uniform(0, 0.02)]), rng.randint(1, max(1, files)))
    return Moment(which, rng.uniform(0.0, seconds))
