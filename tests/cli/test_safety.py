"""What reaches a terminal, a spreadsheet or the network; how a command is stopped; that loading a file runs nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pandas as pd
import pytest

from command import leapcde
from leapcde.cli.options import harmless, stopping_cleanly
from leapcde.datasets._io import download as module
from leapcde.datasets._io.download import Remote, download
from leapcde.errors import InputError
from leapcde.estimators.predictions import for_spreadsheets


def test_sigterm_is_a_clean_stop(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)

    def stopped(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    monkeypatch.setattr("leapcde.cli.doctor.examine", stopped)
    answer = leapcde("doctor")
    assert answer.code == 143 and answer.err.startswith("stopped; the same command goes on")
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigterm_while_arguments_are_read(capsys):
    """Typer takes it for the keyboard there, and would end with 130 and without a word."""

    def typer() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            sys.exit(130)

    with pytest.raises(SystemExit) as end, stopping_cleanly():
        typer()
    assert end.value.code == 143 and capsys.readouterr().err.startswith("stopped; the same command goes on")


def test_sigterm_that_something_else_was_made_of(capsys):
    """NumPy calls Python while it reads a buffer's format, and makes a ValueError of whatever comes out of it."""

    def numpy() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        except KeyboardInterrupt:
            raise ValueError("not a valid PEP 3118 buffer format string") from None

    with pytest.raises(SystemExit) as end, stopping_cleanly():
        numpy()
    assert end.value.code == 143 and capsys.readouterr().err.startswith("stopped; the same command goes on")


def terminated() -> None:
    """This process is told to stop."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_stop_that_is_lost_comes_again(monkeypatch, capsys):
    """Whoever catches everything, as a sweep does around each cell, may take the first one for a failure."""
    monkeypatch.setattr("leapcde.cli.options.AGAIN", 0.05)

    def loses_one() -> None:
        with suppress(KeyboardInterrupt):
            terminated()
        time.sleep(5)
        raise AssertionError("it did not come again")

    with pytest.raises(SystemExit) as end, stopping_cleanly():
        loses_one()
    assert end.value.code == 143 and capsys.readouterr().err.startswith("stopped; the same command goes on")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_stop_in_a_callback_of_the_garbage_collector_comes_again_soon(capfd):
    """Python says of what such a callback raises, with a traceback, that it is ignored."""

    def collects() -> None:
        gc.collect()
        time.sleep(5)
        raise AssertionError("it did not come again")

    gc.callbacks.append(told := lambda phase, about: gc.callbacks.remove(told) or terminated())
    with pytest.raises(SystemExit) as end, stopping_cleanly():
        collects()
    said = capfd.readouterr().err
    assert end.value.code == 143 and "Traceback" not in said and said.startswith("stopped; the same command goes on")


def test_a_command_that_ends_in_spite_of_a_stop_says_so(capsys):
    with pytest.raises(SystemExit) as end, stopping_cleanly(), suppress(KeyboardInterrupt):
        terminated()
    assert end.value.code == 143 and capsys.readouterr().err.startswith("stopped; the same command goes on")


def test_an_error_without_sigterm_is_that_error():
    with pytest.raises(ValueError, match="mine"), stopping_cleanly():
        raise ValueError("mine")


def test_a_full_disk_is_one_message(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("leapcde.cli.doctor.examine", full)
    answer = leapcde("doctor")
    assert answer.code == 2 and answer.err == "error: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("error", [MemoryError(), MemoryError("8 GiB"), RuntimeError("RESOURCE_EXHAUSTED: Out of memory")])
def test_too_little_memory_is_one_message(error, monkeypatch):
    def much(*_):
        raise error

    monkeypatch.setattr("leapcde.cli.doctor.examine", much)
    answer = leapcde("doctor")
    assert answer.code == 2 and answer.err.startswith("error: there is not enough memory; try a smaller --batch-size")


def test_terminals_are_told_nothing_but_text(tmp_path):
    assert harmless("\x1b]0;owned\x07a\tb\n\x9b2J\r") == "\ufffd]0;owned\ufffda\tb\n\ufffd2J\ufffd"
    (tmp_path / "a.csv").write_text("id,time,a\n\x1b[31mx,0,1\n\x1b[31mx,0,2\n")
    answer = leapcde("fit", tmp_path / "a.csv", "--id", "id", "--time", "time", "--horizon", "1")
    assert answer.code == 2 and "\x1b" not in answer.err and "[31mx" in answer.err


def test_spreadsheets_are_given_no_formulas():
    ids = ["=HYPERLINK(1)", "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", " =1", "-5", "+1e3", "7", "plain", "a=b"]
    table = pd.DataFrame({"id": ids, "=x": range(len(ids))})
    found = for_spreadsheets(table)
    assert found["id"].tolist() == [*("'" + name for name in ids[:6]), *ids[6:]] and list(found.columns) == ["id", "'=x"]
    assert table["id"].tolist() == ids


class Hostile(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/ftp":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/etc/passwd")
            self.end_headers()
            return
        self.send_response(200)  # no length
        self.end_headers()
        for _ in range(50):
            self.wfile.write(bytes(2**16))

    def log_message(self, *_):
        pass


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_downloads_have_a_cap_and_stay_on_the_web(hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 2**20)
    with pytest.raises(InputError, match="no data set of ours"):
        download(Remote(f"{hostile}/endless", tmp_path / "a"), tries=1)
    with pytest.raises(InputError, match="which is not on the web"):
        download(Remote(f"{hostile}/ftp", tmp_path / "b"), tries=1)
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


LOADING = """
import sys, numpy as np, leapcde
path, X = sys.argv[1], np.random.default_rng(0).normal(size=(3, 6, 2))
made = leapcde.LeapClassifier("gru", options={"hidden": 2}, epochs=1, validation=0.0).fit(X, [0, 1, 0])
made.save(path)
leapcde.load(path).predict(X)  # now all is imported and compiled
FORBIDDEN = ("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.")
FORBIDDEN += ("marshal.", "ctypes.dlopen", "webbrowser.open", "urllib.Request", "os.remove", "os.rename", "shutil.")
CODE = ("(", "import", "@", ";", "lambda", "\\n")  # annotations of our own options are text that Python reads; they have none
seen = []
def watch(event, args):
    if event.startswith(FORBIDDEN):
        seen.append(event)
    if event == "compile" and str(args[1]) in ("<string>", "<stdin>") and any(mark in str(args[0]) for mark in CODE):
        seen.append("compile")
sys.addaudithook(watch)
leapcde.load(path).predict(X)
print("while loading:", *seen)
import os, pickle, socket, subprocess
class Evil:
    def __reduce__(self):
        return len, ((),)
bad = pickle.dumps(Evil())
PROVOKED = {
    "pickle.find_class": lambda: pickle.loads(bad),
    "compile": lambda: eval("len(())"),
    "compile ": lambda: exec("import math"),
    "subprocess.Popen": lambda: subprocess.run(["true"]),
    "os.system": lambda: os.system("true"),
    "socket.__new__": lambda: socket.socket().close(),
}
for event, attack in PROVOKED.items():
    seen.clear()
    attack()
    print("noticed" if event.strip() in seen else f"not noticed: {event}")
"""


def test_loading_executes_nothing(tmp_path):
    """No pickle, no eval or exec of text, no process, no socket, while a model is loaded and asked."""
    script = [sys.executable, "-W", "ignore", "-c", LOADING, str(tmp_path / "m.safetensors")]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.splitlines() == ["while loading:", *["noticed"] * 6]
