"""Malformed input by the thousand: bytes become a table, an array, a stream, an archive, a model file, a setting or a command.

Bytes come from mutated examples (`python tests/faults/fuzz.py table 1000 7`) or, if atheris is installed, from libFuzzer, which
follows the branches of the code (`… table 1000 7 guided`). Nothing but a LeapError or a result that is right may come out.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from targets import PLACE, TARGETS

ODD = [b"", b"nan", b"inf", b"-0", b"1e999", b"1e-999", b'"', b"'", b"\n", b"\r", b"\0", b"\xff", b",", b";", b"\t", b"=1+1"]
ODD += [b"9" * 400, b"\xef\xbb\xbf", b"NA", b"null", b"[", b"{", b"../", b"2024-02-30", b"01", b"1,5", b"\x1b[2J", "é".encode()]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few small changes, as transport, editors and attackers make them."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 8])):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(6)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at:at] = rng.choice(ODD)
        elif kind == 2:
            del out[at : at + rng.choice([1, 1, 2, 8, 64])]
        elif kind == 3:
            piece = out[at : at + rng.choice([1, 4, 16])]
            out[at:at] = piece * rng.choice([1, 1, 2, 50])
        elif kind == 4:
            out[at : at + rng.choice([1, 2, 4])] = rng.choice(ODD)
        else:
            other = rng.randrange(len(out) + 1)
            out[at : at + 4] = out[other : other + rng.choice([1, 4, 16])]
    return bytes(out)


def fuzz(name: str, count: int, seed: int) -> dict[str, Any]:
    """So many inputs for a target: how many were accepted, and what was wrong."""
    (PLACE / "empty").mkdir(exist_ok=True)
    target, corpus = TARGETS[name][0], TARGETS[name][1]()
    rng, found, wrong = random.Random(f"{name} {seed}"), 0, []
    for _ in range(count):
        data = mutate(rng.choice(corpus), rng)
        try:
            found += target(data)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]} for {data[:300]!r}")
    return {"inputs": count, "accepted": found, "wrong": wrong}


def guided(name: str, count: int, seed: int) -> None:
    """The same by libFuzzer; ends the process, with another code than 0 if something is wrong."""
    import atheris

    (PLACE / "empty").mkdir(exist_ok=True)
    with atheris.instrument_imports(include=["leapcde.data", "leapcde.datasets", "leapcde.files", "leapcde.cli"]):
        import leapcde.cli.main
        import leapcde.data.table_file
        import leapcde.datasets._io.archive  # noqa: F401
    target, corpus = TARGETS[name][0], TARGETS[name][1]()
    folder = PLACE / "corpus"
    folder.mkdir()
    for i, data in enumerate(corpus):
        (folder / str(i)).write_bytes(data)
    options = [
        f"-runs={count}",
        f"-seed={seed + 1}",
        "-max_len=20000",
        "-verbosity=0",
        f"-artifact_prefix={PLACE}/",
        "-timeout=60",
    ]
    atheris.Setup([sys.argv[0], *options, str(folder)], lambda data: target(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[4:] == ["guided"]:
        guided(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps(fuzz(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
