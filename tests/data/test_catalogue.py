import dataclasses
import gzip
import hashlib
import re
import struct
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from sklearn.datasets import load_digits

from dessl.data import catalogue
from dessl.data.catalogue import DATASETS, fetch, find, load
from dessl.data.errors import DataError
from dessl.data.formats.svhn import CHECKSUMS
from dessl.data.publishers import RemoteFile

NAMES = (
    "mnist cifar10 cifar100 svhn stl10 dermamnist pneumoniamnist retinamnist breastmnist "
    "bloodmnist digits toy"
)

REAL_CACHE = catalogue._cache


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No DESSL_DATA and an empty cache, so that only what a test lays out is found."""
    monkeypatch.delenv("DESSL_DATA", raising=False)
    monkeypatch.setattr(catalogue, "_cache", lambda: tmp_path / "cache")


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve a folder over HTTP on this machine; give the address."""
    servers = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    def start(folder: Path) -> str:
        handler = partial(Quiet, directory=str(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def shrink(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """Let the catalogue expect the small files of a test."""
    monkeypatch.setitem(DATASETS, name, dataclasses.replace(DATASETS[name], **changes))


def write_mnist(folder: Path, *, gz: bool = True, first: int = 0) -> None:
    folder.mkdir(parents=True)
    for part, n in (("train", 4), ("t10k", 2)):
        images = np.full((n, 28, 28), first, np.uint8).tobytes()
        files = {
            f"{part}-images-idx3-ubyte": struct.pack(">HBB3I", 0, 8, 3, n, 28, 28) + images,
            f"{part}-labels-idx1-ubyte": struct.pack(">HBBI", 0, 8, 1, n) + bytes(range(n)),
        }
        for file, data in files.items():
            if gz:
                (folder / f"{file}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / file).write_bytes(data)


def write_medmnist(path: Path, value: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for part, n in (("train", 7), ("val", 2), ("test", 3)):
        arrays[f"{part}_images"] = np.full((n, 28, 28, 3), value, np.uint8)
        arrays[f"{part}_labels"] = np.arange(n, dtype=np.uint8)[:, None] % 7
    np.savez(path, **arrays)


def test_every_entry_is_complete() -> None:
    assert sorted(DATASETS) == sorted(NAMES.split())
    for description in DATASETS.values():
        assert len(set(description.class_names)) == len(description.class_names) >= 2
        assert len(description.shape) in (1, 3)
        assert description.title
        assert description.licence
        assert description.citation
        for file in description.remote:
            assert re.fullmatch(r"md5:[0-9a-f]{32}", file.checksum)
            assert all(url.startswith(("https://", "http://")) for url in file.urls)
            assert not Path(file.path).is_absolute()
    assert len(DATASETS["cifar100"].class_names) == 100
    assert list(DATASETS["cifar100"].class_names) == sorted(DATASETS["cifar100"].class_names)


def test_unknown_names_are_answered_with_the_known() -> None:
    with pytest.raises(ValueError, match=r"name must be one of 'mnist', 'cifar10'.*got 'imagenet'"):
        load("imagenet")


def test_digits_need_no_files() -> None:
    data = load("digits", download=False)
    assert data.test is not None
    assert (data.n_labelled, len(data.test.y)) == (1437, 360)
    bunch = load_digits()
    scaled = torch.from_numpy(np.rint(bunch.images * 255 / 16)).to(torch.uint8)
    ours = torch.cat([data.x, data.test.x])[:, 0]
    labels = torch.cat([data.y, data.test.y])
    key = [(*image.flatten().tolist(), y) for image, y in zip(ours, labels.tolist(), strict=True)]
    all_rows = zip(scaled, bunch.target.tolist(), strict=True)
    assert sorted(key) == sorted((*image.flatten().tolist(), y) for image, y in all_rows)
    again = load("digits", download=False)
    assert torch.equal(again.x, data.x)
    counts = torch.bincount(data.test.y, minlength=10)
    assert int(counts.min()) >= 20  # no class is lost to the test part, nor left out of it


def test_toy_is_the_papers_size() -> None:
    data = load("toy", download=False)
    assert (data.n_labelled, data.n_unlabelled, data.name) == (25_000, 25_000, "toy")


@pytest.mark.parametrize("gz", [True, False])
def test_root_comes_before_the_variable_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gz: bool
) -> None:
    shrink(monkeypatch, "mnist", sizes=(4, 0, 2))
    assert find("mnist") is None
    for value, place in ((3, "cache"), (2, "variable"), (1, "root")):
        write_mnist(tmp_path / place / "mnist", gz=gz, first=value)
        if place == "variable":
            monkeypatch.setenv("DESSL_DATA", str(tmp_path / "variable"))
        root = tmp_path / "root" if place == "root" else None
        data = load("mnist", root=root, download=False)
        assert int(data.x[0, 0, 0, 0]) == value
        assert find("mnist", root=root) == (tmp_path / place, False)
    assert data.y.tolist() == [0, 1, 2, 3]
    assert data.name == "mnist"


def test_an_absent_set_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESSL_DATA", str(tmp_path / "variable"))
    with pytest.raises(DataError, match=r"svhn: expected its files on disk") as caught:
        load("svhn", root=tmp_path / "root", download=False)
    message = str(caught.value)
    for part in (
        f"below {tmp_path / 'root'} or {tmp_path / 'variable'} or {tmp_path / 'cache'}",
        "svhn/train_32x32.mat",
        "svhn/test_32x32.mat",
        "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
        "svhn_rebuilt with train_32x32.mat and test_32x32.mat",
        "svhn_rebuilt.npz",
        "set DESSL_DATA",
        "download=True",
    ):
        assert part in message
    with pytest.raises(DataError) as caught:
        load("mnist", root=tmp_path / "root", download=False)
    assert "rebuilt" not in str(caught.value)


def test_half_a_set_is_not_taken_for_one(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert find("mnist", root=tmp_path) is None


def test_files_of_another_size_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist")
    with pytest.raises(DataError, match=r"expected \(60000, 0, 10000\) rows .*got \(4, 0, 2\)"):
        load("mnist", root=tmp_path, download=False)


def test_a_rebuilt_file_stands_in_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, "dermamnist", sizes=(7, 2, 3))
    write_medmnist(tmp_path / "medmnist" / "dermamnist_rebuilt.npz", 5)
    with pytest.warns(UserWarning, match="not the publisher's file but rebuilt") as caught:
        data = load("dermamnist", root=tmp_path)
    assert caught[0].filename == __file__
    assert data.name == "dermamnist (rebuilt)"
    assert int(data.x[0, 0, 0, 0]) == 5
    write_medmnist(tmp_path / "cache" / "medmnist" / "dermamnist.npz", 9)
    data = load("dermamnist", root=tmp_path)  # the publisher's, wherever it lies; no warning
    assert data.name == "dermamnist"
    assert int(data.x[0, 0, 0, 0]) == 9
    assert data.validation is not None
    assert data.class_names[4] == "melanoma"


def test_a_rebuilt_svhn_has_no_validation_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, "svhn", sizes=(10, 0, 4))
    arrays = {}
    for part, n in (("train", 10), ("test", 4)):
        arrays[f"{part}_images"] = np.full((n, 32, 32, 3), n, np.uint8)
        arrays[f"{part}_labels"] = (np.arange(n) % 10).astype(np.uint8)[:, None]
    np.savez(tmp_path / "svhn_rebuilt.npz", **arrays)
    with pytest.warns(UserWarning, match="not the publisher's file but rebuilt"):
        data = load("svhn", root=tmp_path)
    assert data.name == "svhn (rebuilt)"
    assert data.validation is None
    assert data.y.tolist() == list(range(10))
    assert data.test is not None
    assert int(data.test.x[0, 0, 0, 0]) == 4


@pytest.mark.parametrize(
    ("platform", "variable", "value", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "/fast/cache", "/fast/cache/dessl"),
        ("linux", "XDG_CACHE_HOME", "", "/home/ada/.cache/dessl"),
        ("darwin", "XDG_CACHE_HOME", "/fast/cache", "/home/ada/Library/Caches/dessl"),
        ("win32", "LOCALAPPDATA", "/local", "/local/dessl/dessl/Cache"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, value: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv(variable, value)
    assert REAL_CACHE() == Path(expected)


def write_svhn(folder: Path, **sizes: int) -> None:
    folder.mkdir()
    for part, n in sizes.items():
        digits = (np.arange(n) % 10).astype(np.uint8)
        arrays = {
            "X": np.broadcast_to(digits, (32, 32, 3, n)),
            "y": np.where(digits == 0, 10, digits)[:, None],
        }
        scipy.io.savemat(folder / f"{part}_32x32.mat", arrays)


def test_svhn_must_be_the_publishers_outside_the_folder_of_rebuilt_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch, "svhn", sizes=(12, 0, 3))
    write_svhn(tmp_path / "svhn", train=12, test=3)
    with pytest.raises(
        DataError, match=r"train_32x32.mat: expected .* the checksum md5:e26d.* svhn_rebuilt"
    ):
        load("svhn", root=tmp_path, download=False)
    (tmp_path / "svhn").rename(tmp_path / "svhn_rebuilt")
    with pytest.warns(UserWarning, match="svhn_rebuilt is not the publisher's file but rebuilt"):
        data = load("svhn", root=tmp_path, download=False)
    assert find("svhn", root=tmp_path) == (tmp_path, True)
    assert data.name == "svhn (rebuilt)"
    assert data.y.tolist() == [*range(10), 0, 1]
    assert torch.equal(data.x.float().mean((1, 2, 3)), data.y.float())
    assert data.validation is None
    assert data.test is not None
    assert data.test.y.tolist() == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:.*rebuilt")
@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ({"train": 12}, r"svhn_rebuilt.test_32x32.mat: expected a MATLAB file.*got no such file"),
        ({}, r"svhn_rebuilt.train_32x32.mat: expected a MATLAB file.*got no such file"),
        ({"train": 12, "test": 4}, r"svhn \(rebuilt\): expected \(12, 0, 3\).*got \(12, 0, 4\)"),
    ],
)
def test_a_rebuilt_svhn_must_be_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], complaint: str
) -> None:
    shrink(monkeypatch, "svhn", sizes=(12, 0, 3))
    write_svhn(tmp_path / "svhn_rebuilt", **sizes)
    with pytest.raises(DataError, match=complaint):
        load("svhn", root=tmp_path)


def test_only_named_sets_may_be_rebuilt(tmp_path: Path) -> None:
    write_medmnist(tmp_path / "medmnist" / "retinamnist_rebuilt.npz")
    assert find("retinamnist", root=tmp_path) is None


def test_sets_that_are_not_here_are_read_in_their_publishers_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for folder in ("cifar-100-binary", "svhn", "stl10_binary"):
        (tmp_path / folder).mkdir()
    for part, n in (("train", 3), ("test", 2)):
        records = rng.integers(0, 20, (n, 3074), np.uint8)
        records.tofile(tmp_path / "cifar-100-binary" / f"{part}.bin")
        arrays = {"X": rng.integers(0, 256, (32, 32, 3, n), np.uint8), "y": np.ones((n, 1))}
        file = tmp_path / "svhn" / f"{part}_32x32.mat"
        scipy.io.savemat(file, arrays)
        monkeypatch.setitem(
            CHECKSUMS, file.name, f"md5:{hashlib.md5(file.read_bytes()).hexdigest()}"
        )
        pixels = rng.integers(0, 256, n * 3 * 96 * 96, np.uint8)
        pixels.tofile(tmp_path / "stl10_binary" / f"{part}_X.bin")
        (tmp_path / "stl10_binary" / f"{part}_y.bin").write_bytes(bytes([10] * n))
    pixels.tofile(tmp_path / "stl10_binary" / "unlabeled_X.bin")
    for folder, file, name in (
        ("cifar-100-binary", "fine_label_names.txt", "cifar100"),
        ("stl10_binary", "class_names.txt", "stl10"),
    ):
        (tmp_path / folder / file).write_text("\n".join(DATASETS[name].class_names))
    for name, sizes in (("cifar100", (3, 0, 2)), ("svhn", (3, 0, 2)), ("stl10", (5, 0, 2))):
        shrink(monkeypatch, name, sizes=sizes)
        data = load(name, root=tmp_path, download=False)
        assert tuple(data.x.shape[1:]) == DATASETS[name].shape
        assert data.class_names == DATASETS[name].class_names
        assert (data.n_labelled, data.n_unlabelled) == (3, sizes[0] - 3)
    assert data.y.tolist() == [9, 9, 9, -1, -1]


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_absent_files_are_fetched_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[Path], str]
) -> None:
    made = tmp_path / "publisher"
    write_mnist(made / "mnist")
    address = serve(made)
    remote = tuple(
        RemoteFile(
            file.path,
            (f"{address}/{file.path}",),
            f"md5:{hashlib.md5((made / file.path).read_bytes()).hexdigest()}",
        )
        for file in DATASETS["mnist"].remote
    )
    shrink(monkeypatch, "mnist", sizes=(4, 0, 2), remote=remote)
    data = load("mnist", progress=False)
    assert data.y.tolist() == [0, 1, 2, 3]
    assert find("mnist") == (tmp_path / "cache", False)
    damaged = tmp_path / "cache" / remote[0].path
    damaged.write_bytes(damaged.read_bytes()[:9])
    with pytest.raises(DataError, match="damaged or incomplete"):
        load("mnist", progress=False)
    fetch("mnist", progress=False)
    assert load("mnist", progress=False).y.tolist() == [0, 1, 2, 3]
    for file in made.rglob("*.gz"):
        file.unlink()
    assert fetch("mnist", progress=False) == tmp_path / "cache"  # nothing left to do
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.suffix == ".lock"]
    monkeypatch.setattr(catalogue, "_cache", lambda: tmp_path / "new cache")
    with pytest.raises(DataError, match=r"mnist: .*HTTP Error 404(.|\n)*Put these files below"):
        load("mnist", root=tmp_path / "other", progress=False)


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_archives_are_unpacked_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[Path], str]
) -> None:
    source = tmp_path / "publisher"
    folder = source / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"):
        np.ones((2, 3073), np.uint8).tofile(folder / name)
    (folder / "batches.meta.txt").write_text("\n".join(DATASETS["cifar10"].class_names))
    (folder / "readme.html").write_text("not wanted")
    packed = source / "cifar-10-binary.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(folder, arcname="cifar-10-batches-bin")
    old = DATASETS["cifar10"].remote[0]
    checksum = f"md5:{hashlib.md5(packed.read_bytes()).hexdigest()}"
    url = f"{serve(source)}/cifar-10-binary.tar.gz"
    new = RemoteFile(old.path, (url,), checksum, old.members)
    shrink(monkeypatch, "cifar10", sizes=(10, 0, 2), remote=(new,))
    (tmp_path / "by hand").mkdir()
    (tmp_path / "by hand" / packed.name).write_bytes(packed.read_bytes())
    shrink(monkeypatch, "cifar10", remote=(dataclasses.replace(new, urls=("http://no.where/x",)),))
    assert load("cifar10", root=tmp_path / "by hand", progress=False).y.tolist() == [1] * 10
    shrink(monkeypatch, "cifar10", remote=(new,))
    data = load("cifar10", root=tmp_path / "root", progress=False)
    assert data.y.tolist() == [1] * 10
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["cifar-10-batches-bin"]
    assert len(list((tmp_path / "root" / "cifar-10-batches-bin").iterdir())) == 7
