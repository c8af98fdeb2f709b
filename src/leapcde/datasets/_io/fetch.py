"""`leapcde data fetch`: the official addresses, what is known about the files there, and where they go.

Checksums are those that others have published; where nobody has, the first download's is written beside the file, and
a later download that differs is called out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from leapcde.datasets._io import archive
from leapcde.datasets._io.download import Progress, Remote, download
from leapcde.datasets.character_trajectories import FILE as LETTERS
from leapcde.datasets.registry import source_of
from leapcde.errors import InputError
from leapcde.files import write_text

UEA = "https://www.timeseriesclassification.com/aeon-toolkit"
PHYSIONET = "https://archive.physionet.org/users/shared/challenge-2019"
SPEECH = "https://storage.googleapis.com/download.tensorflow.org/data"
# (address, place below the data directory, SHA-256 if published)
OFFICIAL: dict[str, tuple[tuple[str, Path, str | None], ...]] = {
    "character-trajectories": ((f"{UEA}/{LETTERS.name}", LETTERS, None),),
    "sepsis": tuple((f"{PHYSIONET}/{name}", Path("sepsis", name), None) for name in ("training_setA.zip", "training_setB.zip")),
    "speech-commands": (
        (
            f"{SPEECH}/speech_commands_v0.02.tar.gz",
            Path("speech_commands", "speech_commands_v0.02.tar.gz"),
            "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",  # as in TensorFlow Datasets
        ),
    ),
}


def remotes(name: str, data_dir: Path, base: str | None = None) -> list[Remote]:
    """What to download for a data set; `base` is another address to take the files from.

    >>> remotes("uea:Epilepsy", Path("data"))[0].path.as_posix()
    'data/uea/Epilepsy.zip'
    """
    source_of(name)  # an unknown name lists the known ones
    if name.startswith("uea:"):
        file = f"{name.removeprefix('uea:')}.zip"
        entries = ((f"{UEA}/{file}", Path("uea", file), None),)
    elif name in OFFICIAL:
        entries = OFFICIAL[name]
    else:
        raise InputError(_not_fetched(name))
    where = lambda url, place: url if base is None else f"{base.rstrip('/')}/{place.name}"
    return [Remote(where(url, place), data_dir / place, sha) for url, place, sha in entries]


def fetch(
    name: str,
    data_dir: Path,
    *,
    base: str | None = None,
    unpack: bool = False,
    progress: Callable[[str], Progress] | None = None,
    **how: Any,
) -> list[dict[str, Any]]:
    """Download what a data set is made of into `data_dir`; for each file its place, checksum and what that was compared with.

    `progress` is asked for a function for each file; `how` goes to `download` (timeout, tries).
    """
    found = []
    for remote in remotes(name, data_dir, base):
        sha = download(remote, progress=None if progress is None else progress(remote.path.name), **how)
        row = {"file": str(remote.path), "url": remote.url, "sha256": sha, "compared": _compared(remote, sha)}
        if unpack:
            target = remote.path.with_name(remote.path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".zip"))
            row |= {"folder": str(target), "files": archive.extract(remote.path, target)}
        found.append(row)
    return found


def _compared(remote: Remote, sha: str) -> str:
    """Say what the checksum was compared with, and write it down where it is the first one seen."""
    if remote.sha256 is not None:
        return "equals the published checksum"
    note = remote.path.with_name(remote.path.name + ".sha256.json")
    with suppress(OSError, ValueError, KeyError, TypeError):
        first = str(json.loads(note.read_text(encoding="utf-8"))["sha256"])
        same = first == sha
        return f"no checksum is published; {'equals' if same else 'DIFFERS from'} the one first seen ({note.name})"
    write_text(note, json.dumps({"url": remote.url, "sha256": sha}, indent=2))
    return f"no checksum is published; this one is kept in {note.name}"


def _not_fetched(name: str) -> str:
    ways = {
        "hopper": "it comes with leapcde",
        "mujoco": "simulate it: leapcde data make mujoco --out DATA_DIR/mujoco/hopper.npy",
        "mujoco-as-run": "take mujoco.npy from the paper's released code and save it as DATA_DIR/mujoco/mujoco_as_run.npy",
    }
    return f"{name} is not downloaded: {ways.get(name, 'it is a file of yours')}"
