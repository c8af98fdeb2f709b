"""The seeded part of `make test-faults`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_a_leap_error_or_a_result():
    """In a process where types are not checked, as with users."""
    command = [sys.executable, "-m", "pytest", "--noconftest", "-q", "-x", "-p", "no:cacheprovider", "faults/one_message.py"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
