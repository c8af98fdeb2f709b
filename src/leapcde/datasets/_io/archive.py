"""Archives from strangers: read or extracted only if every name stays inside, nothing is a link, and the size is sane."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from leapcde.errors import InputError

Blocks = Iterator[bytes]
LARGEST = 16 * 2**30  # bytes, unpacked; Speech Commands is 3.4 GB
DEEPEST = 64  # folders within folders
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,  # a password
    UnicodeDecodeError,
)


@contextmanager
def open_zip(path: Path, *, largest: int = LARGEST) -> Iterator[zipfile.ZipFile]:
    """A zip whose every member has been checked; whatever breaks while reading it is one error with its name."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        total = 0
        for member in archive.infolist():
            check_name(member.filename, path)
            if member.external_attr >> 16 & 0o170000 == 0o120000:
                raise InputError(f"{path}: {member.filename} is a link; links are refused")
            total = _add(total, member.file_size, largest, path)
        yield archive


def tar_files(path: Path, wanted: Callable[[str], bool], *, largest: int = LARGEST) -> Iterator[tuple[str, Blocks]]:
    """The wanted files of a tar (compressed or not), in one pass: name and content in blocks, to be read before the next."""
    total = 0
    with _readable(path), tarfile.open(path, "r|*") as archive:
        for member in archive:
            check_name(member.name, path)
            if member.isdir():
                continue
            if not member.isfile():
                raise InputError(f"{path}: {member.name} is a link or a device; only files are accepted")
            total = _add(total, member.size, largest, path)
            if wanted(member.name):
                file = archive.extractfile(member)
                assert file is not None  # true of every regular file
                yield member.name, _blocks(file.read, path)


def extract(path: Path, target: Path, *, largest: int = LARGEST) -> int:
    """Unpack a zip or tar into a new folder `target`; the folder appears when all is there. Returns the number of files."""
    if target.exists():
        raise InputError(f"{target} is there already; remove it to extract {path.name} again")
    folder = target.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        count = 0
        for name, blocks in _all_files(path, largest):
            place = folder / PurePosixPath(name)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as out:
                out.writelines(blocks)
            count += 1
        folder.chmod(0o755)
        os.replace(folder, target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        if folder != target.parent:
            shutil.rmtree(folder, ignore_errors=True)
    return count


def check_name(name: str, path: Path) -> None:
    """Refuse names that point outside the folder into which they would be unpacked.

    >>> check_name("words/yes/a.wav", Path("a.zip"))
    >>> check_name("../a.wav", Path("a.zip"))
    Traceback (most recent call last):
    leapcde.errors.InputError: a.zip: the name '../a.wav' points outside the archive; do not use this file
    """
    if not name:
        raise InputError(f"{path}: a file in it has no name; it is damaged, download it again")
    plain = name.replace("\\", "/")
    parts = PurePosixPath(plain)
    if parts.is_absolute() or ".." in parts.parts or ":" in plain.split("/")[0] or "\0" in plain:
        raise InputError(f"{path}: the name {name!r} points outside the archive; do not use this file")
    if len(parts.parts) > DEEPEST:
        raise InputError(f"{path}: the name {name[:40]!r}… is {len(parts.parts)} folders deep; that is no data set of ours")


def _all_files(path: Path, largest: int) -> Iterator[tuple[str, Blocks]]:
    if path.suffix != ".zip":
        yield from tar_files(path, lambda name: True, largest=largest)
        return
    with open_zip(path, largest=largest) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as file:
                    yield member.filename, _blocks(file.read, path)


def _blocks(read: Callable[[int], bytes], path: Path) -> Blocks:
    """The content piece by piece; what breaks while reading is the archive's fault, not the reader's."""
    with _readable(path):
        while block := read(2**20):
            yield block


def _add(total: int, size: int, largest: int, path: Path) -> int:
    if total + size > largest:
        raise InputError(f"{path} would unpack to more than {largest / 2**30:g} GB; that is no data set of ours")
    return total + size


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except BROKEN as error:
        raise InputError(f"cannot read {path}: truncated, or no such archive ({error}); download it again") from error
