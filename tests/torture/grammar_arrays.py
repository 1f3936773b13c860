"""Files of arrays that are mostly valid: npz, idx, CIFAR, STL-10, MedMNIST, SVHN."""

import gzip
import hashlib
import io
import math
import random
import struct
import zipfile
from typing import Any

import numpy as np
from cases import Case
from damage import damaged_bytes, damaged_files

TEXTS = ("no", "yes", "maybe", "é", "0", "a" * 40)
ODD_HEADERS = (
    "{}", "{'descr': '<f8'}", "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (10**30,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3)}",
    "{'descr': '<f8', 'fortran_order': 1, 'shape': [2]}",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '<U99999999', 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,)}", "(" * 3000, "'" * 100, "\x00",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (99999, 99999)}",
    "{'descr': '<V8', 'fortran_order': False, 'shape': ()}", "__import__('os').getpid()",
)  # fmt: skip


def npz_case(chance: random.Random) -> Case:
    """A user's npz file, with damage in a third of the cases."""
    n = chance.randrange(2, 30)
    arrays: dict[str, Any] = {chance.choice(("x", "X", "images", "features")): _features(chance, n)}
    labels, names = _labels(chance, n)
    arrays[chance.choice(("y", "Y", "labels"))] = labels
    if names is not None:
        arrays["class_names"] = names
    if chance.random() < 0.1:
        arrays["other"] = np.zeros(3)
    members = {f"{name}.npy": npy(chance, array) for name, array in arrays.items()}
    damaged = chance.random() < 0.33
    if damaged and chance.random() < 0.6:
        members = _damaged_members(chance, members)
    content = _zipped(chance, members)
    if damaged and chance.random() < 0.4:
        content = damaged_bytes(chance, content)
    decoded = 8 * sum(map(len, members.values()))
    later = {"later": chance.random() < 0.3}
    return Case("npz", {"data.npz": content}, later, decoded, damaged)


def medmnist_case(chance: random.Random) -> Case:
    """A file of MedMNIST, with damage in a third of the cases."""
    side, colour = chance.choice((4, 8, 28)), chance.random() < 0.4
    classes = chance.choice((2, 3, 9))
    members = {}
    for part in ("train", "val", "test"):
        n = chance.randrange(1, 6)
        shape = (n, side, side, 3) if colour else (n, side, side)
        pixels = np.frombuffer(chance.randbytes(int(np.prod(shape))), np.uint8).reshape(shape)
        y = np.array([[chance.randrange(classes)] for _ in range(n)])
        kind = chance.choice((np.uint8, np.int64))
        # Images column by column are refused: a few, to meet that.
        straight = chance.random() < 0.98
        members[f"{part}_images.npy"] = npy(chance, pixels, straight=straight)
        members[f"{part}_labels.npy"] = npy(chance, y.astype(kind))
    damaged = chance.random() < 0.33
    if damaged and chance.random() < 0.6:
        members = _damaged_members(chance, members)
    content = _zipped(chance, members)
    if damaged and chance.random() < 0.4:
        content = damaged_bytes(chance, content)
    decoded = 4 * sum(map(len, members.values()))
    return Case("medmnist", {"data.npz": content}, {}, decoded, damaged)


def idx_case(chance: random.Random) -> Case:
    """One idx file of any type and number of dimensions, with damage in a third of the cases."""
    element = chance.choice((0x08, 0x08, 0x09, 0x0B, 0x0C, 0x0D, 0x0E))
    shape = [chance.choice((1, 2, 3, 7)) for _ in range(chance.randrange(1, 5))]
    width = {0x08: 1, 0x09: 1, 0x0B: 2, 0x0C: 4, 0x0D: 4, 0x0E: 8}[element]
    content = struct.pack(f">HBB{len(shape)}I", 0, element, len(shape), *shape)
    content += chance.randbytes(width * math.prod(shape))
    zipped = chance.random() < 0.25
    damaged = chance.random() < 0.35
    inside = damaged and chance.random() < 0.5
    if inside:
        content = damaged_bytes(chance, content)
    content = gzip.compress(content, 1) if zipped else content
    if damaged and not inside:
        content = damaged_bytes(chance, content)
    return Case("idx", {"file": content}, {}, 2000 * len(content), damaged)


def records_file_case(chance: random.Random) -> Case:
    """One file of CIFAR's records, with damage in a third of the cases."""
    classes = chance.choice(((10,), (20, 100)))
    content = _records(chance, classes, chance.randrange(1, 4))
    damaged = chance.random() < 0.35
    content = damaged_bytes(chance, content) if damaged else content
    return Case("cifar", {"file": content}, {"classes": list(classes)}, 10 * len(content), damaged)


def mnist_case(chance: random.Random) -> Case:
    """MNIST's four files, plain or gzipped, with damage in a third of the cases."""
    rows, columns = chance.choice((1, 4, 28)), chance.choice((2, 4, 28))
    files = {}
    for part in ("train", "t10k"):
        n = chance.randrange(1, 6)
        images = struct.pack(">HBBIII", 0, 8, 3, n, rows, columns)
        images += chance.randbytes(n * rows * columns)
        labels = struct.pack(">HBBI", 0, 8, 1, n) + bytes(chance.randrange(10) for _ in range(n))
        for name, content in (("images-idx3", images), ("labels-idx1", labels)):
            zipped = chance.random() < 0.3
            content = gzip.compress(content, 1) if zipped else content
            files[f"{part}-{name}-ubyte{'.gz' if zipped else ''}"] = content
    return _maybe_damaged(chance, "mnist", files)


def cifar10_case(chance: random.Random) -> Case:
    """CIFAR-10's files, with damage in a third of the cases."""
    files = {
        f"{name}.bin": _records(chance, (10,), chance.randrange(1, 3))
        for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
    }
    files["batches.meta.txt"] = "\n".join(f"class {k}" for k in range(10)).encode() + b"\n"
    return _maybe_damaged(chance, "cifar10", files)


def cifar100_case(chance: random.Random) -> Case:
    """CIFAR-100's files, with damage in a third of the cases."""
    files = {name: _records(chance, (20, 100), chance.randrange(1, 4)) for name in TRAIN_AND_TEST}
    for kind, count in (("fine", 100), ("coarse", 20)):
        files[f"{kind}_label_names.txt"] = "\n".join(f"c{k}" for k in range(count)).encode()
    options = {"labels": chance.choice(("fine", "coarse"))}
    return _maybe_damaged(chance, "cifar100", files, options)


TRAIN_AND_TEST = ("train.bin", "test.bin")


def stl10_case(chance: random.Random) -> Case:
    """STL-10's files, with damage in a third of the cases."""
    files = {"class_names.txt": "\n".join(f"c{k}" for k in range(10)).encode()}
    pixels = 3 * 96 * 96
    for part in ("train", "test", "unlabeled"):
        n = chance.randrange(1, 3)
        files[f"{part}_X.bin"] = chance.randbytes(16) * (n * pixels // 16)
        if part != "unlabeled":
            files[f"{part}_y.bin"] = bytes(chance.randrange(1, 11) for _ in range(n))
    return _maybe_damaged(chance, "stl10", files)


def svhn_case(chance: random.Random) -> Case:
    """SVHN's MATLAB files: the publisher's, known by their checksums, and rebuilt ones."""
    import scipy.io

    files = {}
    for part in ("train", "test"):
        n = chance.randrange(1, 4)
        pixels = np.frombuffer(chance.randbytes(3072 * n), np.uint8).reshape(32, 32, 3, n)
        y = np.array([[chance.randrange(1, 11)] for _ in range(n)], np.uint8)
        buffer = io.BytesIO()
        scipy.io.savemat(buffer, {"X": pixels, "y": y}, do_compression=chance.random() < 0.3)
        files[f"{part}_32x32.mat"] = buffer.getvalue()
    sums = {
        name: f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"
        for name, content in files.items()
    }
    checksums = sums if chance.random() < 0.2 else None
    return _maybe_damaged(chance, "svhn", files, {"checksums": checksums})


def _maybe_damaged(
    chance: random.Random, kind: str, files: dict[str, bytes], options: Any = None
) -> Case:
    damaged = chance.random() < 0.35
    decoded = 10 * sum(map(len, files.values()))
    if damaged:
        files = damaged_files(chance, files)
    return Case(kind, files, options or {}, decoded, damaged)


def _records(chance: random.Random, classes: tuple[int, ...], n: int) -> bytes:
    pixels = chance.randbytes(64) * 48
    return b"".join(bytes(chance.randrange(count) for count in classes) + pixels for _ in range(n))


def _features(chance: random.Random, n: int) -> Any:
    kind = chance.choice(("images", "grey", "channels first", "table", "table", "wide"))
    side = chance.choice((4, 8, 16))
    shapes = {
        "images": (n, side, side, 3), "grey": (n, side, side), "channels first": (n, 3, side, side),
        "table": (n, chance.randrange(1, 6)), "wide": (n, 2, 3),
    }  # fmt: skip
    shape = shapes[kind]
    if kind in ("table", "wide"):
        made = np.random.default_rng(chance.randrange(2**32)).normal(size=shape)
        return made.astype(chance.choice((np.float64, np.float32, np.float16, np.int16, ">f8")))
    return np.frombuffer(chance.randbytes(int(np.prod(shape))), np.uint8).reshape(shape)


def _labels(chance: random.Random, n: int) -> tuple[Any, Any]:
    kind = chance.choice(("numbers", "numbers", "texts", "floats", "named", "column"))
    codes = np.array([0, 1, *(chance.randrange(-1, 3) for _ in range(n))])[:n]
    if kind == "texts":
        return np.array(["" if code < 0 else TEXTS[code] for code in codes]), None
    if kind == "floats":
        return np.where(codes < 0, np.nan, codes.astype(float)), None
    if kind == "named":
        return codes, np.array(TEXTS[:3])
    return (codes[:, None] if kind == "column" else codes), None


def npy(chance: random.Random, array: Any, *, straight: bool = False) -> bytes:
    """An array as numpy.save writes it, in one of its versions."""
    buffer = io.BytesIO()
    if not straight and array.ndim > 1 and chance.random() < 0.2:
        array = np.asfortranarray(array)
    version = chance.choice((None, None, (1, 0), (2, 0), (3, 0)))
    np.lib.format.write_array(buffer, array, version=version, allow_pickle=False)
    return buffer.getvalue()


def with_odd_header(chance: random.Random, content: bytes) -> bytes:
    """An npy file whose header states something odd."""
    header = chance.choice(ODD_HEADERS).encode("latin1") + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    return start + content[128:]


def _damaged_members(chance: random.Random, members: dict[str, bytes]) -> dict[str, bytes]:
    name = chance.choice(sorted(members))
    kind = chance.randrange(4)
    if kind == 0:
        return {**members, name: with_odd_header(chance, members[name])}
    if kind == 1:
        odd = chance.choice(("x", "y.npy", "../up.npy", "é.npy", "y.npy.npy", "a" * 300))
        return {**members, odd: members[name]}
    return damaged_files(chance, members)


def _zipped(chance: random.Random, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    kind = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(buffer, "w", kind, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return buffer.getvalue()
