"""Download one file over HTTP: resumed where it stopped, checked, and in place only when it is whole.

What has arrived lies in NAME.part, with NAME.part.json saying of which version of the file; a server whose file changed
meanwhile is asked for all of it again. Nothing here is called but by `leapcde data fetch`.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from leapcde.errors import InputError
from leapcde.files import write_text

BLOCK = 2**18
ROOM = 2**20  # bytes to leave free on the disk
LARGEST = 16 * 2**30  # bytes of a file, said or not; Speech Commands has 2.4 GB
FAILED = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, OSError)
Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


class Remote(NamedTuple):
    """One file and where it comes from. `sha256` is None where the publisher gives none."""

    url: str
    path: Path
    sha256: str | None = None


def download(
    remote: Remote, *, timeout: float = 30.0, tries: int = 5, progress: Progress | None = None, pause: Callable = time.sleep
) -> str:
    """Download to `remote.path` and return the SHA-256. A file that is there already is only checked."""
    if not remote.url.startswith(("http://", "https://")):
        raise InputError(f"cannot download {remote.url!r}: the address must start with http:// or https://")
    if remote.path.is_file():
        return _checked(remote, remote.path)
    part = remote.path.with_name(remote.path.name + ".part")
    _make_folder(part.parent)
    for attempt in range(1, tries + 1):
        try:
            _receive(remote.url, part, timeout, progress)
            break
        except FAILED as error:
            if attempt == tries or _final(error):
                raise InputError(_gave_up(remote.url, part, error, attempt)) from error
            pause(min(2.0**attempt, 30.0))
    found = _checked(remote, part)
    _memory(part).unlink(missing_ok=True)
    os.replace(part, remote.path)
    return found


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """A server may send us to another address on the web, and to nothing else."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if not newurl.startswith(("http://", "https://")):
            raise InputError(f"cannot download {req.full_url}: the server points to {newurl[:80]!r}, which is not on the web")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _receive(url: str, part: Path, timeout: float, progress: Progress | None) -> None:
    """Ask for what is missing and append it; a ConnectionError if the connection ends before the file does."""
    have, known = _so_far(url, part)
    request = urllib.request.Request(url, headers={"User-Agent": "leapcde", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", known)
    with urllib.request.build_opener(_WebOnly).open(request, timeout=timeout) as answer:
        if answer.status != 206:
            have = 0
        total = _total(answer, have)
        _check_room(part, (total or 0) - have)
        _remember(url, part, answer.headers)
        _append(answer, part, have, total, progress)


def _append(answer: Any, part: Path, have: int, total: int | None, progress: Progress | None) -> None:
    with part.open("ab" if have else "wb") as file:
        while block := answer.read1(BLOCK):
            have += len(block)
            if total is not None and have > total:
                raise ConnectionError(f"the server sent more than the {total:,} bytes it announced")
            if have > LARGEST:
                raise InputError(f"{part.name} has more than {LARGEST / 2**30:g} GB; that is no data set of ours")
            file.write(block)
            if progress is not None:
                progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _so_far(url: str, part: Path) -> tuple[int, str]:
    """How much has arrived of which version; nothing if the server gave no way to tell versions apart."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(_memory(part).read_text(encoding="utf-8"))
        if known["url"] == url and known["version"]:
            return part.stat().st_size, str(known["version"])
    return 0, ""


def _remember(url: str, part: Path, headers: Any) -> None:
    tag = headers.get("ETag") or ""
    version = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified") or ""
    write_text(_memory(part), json.dumps({"url": url, "version": version}))


def _memory(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _total(answer: Any, have: int) -> int | None:
    """The size of the whole file, if the server says; a range that begins elsewhere is a broken server."""
    if answer.status == 206:
        span, _, size = (answer.headers.get("Content-Range") or "").removeprefix("bytes ").partition("/")
        if not span.startswith(f"{have}-"):
            raise ConnectionError(f"asked for bytes from {have:,}, the server sent {span or 'an unknown range'}")
        return int(size) if size.isdecimal() else None
    size = answer.headers.get("Content-Length") or ""
    return int(size) if size.isdecimal() else None


def _check_room(part: Path, more: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if more + ROOM > free:
        raise InputError(
            f"no room for {part.name}: {more / 2**20:,.0f} MB to come, {free / 2**20:,.0f} MB free in {part.parent}"
        )


def _checked(remote: Remote, file: Path) -> str:
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if remote.sha256 is not None and found != remote.sha256:
        arrived = file != remote.path
        if arrived:
            file.unlink()
            _memory(file).unlink(missing_ok=True)
        fix = "it was thrown away; try again, or another mirror with --from" if arrived else "remove it and fetch again"
        raise InputError(f"{remote.path} is not the published file: SHA-256 {found}, expected {remote.sha256}; {fix}")
    return found


def _final(error: BaseException) -> bool:
    """Whether asking again cannot help: the file is not there, or may not be had. A full disk does not empty itself."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code < 500 and error.code not in (408, 416, 429)
    return isinstance(error, OSError) and error.errno == 28


def _gave_up(url: str, part: Path, error: BaseException, tries: int) -> str:
    kept = part.stat().st_size if part.is_file() else 0
    rest = f"; {kept:,} bytes are kept in {part.name}, and the same command goes on from there" if kept else ""
    reason = getattr(error, "reason", None) or error
    code = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
    return f"cannot download {url}: {code}{reason or type(error).__name__} (tried {tries} times){rest}"


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
