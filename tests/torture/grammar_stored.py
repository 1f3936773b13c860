"""Stored rows that are mostly valid: npy files, raw numbers, Parquet, tar files, folders of images.

Tar files may come with the index that an earlier reading left, damaged as well.
"""

import io
import random
import tarfile
from typing import Any

import numpy as np
from cases import Case
from damage import damaged_bytes, damaged_files
from grammar_arrays import npy, with_odd_header
from grammar_images import image

RAW_KINDS = ("uint8", "float32", "<f8", ">i2", "float16")
SIDES = (4, 8, 9)
ODD_MEMBERS = ("notes.txt", "../up.png", "/abs.png", "a/b.png", "é.png", "\x1b[2J.png", "x" * 180)
ODD_SIZES = (0, 1, -1, 511, 2**33, 2**60, 2**63, -(2**40))
INDEX = "index"  # folder of the case with the places of images in tar files


def stored_case(chance: random.Random) -> Case:
    """Stored rows of one kind, with damage in a third of the cases."""
    make = chance.choice((_npy, _raw, _parquet, _tar, _tar, _tar, _images))
    damaged = chance.random() < 0.35
    files, options = make(chance, damaged)
    if damaged and chance.random() < 0.5:
        files = damaged_files(chance, files)
    decoded = 400_000 + 60 * sum(map(len, files.values()))
    return Case("stored", files, options, decoded, damaged)


Made = tuple[dict[str, bytes], dict[str, Any]]


def _npy(chance: random.Random, damaged: bool) -> Made:
    shape = chance.choice(((3,), (1,), (2, 3), (3, 4, 4), (4, 4, 1)))
    kind = np.uint8 if len(shape) == 3 else chance.choice((np.float32, np.float16, np.int32))
    made = np.random.default_rng(chance.randrange(2**32))
    files = {}
    for number in range(chance.randrange(1, 4)):
        rows = (40 * made.random((chance.randrange(1, 30), *shape))).astype(kind)
        files[f"rows/{number}.npy"] = npy(chance, rows, straight=chance.random() < 0.9)
    if damaged:
        name = chance.choice(sorted(files))
        files[name] = with_odd_header(chance, files[name])
    layout = chance.choice((None, None, None, "NCHW", "NHWC")) if len(shape) == 3 else None
    return files, {"source": chance.choice(("rows", "rows/*.npy")), "layout": layout}


def _raw(chance: random.Random, damaged: bool) -> Made:
    kind, shape = chance.choice(RAW_KINDS), chance.choice(((2,), (3, 2), (1, 4, 4)))
    size = np.dtype(kind).itemsize * int(np.prod(shape))
    rows = [bytes(size * chance.randrange(1, 20)) for _ in range(chance.choice((1, 2)))]
    files = {f"rows/{number}.bin": content for number, content in enumerate(rows)}
    if damaged and chance.random() < 0.5:
        odd = chance.choice(("O", "U3", "x", "V4", "complex64", "bool", "i8,f4", "float32x", ""))
        kind = odd
    elif damaged:
        shape = chance.choice(((), (0,), (2**40,), (7,), (-1,), (2**20, 2**20, 2**20)))
    return files, {"source": "rows", "dtype": kind, "shape": list(shape)}


def _parquet(chance: random.Random, damaged: bool) -> Made:
    import pyarrow as pa
    from pyarrow import parquet

    n = chance.randrange(1, 40)
    columns: dict[str, Any] = {}
    for name in chance.sample(("a", "b", "c d", "é"), chance.randrange(1, 4)):
        width = chance.choice((0, 0, 2, 3))
        value = pa.float32() if chance.random() < 0.5 else pa.int64()
        cells = [_cell(chance, width) for _ in range(n)]
        kind = value if not width else chance.choice((pa.list_(value), pa.list_(value, width)))
        columns[name] = pa.array(cells, kind)
    buffer = io.BytesIO()
    size = chance.choice((1, 7, 1000))
    parquet.write_table(pa.table(columns), buffer, row_group_size=size)
    files = {"rows/0.parquet": buffer.getvalue()}
    if chance.random() < 0.3:
        files["rows/1.parquet"] = buffer.getvalue()
    if damaged:
        files["rows/0.parquet"] = damaged_bytes(chance, files["rows/0.parquet"])
    wanted = chance.sample(sorted(columns), 1) if chance.random() < 0.3 else None
    return files, {"source": "rows", "columns": wanted}


def _cell(chance: random.Random, width: int) -> Any:
    return [chance.randrange(9) for _ in range(width)] if width else chance.randrange(9)


def _tar(chance: random.Random, damaged: bool) -> Made:
    suffix, mode = chance.choice((("png", "L"), ("png", "RGB"), ("jpg", "RGB"), ("bmp", "RGB")))
    files = {}
    for number in range(chance.choice((1, 1, 2))):
        buffer = io.BytesIO()
        form = chance.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
        with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
            for member in range(chance.randrange(1, 5)):
                _add(tar, f"{member}.{suffix}", image(chance, suffix, mode))
                if chance.random() < 0.3:
                    _add(tar, f"{member}.cls", b"3")
            if damaged and chance.random() < 0.3:
                _add(tar, chance.choice(ODD_MEMBERS), image(chance, suffix, mode))
        files[f"rows/{number}.tar"] = buffer.getvalue()
    if damaged and chance.random() < 0.5:
        name = chance.choice(sorted(files))
        files[name] = _other_header(chance, files[name])
    options: dict[str, Any] = {"source": "rows"}
    if chance.random() < 0.4:
        options |= {"size": chance.choice(SIDES), "colour": chance.choice(("grey", "rgb"))}
    if chance.random() < 0.5:
        options["index"] = INDEX
        if damaged:
            options["spoil"] = chance.randrange(2**30)
    return files, options


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    try:
        tar.addfile(member, io.BytesIO(content))
    except ValueError:  # a name that this form of tar cannot have
        member.name = "long.png"
        tar.addfile(member, io.BytesIO(content))


def _other_header(chance: random.Random, content: bytes) -> bytes:
    """The first header of a tar file with another size or kind, and a sum that fits."""
    header = bytearray(content[:512])
    if chance.random() < 0.7:
        size = chance.choice(ODD_SIZES)
        if 0 <= size < 8**11:
            header[124:136] = b"%011o\0" % size
        else:  # in base 256
            header[124:136] = (size % 2**96 | 0x80 << 88).to_bytes(12, "big")
    else:
        header[156:157] = chance.choice((b"S", b"x", b"g", b"L", b"1", b"2", b"5", b"7", b"\0"))
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content[512:]


def _images(chance: random.Random, damaged: bool) -> Made:
    suffix, mode = chance.choice((("png", "L"), ("png", "RGB"), ("jpg", "RGB"), ("png", "I;16")))
    places = ("", "a/", "b/", "a/c d/")
    files = {
        f"rows/{chance.choice(places)}{number}.{suffix}": image(chance, suffix, mode)
        for number in range(chance.randrange(1, 6))
    }
    if damaged:
        name = chance.choice(sorted(files))
        files[name] = damaged_bytes(chance, files[name])
    return files, {"source": "rows", "size": chance.choice((None, *SIDES))}
