"""Downloads against a real server on this machine: whole, broken off, without ranges, wrong."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from dessl.data.download import download, extract
from dessl.data.errors import DataError

CONTENT = np.random.default_rng(0).integers(0, 256, 3_000_000, np.uint8).tobytes()
MD5 = f"md5:{hashlib.md5(CONTENT).hexdigest()}"
pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])


class Server(ThreadingHTTPServer):
    """Serves CONTENT; says what it was asked for and misbehaves as told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []  # the Range of each request
        self.sent = 0
        self.content = CONTENT
        self.ranges = True
        self.break_after: list[int] = []  # bytes to send before breaking off, one a request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if self.path != "/data.bin":
            self.send_error(404)
            return
        start = 0
        if wanted and server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
            self.send_response(206)
            last = len(server.content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(server.content)}")
        else:
            self.send_response(200)
        body = server.content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.break_after:
            body = body[: server.break_after.pop(0)]
        server.sent += len(body)
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_and_named_when_complete(tmp_path: Path, server: Server) -> None:
    target = tmp_path / "deep" / "er" / "data.bin"
    download([server.url], target, checksum=MD5, progress=False)
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["data.bin"]
    assert server.asked == [None]


def test_a_file_put_there_by_hand_is_taken_if_it_is_right(tmp_path: Path, server: Server) -> None:
    target = tmp_path / "data.bin"
    target.write_bytes(CONTENT)
    download([server.url], target, checksum=MD5, progress=False)
    assert server.asked == []
    target.write_bytes(CONTENT[:-1])
    download([server.url], target, checksum=MD5, progress=False)
    assert target.read_bytes() == CONTENT
    assert server.asked == [None]


def test_a_broken_download_goes_on_where_it_stopped(tmp_path: Path, server: Server) -> None:
    server.break_after = [1_000_000, 700_000]
    target = tmp_path / "data.bin"
    download([server.url], target, checksum=MD5, progress=False)
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=1000000-", "bytes=1700000-"]
    assert server.sent == len(CONTENT)


def test_a_later_call_goes_on_where_the_first_gave_up(tmp_path: Path, server: Server) -> None:
    server.break_after = [1_000_000, 0]
    target = tmp_path / "data.bin"
    with pytest.raises(DataError, match=r"stopped after 1,000,000 of 3,000,000 bytes.*by hand"):
        download([server.url], target, checksum=MD5, progress=False)
    assert not target.exists()
    assert (tmp_path / "data.bin.part").stat().st_size == 1_000_000
    download([server.url], target, checksum=MD5, progress=False)
    assert target.read_bytes() == CONTENT
    assert server.sent == len(CONTENT)


def test_without_ranges_the_download_begins_anew(tmp_path: Path, server: Server) -> None:
    server.ranges = False
    server.break_after = [1_000_000]
    target = tmp_path / "data.bin"
    download([server.url], target, checksum=MD5, progress=False)
    assert target.read_bytes() == CONTENT
    assert server.sent == len(CONTENT) + 1_000_000


def test_wrong_bytes_are_not_left_in_place(tmp_path: Path, server: Server) -> None:
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    target = tmp_path / "data.bin"
    with pytest.raises(DataError, match=f"does not have the checksum {MD5}"):
        download([server.url], target, checksum=MD5, progress=False)
    assert list(tmp_path.iterdir()) == []
    assert server.asked == [None]


@pytest.mark.parametrize("size", [500, len(CONTENT), len(CONTENT) + 7])
def test_a_part_of_some_other_file_does_no_harm(tmp_path: Path, server: Server, size: int) -> None:
    (tmp_path / "data.bin.part").write_bytes(bytes(size))
    download([server.url], tmp_path / "data.bin", checksum=MD5, progress=False)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert server.asked == [f"bytes={size}-", None]


def test_mirrors_are_tried_in_turn(tmp_path: Path, server: Server) -> None:
    target = tmp_path / "data.bin"
    absent = server.url.replace("data.bin", "absent")
    download(["ftp://127.0.0.1/data", absent, server.url], target, checksum=MD5, progress=False)
    assert target.read_bytes() == CONTENT
    with pytest.raises(DataError, match=r"only http and https.*absent: HTTP Error 404"):
        download(["file:///etc/hosts", absent], tmp_path / "b", checksum=MD5, progress=False)


def test_progress_is_drawn_on_stderr_alone(
    tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    download([server.url], tmp_path / "data.bin", checksum=MD5, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "data.bin" in err
    download([server.url], tmp_path / "again.bin", checksum=MD5, progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, server: Server) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(
        DataError, match=r"a folder that can be written to; got .*\. Check the path"
    ):
        download([server.url], tmp_path / "file" / "data", checksum=MD5, progress=False)


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_only_the_named_members_leave_the_archive(tmp_path: Path) -> None:
    members = {"in/a.bin": b"a" * 3_000_000, "in/b.bin": b"", "../evil": b"x", "in/c": b"c"}
    out = tmp_path / "out"
    extract(archive(tmp_path / "x.tar.gz", members), out, ["in/a.bin", "in/b.bin"])
    assert (out / "in" / "a.bin").read_bytes() == members["in/a.bin"]
    assert sorted(path.name for path in out.rglob("*")) == ["a.bin", "b.bin", "in"]
    assert not (tmp_path / "evil").exists()


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {"a": np.random.default_rng(0).bytes(5000)})
    with pytest.raises(DataError, match=r"expected the member b; got none"):
        extract(path, tmp_path, ["a", "b"])
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"x.tar.gz: expected .*intact copy"):
        extract(path, tmp_path / "out", ["a"])
    assert not (tmp_path / "out" / "a").exists()
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="expected a tar archive"):
        extract(path, tmp_path, ["a"])


def test_a_link_is_no_member(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        info = tarfile.TarInfo("a")
        info.type = tarfile.SYMTYPE
        info.linkname = "../../secret"
        tar.addfile(info)
    with pytest.raises(DataError, match="expected the member a; got none"):
        extract(tmp_path / "x.tar", tmp_path / "out", ["a"])
    assert not (tmp_path / "out" / "a").exists()
