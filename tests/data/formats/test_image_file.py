"""One image file: what its header says, and its pixels."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.formats.test_folder import picture, save

from dessl.data.errors import DataError
from dessl.data.formats.folder import read_images
from dessl.data.formats.image_file import (
    MOST_IN_A_BYTE,
    facts_and_pixels,
    image_facts,
    largest_value,
    pixels,
)


@pytest.mark.parametrize("name", ["1.png", "1.tiff"])
def test_images_are_turned_upright(tmp_path: Path, name: str) -> None:
    pixels = picture(4, 6)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to show
    save(tmp_path / name, pixels, exif=exif)
    assert image_facts(tmp_path / name) == (6, 4, False, False)
    x = read_images([tmp_path / name]).x
    np.testing.assert_array_equal(x[0], np.moveaxis(np.rot90(pixels, -1), 2, 0))


@pytest.mark.parametrize("kind", ["tiff", "gif", "png", "webp"])
def test_files_of_several_images_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"1.{kind}"
    frames = [Image.fromarray(picture(9, 9)) for _ in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match=r"one image in each file; got 3 pages .*\. Split the file"):
        read_images([path])
    frames[0].save(path, save_all=True)
    assert read_images([path]).x.shape == (1, 3, 9, 9)


def test_the_previews_in_a_cameras_jpeg_are_passed_over(tmp_path: Path) -> None:
    frames = [Image.fromarray(picture(side, side)) for side in (16, 8)]
    frames[0].save(tmp_path / "1.jpg", "MPO", save_all=True, append_images=frames[1:])
    assert read_images([tmp_path / "1.jpg"]).x.shape == (1, 3, 16, 16)


def test_floats_have_no_agreed_range(tmp_path: Path) -> None:
    Image.fromarray(np.ones((3, 3), np.float32)).save(tmp_path / "1.tiff")
    with pytest.raises(DataError, match=r"8 or 16 bits per pixel; got mode F.*Convert"):
        read_images([tmp_path / "1.tiff"])


@pytest.mark.parametrize("mode", ["P", "RGBA", "LA", "1", "CMYK"])
def test_other_modes_are_converted_as_pillow_does(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(picture()).convert(mode)
    path = tmp_path / ("1.jpg" if mode == "CMYK" else "1.png")
    image.save(path)
    with Image.open(path) as again:
        expected = np.moveaxis(np.asarray(again.convert("RGB")), 2, 0)
    np.testing.assert_array_equal(read_images([path], colour="rgb").x[0], expected)


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header promises a picture and whose data is a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(10_000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("size", "complaint"),
    [
        (9_000, r"at most 67,108,864 pixels; got 9000 × 9000\. Make"),
        (11_000, "decompression bomb"),
        (2**30, "decompression bomb"),
    ],
)
def test_a_bomb_is_refused_before_it_is_decoded(
    tmp_path: Path, peak_bytes: Callable[..., int], size: int, complaint: str
) -> None:
    path = tmp_path / "1.png"
    path.write_bytes(png_of_size(size, size))

    def attempt() -> None:
        with pytest.raises(DataError, match=complaint):
            read_images([path])

    assert peak_bytes(attempt) < 2**22


@pytest.mark.parametrize(
    ("mode", "grey", "deep"),
    [("L", True, False), ("1", True, False), ("LA", True, False), ("RGB", False, False),
     ("P", False, False), ("I;16", True, True)],
)  # fmt: skip
def test_a_header_says_whether_an_image_is_grey_and_deep(
    tmp_path: Path, mode: str, grey: bool, deep: bool
) -> None:
    Image.new(mode, (7, 5)).save(tmp_path / "a.png")
    facts = image_facts(tmp_path / "a.png")
    assert facts == (5, 7, grey, deep)
    assert image_facts(Path("elsewhere"), content=(tmp_path / "a.png").read_bytes()) == facts
    found, small = facts_and_pixels(tmp_path / "a.png", None)
    assert found == facts
    assert (small is None) == deep
    assert deep or small.shape == ((1 if grey else 3), 5, 7)


@pytest.mark.parametrize("colour", ["grey", "rgb"])
def test_pixels_are_pillows_in_the_size_that_was_asked_for(tmp_path: Path, colour: Any) -> None:
    save(tmp_path / "a.png", picture(6, 8))
    with Image.open(tmp_path / "a.png") as image:
        mode = "L" if colour == "grey" else "RGB"
        small = image.convert(mode).resize((5, 3), Image.Resampling.BICUBIC)
    expected = np.asarray(small).reshape(3, 5, -1).transpose(2, 0, 1)
    found = pixels(tmp_path / "a.png", 3, 5, colour, 8)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)


def test_large_images_are_decoded_later(tmp_path: Path) -> None:
    for side, small in ((128, True), (129, False)):
        save(tmp_path / "a.png", picture(side, side, channels=1))
        assert (facts_and_pixels(tmp_path / "a.png", None)[1] is not None) == small


def test_the_upper_bits_of_a_deep_image_are_kept(tmp_path: Path) -> None:
    values = np.array([[0, 255, 4095], [16, 4096, 65535]], np.uint16)
    save(tmp_path / "a.png", values)
    assert largest_value(tmp_path / "a.png") == 65535
    found = pixels(tmp_path / "a.png", 2, 3, "grey", 12)
    assert found.tolist() == [[[0, 15, 255], [1, 255, 255]]]
    assert pixels(tmp_path / "a.png", 2, 3, "grey", 16).tolist() == [[[0, 0, 15], [0, 16, 255]]]


def test_values_without_a_standard_range_are_refused(tmp_path: Path) -> None:
    for values in (np.array([[-1, 5]], np.int32), np.array([[0, 2**16]], np.int32)):
        save(tmp_path / "a.tiff", values)
        with pytest.raises(DataError, match="expected 8 or 16 bits per pixel; got mode I with"):
            largest_value(tmp_path / "a.tiff")


def test_a_limit_of_the_user_s_own(tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture(6, 8))
    assert image_facts(tmp_path / "a.png", max_pixels=48).width == 8
    with pytest.raises(DataError, match=r"at most 47 pixels; got 6 × 8\. Make the image smaller"):
        image_facts(tmp_path / "a.png", max_pixels=47)


def test_a_large_image_in_a_tiny_file_is_refused(tmp_path: Path) -> None:
    content = png_of_size(4000, 4000)[:1900]
    assert MOST_IN_A_BYTE * len(content) < 4000**2
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match="a header that states more than the file contains"):
        image_facts(tmp_path / "a.png")
