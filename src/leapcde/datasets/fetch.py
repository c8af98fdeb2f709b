"""`leapcde data fetch`: download what a data set is made of from its official addresses.

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
from leapcde.datasets.registry import source_of
from leapcde.errors import InputError
from leapcde.files import write_text


def remotes(name: str, data_dir: Path, base: str | None = None) -> list[Remote]:
    """What to download for a data set; `base` is another address to take the files from.

    >>> remotes("uea:Epilepsy", Path("data"))[0].path.as_posix()
    'data/uea/Epilepsy.zip'
    """
    source = source_of(name)
    if not source.downloads:
        raise InputError(f"{name} is not downloaded: {source.about.how_to_get}")
    where = lambda file: file.url if base is None else f"{base.rstrip('/')}/{file.place.name}"
    return [Remote(where(file), data_dir / file.place, file.sha256) for file in source.downloads]


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
