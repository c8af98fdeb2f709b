"""Downloads and archives from strangers: a server on this machine drops connections, lies and hangs; nothing else is asked."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from leapcde.datasets import fetch
from leapcde.datasets._io import archive, download
from leapcde.datasets._io.download import Remote
from leapcde.errors import InputError

CONTENT = bytes(range(256)) * 4096  # 1 MB
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT; the first part of the path says how it misbehaves. `asked` keeps the ranges of all requests."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.seen: Counter = Counter()
        self.content, self.tag = CONTENT, '"v1"'
        self.stop = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        how, wanted = self.path.split("/")[1], self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        self.server.seen[how] += 1
        first = self.server.seen[how] == 1
        if how == "missing":
            return self.send_error(404)
        if how == "busy" and first:
            return self.send_error(503)
        if how == "moved":
            self.send_response(302)
            self.send_header("Location", f"{self.server.address}/good/a.zip")
            return self.end_headers()
        if how == "hangs":
            return self.server.stop.wait(20)
        content = b"x" * len(self.server.content) if how == "wrong" else self.server.content
        start = 0
        honoured = how not in ("no-range", "no-tag") and self.headers.get("If-Range") == self.server.tag
        if wanted and honoured:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        self.answer(how, content, start, wanted is not None and honoured)
        self.body(how, content[start:], first)

    def answer(self, how: str, content: bytes, start: int, partial: bool):
        self.send_response(206 if partial else 200)
        if partial:
            begin = start + 7 if how == "shifted" else start
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        if how != "no-length":
            size = 10**15 if how == "huge" else len(content) - start
            self.send_header("Content-Length", str(size))
        if how != "no-tag":
            self.send_header("ETag", self.server.tag)
        self.end_headers()

    def body(self, how: str, content: bytes, first: bool):
        if how in ("drops", "no-range", "no-tag", "shifted", "changes") and first:
            self.wfile.write(content[: len(content) // 3])
            self.wfile.flush()
            if how == "changes":
                self.server.content, self.server.tag = CONTENT[::-1], '"v2"'
            return self.connection.shutdown(socket.SHUT_RDWR)
        if how == "stalls" and first:
            self.wfile.write(content[:1000])
            self.wfile.flush()
            return self.server.stop.wait(20)
        self.wfile.write(content)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.stop.set()
        made.shutdown()
        thread.join()


def get(server, how: str, folder: Path, sha: str | None = SHA, **more):
    remote = Remote(f"{server.address}/{how}/a.zip", folder / "a.zip", sha)
    return download.download(remote, pause=lambda seconds: None, **{"timeout": 5.0, **more})


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("how", ["good", "drops", "busy", "no-range", "no-tag", "no-length", "moved"])
def test_the_file_arrives_whole_and_alone(server, tmp_path, how):
    assert get(server, how, tmp_path) == SHA
    assert (tmp_path / "a.zip").read_bytes() == CONTENT and names(tmp_path) == ["a.zip"]


def test_a_dropped_connection_is_resumed_not_repeated(server, tmp_path):
    seen = []
    get(server, "drops", tmp_path, progress=lambda have, total: seen.append((have, total)))
    (_, first), (_, second) = server.asked
    assert first is None and 0 < int(second.removeprefix("bytes=")[:-1]) <= len(CONTENT) // 3
    assert seen == sorted(seen) and seen[-1] == (len(CONTENT), len(CONTENT))


def test_an_interrupted_download_goes_on_in_another_process(server, tmp_path):
    with pytest.raises(InputError, match=r"bytes are kept in a\.zip\.part") as caught:
        get(server, "drops", tmp_path, tries=1)
    assert "127.0.0.1" in str(caught.value)
    assert names(tmp_path) == ["a.zip.part", "a.zip.part.json"]
    get(server, "drops", tmp_path, tries=1)
    assert server.asked[1][1] is not None and names(tmp_path) == ["a.zip"]


def test_a_file_that_changed_on_the_server_is_taken_anew(server, tmp_path):
    changed = hashlib.sha256(CONTENT[::-1]).hexdigest()
    assert get(server, "changes", tmp_path, sha=changed) == changed
    assert (tmp_path / "a.zip").read_bytes() == CONTENT[::-1]


def test_a_range_that_starts_elsewhere_is_refused(server, tmp_path):
    with pytest.raises(InputError, match="asked for bytes from"):
        get(server, "shifted", tmp_path, tries=2)
    assert not (tmp_path / "a.zip").exists()


def test_wrong_bytes_are_thrown_away(server, tmp_path):
    with pytest.raises(InputError, match=rf"not the published file.*expected {SHA}"):
        get(server, "wrong", tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("how", ["hangs", "stalls"])
def test_a_server_that_hangs_is_given_up(server, tmp_path, how):
    if how == "stalls":  # hangs once in the middle, then works
        assert get(server, how, tmp_path, timeout=0.3) == SHA
        assert server.asked[1][1] == "bytes=1000-"
    else:
        with pytest.raises(InputError, match=r"timed out.*tried 2 times"):
            get(server, how, tmp_path, timeout=0.3, tries=2)
        assert names(tmp_path) == []


def test_a_missing_file_is_asked_for_once(server, tmp_path):
    with pytest.raises(InputError, match=r"HTTP 404 .*tried 1 times"):
        get(server, "missing", tmp_path)
    assert len(server.asked) == 1


def test_no_room_on_the_disk(server, tmp_path):
    with pytest.raises(InputError, match=r"no room for a\.zip\.part"):
        get(server, "huge", tmp_path)
    assert not (tmp_path / "a.zip").exists()


def test_a_file_that_is_there_is_checked_and_not_asked_for(server, tmp_path):
    (tmp_path / "a.zip").write_bytes(CONTENT)
    assert get(server, "good", tmp_path) == SHA and server.asked == []
    (tmp_path / "a.zip").write_bytes(b"other")
    with pytest.raises(InputError, match="remove it and fetch again"):
        get(server, "good", tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == b"other"  # the user's file is not ours to delete


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a/b", "a.zip"])
def test_other_addresses_are_refused(tmp_path, url):
    with pytest.raises(InputError, match="http"):
        download.download(Remote(url, tmp_path / "a"))


def test_refused_connections_are_one_error(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        remote = Remote(f"http://127.0.0.1:{free.getsockname()[1]}/a", tmp_path / "a")
        with pytest.raises(InputError, match="cannot download"):
            download.download(remote, tries=2, pause=lambda seconds: None)


# Data sets


def test_fetch_keeps_the_first_checksum_and_says_when_it_changes(server, tmp_path):
    base = f"{server.address}/good"
    rows = fetch.fetch("sepsis", tmp_path, base=base)
    assert [Path(row["file"]).name for row in rows] == ["training_setA.zip", "training_setB.zip"]
    assert "is kept in" in rows[0]["compared"]
    assert json.loads((tmp_path / "sepsis" / "training_setA.zip.sha256.json").read_text())["sha256"] == SHA
    assert "equals the one first seen" in fetch.fetch("sepsis", tmp_path, base=base)[0]["compared"]
    (tmp_path / "sepsis" / "training_setA.zip").unlink()
    server.content = CONTENT[::-1]
    assert "DIFFERS" in fetch.fetch("sepsis", tmp_path, base=base)[0]["compared"]


def test_a_known_checksum_is_required(server, tmp_path):
    with pytest.raises(InputError, match="not the published file"):
        fetch.fetch("speech-commands", tmp_path, base=f"{server.address}/good")


def test_fetch_and_extract(server, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("Toy_TRAIN.ts", "a")
        file.writestr("more/Toy_TEST.ts", "b")
    server.content = packed.getvalue()
    row = fetch.fetch("uea:Toy", tmp_path, base=f"{server.address}/good", unpack=True)[0]
    assert row["files"] == 2 and (tmp_path / "uea" / "Toy" / "more" / "Toy_TEST.ts").read_text() == "b"


@pytest.mark.parametrize(("name", "word"), [("hopper", "comes with"), ("mujoco", "data make"), ("nothing", "no data set")])
def test_what_is_not_downloaded_says_how_to_get_it(tmp_path, name, word):
    with pytest.raises(InputError, match=word):
        fetch.fetch(name, tmp_path)


# Archives


def make_tar(path: Path, *members: tuple[str, bytes | None, bytes]) -> Path:
    """Members are (name, content, type); a link points to /etc/passwd."""
    with tarfile.open(path, "w:gz") as file:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc/passwd", len(content or b"")
            file.addfile(info, io.BytesIO(content or b""))
    return path


def make_zip(path: Path, *names: str, link: bool = False) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if link else 0o100644) << 16
            file.writestr(info, "content")
    return path


BAD_NAMES = ["../a", "a/../../b", "/etc/passwd", "..\\a", "C:\\a", "c:/a"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_that_point_outside(tmp_path, name, kind):
    home = tmp_path / "in"
    home.mkdir()
    regular = (b"content", tarfile.REGTYPE)
    path = make_zip(home / "a.zip", "fine", name) if kind == "zip" else make_tar(home / "a.tar.gz", (name, *regular))
    with pytest.raises(InputError, match="points outside"):
        archive.extract(path, home / "out")
    assert names(home) == [path.name] and names(tmp_path) == ["in"]


def test_a_file_without_a_name(tmp_path):
    """As flipped bits make it; the campaign of faults found it."""
    path = make_zip(tmp_path / "a.zip", "fine", "x")
    whole = path.read_bytes()
    at = whole.rindex(b"PK\x01\x02")  # the second entry of the list at the end, whose name is one byte long
    path.write_bytes(whole[: at + 28] + b"\0\0" + whole[at + 30 : at + 46] + whole[at + 47 :])
    with pytest.raises(InputError, match=r"has no name|truncated, or no such archive"):
        archive.extract(path, tmp_path / "out")
    with pytest.raises(InputError, match="has no name"):
        archive.check_name("", path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_tars(tmp_path, kind):
    path = make_tar(tmp_path / "a.tar.gz", ("fine", b"1", tarfile.REGTYPE), ("bad", None, kind))
    with pytest.raises(InputError, match="bad is a link or a device"):
        archive.extract(path, tmp_path / "out")
    assert names(tmp_path) == ["a.tar.gz"]


def test_links_in_zips(tmp_path):
    with pytest.raises(InputError, match="is a link"):
        archive.extract(make_zip(tmp_path / "a.zip", "bad", link=True), tmp_path / "out")
    assert names(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_archives_that_unpack_to_too_much(tmp_path, kind):
    data = bytes(10_000)
    path = tmp_path / ("a.zip" if kind == "zip" else "a.tar.gz")
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("zeros", data)
    else:
        make_tar(path, ("zeros", data, tarfile.REGTYPE))
    with pytest.raises(InputError, match="would unpack to more"):
        archive.extract(path, tmp_path / "out", largest=9_999)
    assert names(tmp_path) == [path.name]
    assert archive.extract(path, tmp_path / "out", largest=10_000) == 1


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_truncated_archives_leave_nothing(tmp_path, kind, keep):
    import random

    data = random.Random(0).randbytes(50_000)  # does not compress, so that the cut falls into the content
    path = tmp_path / ("a.zip" if kind == "zip" else "a.tar.gz")
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("noise", data)
    else:
        make_tar(path, ("noise", data, tarfile.REGTYPE))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(InputError, match=rf"{path.name}.*download it again"):
        archive.extract(path, tmp_path / "out")
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_folders_without_end(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    name = "a/" * 2000 + "f"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as made:
            made.writestr(name, "x")
    else:
        with tarfile.open(path, "w") as made:
            made.addfile(tarfile.TarInfo(name))
    with pytest.raises(InputError, match="2001 folders deep"):
        archive.extract(path, tmp_path / "out")
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_extract_never_overwrites(tmp_path):
    path = make_zip(tmp_path / "a.zip", "a")
    archive.extract(path, tmp_path / "out")
    with pytest.raises(InputError, match="is there already"):
        archive.extract(path, tmp_path / "out")


def test_extract_where_nothing_can_be_written(tmp_path):
    path = make_zip(tmp_path / "a.zip", "a")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot write"):
        archive.extract(path, tmp_path / "file" / "out")
    clash = make_zip(tmp_path / "b.zip", "a", "a/b")  # a file and a folder of one name
    with pytest.raises(InputError, match="cannot write"):
        archive.extract(clash, tmp_path / "out")
    assert names(tmp_path) == ["a.zip", "b.zip", "file"]
