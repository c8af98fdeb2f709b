"""Millions of observations pushed into one stream: `python tests/faults/pushes.py COUNT` prints time and memory on the way."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from targets import fitted

PIECES = 20


def resident() -> float:
    """Megabytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def pushed(count: int, seconds: float = float("inf")) -> list[dict[str, float]]:
    """So many pushes, or so many seconds of them; a row for each piece."""
    stream, x, rows, began = fitted().stream(), np.zeros(2), [], time.monotonic()
    for t in range(200):  # what is compiled at first
        stream.push(t, x)
    stream.predict_proba()
    piece = max(1, count // PIECES)
    for start in range(200, count + 200, piece):
        worked = time.process_time()
        for t in range(start, start + piece):
            stream.push(t, x)
        each = (time.process_time() - worked) / piece
        rows.append({"pushes": len(stream), "microseconds each": round(1e6 * each, 1), "megabytes": round(resident(), 1)})
        assert np.isfinite(stream.predict_proba()).all()
        if time.monotonic() - began > seconds:
            break
    return rows


if __name__ == "__main__":
    print(json.dumps(pushed(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else float("inf"))))
