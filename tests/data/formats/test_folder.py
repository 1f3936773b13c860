import os
import sys
import time
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dessl.data.errors import DataError
from dessl.data.formats.folder import read_image_folder, read_images, read_new_images
from dessl.data.formats.folder_files import image_files
from dessl.data.formats.image_file import pixels as pixels_of
from dessl.data.semi import SemiData

RNG = np.random.default_rng(0)


def picture(height: int = 6, width: int = 8, channels: int = 3) -> NDArray[np.uint8]:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return RNG.integers(0, 256, shape, np.uint8)


def save(path: Path, pixels: NDArray[np.uint8], **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def test_classes_are_subfolders_and_the_rest_is_unlabelled(tmp_path: Path) -> None:
    pictures = {
        name: picture()
        for name in ("cat/1.png", "cat/2.bmp", "dog/1.PNG", "unlabelled/x.png", "unlabelled/y.tiff")
    }
    for name, pixels in pictures.items():
        save(tmp_path / name, pixels)
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / "cat" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "cat" / "Thumbs.db").write_bytes(b"x")
    data = read_image_folder(tmp_path)
    assert data.class_names == ("cat", "dog")
    assert data.y.tolist() == [0, 0, 1, -1, -1]
    assert data.row_names == tuple(pictures)
    assert data.x.shape == (5, 3, 6, 8)
    for row, pixels in zip(data.x, pictures.values(), strict=True):
        np.testing.assert_array_equal(row, np.moveaxis(pixels, 2, 0))


@pytest.mark.parametrize(
    "last",
    [
        picture(),
        picture(channels=1),
        picture(7, 8),
        picture(200, 300),
        picture(channels=1).astype(np.uint16) * 99,
    ],
    ids=["alike", "grey", "another size", "large", "deep"],
)
@pytest.mark.parametrize("colour", [None, "grey", "rgb"])
def test_small_images_are_as_if_each_was_read_by_itself(
    tmp_path: Path, last: NDArray[np.uint8], colour: Literal["grey", "rgb"] | None
) -> None:
    for number in range(4):
        save(tmp_path / f"{number}.png", picture())
    save(tmp_path / "4.png", last)
    paths = sorted(tmp_path.iterdir())
    x, bits, _ = read_images(paths, colour=colour)
    expected = [pixels_of(path, *x.shape[2:], colour or "rgb", bits) for path in paths]
    assert x.shape[1] == (1 if colour == "grey" else 3)
    np.testing.assert_array_equal(x, np.stack(expected))


def test_each_of_many_images_alike_is_opened_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        save(tmp_path / f"{number}.png", picture())
    opened = []
    real = Image.open
    monkeypatch.setattr(
        Image, "open", lambda path, **options: opened.append(path) or real(path, **options)
    )
    read_images(sorted(tmp_path.iterdir()))
    assert len(opened) == 5


@pytest.mark.parametrize("spelling", ["unlabeled", "Unlabelled"])
def test_other_spellings_are_the_same(tmp_path: Path, spelling: str) -> None:
    for name in ("a/1.png", "b/1.png", f"{spelling}/1.png"):
        save(tmp_path / name, picture())
    assert sorted(read_image_folder(tmp_path).y.tolist()) == [-1, 0, 1]


def test_subfolders_that_are_likely_no_class_are_warned_of(tmp_path: Path) -> None:
    for name in ("a/1.png", "unknown/1.png", "cyst/1.png", "Cyst /1.png"):
        save(tmp_path / name, picture())
    with (
        pytest.warns(UserWarning, match="'Cyst ' and 'cyst' count as different classes"),
        pytest.warns(UserWarning, match="'unknown' is treated .* name the subfolder 'unlabelled'"),
    ):
        read_image_folder(tmp_path)


def test_a_link_to_nothing_is_not_passed_over(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png"):
        save(tmp_path / name, picture())
    (tmp_path / "c").symlink_to(tmp_path / "unmounted")
    with pytest.raises(DataError, match=r"c: .* got a broken link"):
        read_image_folder(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on Windows")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for place in ("a", "b"):
        save(tmp_path / place / "0.png", picture())
    os.mkfifo(tmp_path / "b" / "pipe.png")
    with pytest.raises(DataError, match=r"pipe\.png: expected image files"):
        read_image_folder(tmp_path)


def test_an_image_in_no_class_is_not_passed_over(tmp_path: Path) -> None:
    for name in ("a/1.png", "b/1.png", "c.png"):
        save(tmp_path / name, picture())
    with pytest.raises(DataError, match=r"c.png: .*; got 1 image\(s\) next to them. Move"):
        read_image_folder(tmp_path)


def test_grey_stays_grey_until_a_colour_comes(tmp_path: Path) -> None:
    grey = picture(channels=1)
    save(tmp_path / "a" / "1.png", grey)
    save(tmp_path / "b" / "1.png", picture(channels=1))
    data = read_image_folder(tmp_path)
    assert data.x.shape == (2, 1, 6, 8)
    np.testing.assert_array_equal(data.x[0, 0], grey)
    assert read_image_folder(tmp_path, colour="rgb").x.shape == (2, 3, 6, 8)
    save(tmp_path / "b" / "2.png", picture())
    both = read_image_folder(tmp_path)
    assert both.x.shape == (3, 3, 6, 8)
    np.testing.assert_array_equal(both.x[0], np.stack([grey] * 3))
    assert read_image_folder(tmp_path, colour="grey").x.shape == (3, 1, 6, 8)
    with pytest.raises(ValueError, match="colour must be one of 'grey', 'rgb'; got 'sepia'"):
        read_image_folder(tmp_path, colour="sepia")


def test_sizes_default_to_the_median_and_stay_small(tmp_path: Path) -> None:
    for number, (height, width) in enumerate([(10, 20), (12, 24), (14, 90)]):
        save(tmp_path / "a" / f"{number}.png", picture(height, width))
        save(tmp_path / "b" / f"{number}.png", picture(height, width))
    assert read_image_folder(tmp_path).x.shape == (6, 3, 12, 24)
    assert read_image_folder(tmp_path, size=16).x.shape == (6, 3, 16, 16)
    resized = read_image_folder(tmp_path, size=(5, 7)).x
    with Image.open(tmp_path / "a" / "0.png") as image:
        expected = image.resize((7, 5), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(resized[0], np.moveaxis(np.asarray(expected), 2, 0))
    with pytest.raises(ValueError, match="size must be at least 1"):
        read_image_folder(tmp_path, size=0)
    save(tmp_path / "large.png", picture(300, 448))
    assert read_images([tmp_path / "large.png"]).x.shape == (1, 3, 150, 224)


@pytest.mark.parametrize(
    ("shape", "side"),
    [((300, 2), (224, 4)), ((2, 300), (4, 224)), ((3, 3), (4, 4)), ((1, 9), (4, 9))],
)
def test_strips_and_specks_get_the_least_side_that_networks_take(
    tmp_path: Path, shape: tuple[int, int], side: tuple[int, int]
) -> None:
    save(tmp_path / "1.png", picture(*shape))
    assert read_images([tmp_path / "1.png"]).x.shape == (1, 3, *side)
    assert read_images([tmp_path / "1.png"], size=(2, 2)).x.shape == (1, 3, 2, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep no such names")
@pytest.mark.parametrize("name", [b"gr\xfcn", b"a/gr\xfcn.png", b"unlabelled/gr\xfcn.png", b""])
def test_names_that_are_not_utf8_are_refused_before_any_image_is_read(
    tmp_path: Path, name: bytes
) -> None:
    folder = tmp_path / ("plain" if name else os.fsdecode(b"gr\xfcn"))
    for place in ("a", "b", "unlabelled"):
        (folder / place).mkdir(parents=True)
        (folder / place / "1.png").write_bytes(b"no image: reading it would be another error")
    if name.endswith(b".png"):
        (folder / os.fsdecode(name)).write_bytes(b"")
    else:
        (folder / os.fsdecode(name)).mkdir(exist_ok=True)
    with pytest.raises(
        DataError, match=r"gr\\udcfcn.*: expected a name in UTF-8; .* Rename"
    ) as error:
        SemiData.from_folder(folder)
    str(error.value).encode("utf-8")  # so that it can be printed
    if name:
        with pytest.raises(DataError, match="a name in UTF-8"):
            read_new_images(folder, ("a", "b"), (1, 4, 4), labels=False)


@pytest.mark.parametrize(("top", "bits"), [(250, 8), (1000, 10), (4000, 12), (2**16 - 1, 16)])
@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_sixteen_bits_keep_the_upper_eight_of_those_in_use(
    tmp_path: Path, top: int, bits: int, kind: type
) -> None:
    bright, dark = RNG.integers(0, top + 1, (2, 5, 4))
    bright[0, 0], dark = top, dark // 4
    grey = picture(5, 4, channels=1)
    for name, values in (("a/1", bright.astype(kind)), ("b/1", dark.astype(kind)), ("b/2", grey)):
        save(tmp_path / f"{name}.tiff", values)
    data = read_image_folder(tmp_path)
    assert data.bits == bits
    assert data.x[0].max() == top >> (bits - 8)
    for row, values in zip(data.x, (bright >> (bits - 8), dark >> (bits - 8), grey), strict=True):
        np.testing.assert_array_equal(row[0], values)
    assert read_images([tmp_path / "b" / "2.tiff"]).bits == 8


def test_values_beyond_the_bits_are_clipped_with_a_warning(tmp_path: Path) -> None:
    values = np.array([[0, 1023, 1024], [4095, 512, 7]], np.uint16)
    save(tmp_path / "1.png", values)
    with pytest.warns(UserWarning, match=r"1 image\(s\) have values up to 4095, above .* 10 bits"):
        x = read_images([tmp_path / "1.png"], size=(2, 3), bits=10).x
    assert x.tolist() == [[[[0, 255, 255], [255, 128, 1]]]]
    with pytest.raises(ValueError, match="bits must be between 8 and 16; got 17"):
        read_images([tmp_path / "1.png"], bits=17)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", picture(40, 40))
    save(tmp_path / "b" / "1.png", picture(40, 40))
    data = (tmp_path / "b" / "1.png").read_bytes()
    (tmp_path / "b" / "1.png").write_bytes(data[:-900])
    with pytest.raises(DataError, match=r"b/1.png: expected an image .*; got .*truncated"):
        read_image_folder(tmp_path)
    (tmp_path / "b" / "1.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    with pytest.raises(DataError, match=r"b/1.png: .*replace or remove it"):
        read_image_folder(tmp_path)


def test_damaged_files_are_skipped_on_request(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png", "unlabelled/1.png"):
        save(tmp_path / name, picture(40, 40))
    for name in ("a/2.png", "unlabelled/1.png"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-900])
    with pytest.raises(DataError, match=r"unlabelled/1\.png\. To leave out .*--skip-damaged"):
        read_image_folder(tmp_path)
    skipped = r"skipped 2 of 5 files, which cannot be read: a/2\.png, unlabelled/1\.png\."
    with pytest.warns(UserWarning, match=skipped):
        data = read_image_folder(tmp_path, skip_damaged=True)
    assert (data.row_names, data.y.tolist()) == (("a/1.png", "b/1.png", "b/2.png"), [0, 1, 1])
    with pytest.warns(UserWarning, match=skipped):
        new = read_new_images(tmp_path, ("b", "a"), (1, 40, 40), skip_damaged=True)
    assert (new.row_names, new.y.tolist()) == (data.row_names, [1, 0, 0])
    (tmp_path / "a" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"1\.png: expected an image"):
        read_new_images(tmp_path / "a", ("b", "a"), (1, 40, 40), skip_damaged=True)


@pytest.mark.parametrize("side", [8, 300], ids=["small", "large"])
@pytest.mark.parametrize("kept", [0, 60], ids=["no image", "truncated"])
def test_all_damaged_files_are_named_at_once(tmp_path: Path, side: int, kept: int) -> None:
    names = [f"{folder}/{k:02}.png" for folder in "ab" for k in range(12)]
    for name in names:
        save(tmp_path / name, picture(side, side))
    damaged = names[3:15]
    for name in damaged:
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:kept] + b"no image" * (not kept))
    with pytest.raises(DataError, match=r"a/03\.png: expected an image") as caught:
        read_image_folder(tmp_path)
    said = str(caught.value)
    listed = ", ".join(str(tmp_path / name) for name in damaged[1:9])
    assert f" 11 more files cannot be used: {listed} and 3 more. To leave out" in said


def test_all_images_together_have_a_limit(tmp_path: Path) -> None:
    save(tmp_path / "1.png", picture(40, 40))
    with pytest.raises(DataError, match="at most 14,399 bytes of data; got 14,400"):
        read_images([tmp_path / "1.png"] * 3, max_bytes=14_399)
    assert read_images([tmp_path / "1.png"] * 3, max_bytes=14_400).x.shape == (3, 3, 40, 40)


def test_folders_that_are_no_classes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a folder; got no such folder"):
        read_image_folder(tmp_path / "absent")
    save(tmp_path / "cat" / "1.png", picture())
    save(tmp_path / "unlabelled" / "1.png", picture())
    with pytest.raises(DataError, match="at least two subfolders, one for each class; got cat"):
        read_image_folder(tmp_path)
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"dog: expected image files .*; got none"):
        read_image_folder(tmp_path)
    (tmp_path / "dog" / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"notes.txt: expected image files .*; got something else"):
        read_image_folder(tmp_path)


def save_flat(path: Path, level: int, size: tuple[int, int] = (6, 5), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, level if mode == "L" else (level, level, level)).save(path)


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    save_flat(tmp_path / "b.png", 20)
    save_flat(tmp_path / "a.png", 10, size=(9, 9), mode="RGB")
    data = read_new_images(tmp_path, ("cat", "dog"), (1, 4, 3))
    assert (data.x.shape, data.x.dtype) == ((2, 1, 4, 3), torch.uint8)
    assert [int(image.float().mean()) for image in data.x] == [10, 20]
    assert (data.y.tolist(), data.row_names) == ([-1, -1], ("a.png", "b.png"))


def test_subfolders_are_the_models_classes_in_its_order(tmp_path: Path) -> None:
    save_flat(tmp_path / "cat" / "1.png", 1)
    save_flat(tmp_path / "dog" / "2.png", 2)
    save_flat(tmp_path / "Unlabelled" / "3.png", 3)
    data = read_new_images(tmp_path, ("dog", "cat", "owl"), (3, 5, 6))
    assert data.y.tolist() == [-1, 1, 0]
    assert data.row_names == ("Unlabelled/3.png", "cat/1.png", "dog/2.png")
    assert data.x.shape == (3, 3, 5, 6)


def test_what_is_no_class_and_no_folder_is_refused(tmp_path: Path) -> None:
    save_flat(tmp_path / "fox" / "1.png", 1)
    with pytest.raises(DataError, match="subfolders one of cat, dog, unlabelled; got 'fox'"):
        read_new_images(tmp_path, ("cat", "dog"), (1, 4, 4))
    with pytest.raises(DataError, match="expected a folder; got no such folder"):
        read_new_images(tmp_path / "no", ("cat", "dog"), (1, 4, 4))
    save_flat(tmp_path / "loose.png", 1)
    with pytest.raises(DataError, match=r"loose.png: .* next to them. Move them"):
        read_new_images(tmp_path, ("fox", "dog"), (1, 4, 4))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="got none"):
        read_new_images(tmp_path / "empty", ("cat", "dog"), (1, 4, 4))


def test_without_labels_subfolders_may_have_any_names(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "p1", "p2")):
        save_flat(tmp_path / name / "1.png", number)
    data = read_new_images(tmp_path, ("cat", "dog"), (1, 4, 4), labels=False)
    assert data.y.tolist() == [-1, -1, -1]
    assert data.row_names == ("cat/1.png", "p1/1.png", "p2/1.png")


def test_sixteen_bits_are_brought_to_eight_as_in_training(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 1000, np.uint16)).save(tmp_path / "1.png")
    assert (read_new_images(tmp_path, ("a", "b"), (1, 4, 4), bits=12).x == 1000 // 16).all()
    with pytest.warns(UserWarning, match="values up to 1000, above .* 8 bits, 255"):
        assert (read_new_images(tmp_path, ("a", "b"), (1, 4, 4)).x == 255).all()


def test_a_folder_in_that_of_a_class_is_refused_with_advice_on_groups(tmp_path: Path) -> None:
    for name in ("benign/patient00/x.png", "malignant/patient01/x.png"):
        save_flat(tmp_path / name, 1)
    with pytest.raises(DataError) as found:
        read_image_folder(tmp_path)
    assert str(found.value) == (
        f"{tmp_path / 'benign' / 'patient00'}: expected images directly in the folder of their "
        "class; got the folder 'patient00'. Move its images up. If it is a patient's, or another "
        "group that belongs together, name the files after it, such as patient00_x.png, and pass "
        "--group '^patient[0-9]+' to keep groups together."
    )
    (tmp_path / "benign" / "patient00").rename(tmp_path / "benign" / "a b")
    with pytest.raises(DataError, match=r"a b_x\.png, and pass --group '\^\[\^_\]\+'"):
        read_image_folder(tmp_path, skip_damaged=True)


def test_files_that_are_no_images_are_skipped_on_request(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png", "unlabelled/1.png"):
        save_flat(tmp_path / name, 1)
    for name in ("cat", "unlabelled"):
        (tmp_path / name / "notes.txt").write_text("about these")
    with pytest.raises(DataError, match=r"got something else\. .* pass --skip-damaged"):
        read_image_folder(tmp_path)
    with pytest.warns(UserWarning, match=r"skipped files that are no images: notes\.txt\."):
        found = read_image_folder(tmp_path, skip_damaged=True)
    assert found.row_names == ("cat/1.png", "dog/1.png", "unlabelled/1.png")
    with pytest.warns(UserWarning, match=r"skipped files that are no images: notes\.txt\."):
        new = read_new_images(tmp_path, ("cat", "dog"), (1, 4, 4), skip_damaged=True)
    assert new.y.tolist() == [0, 1, -1]


def test_many_files_that_are_no_images_are_skipped_quickly(tmp_path: Path) -> None:
    for number in range(4000):
        (tmp_path / f"{number}.png").touch()
        (tmp_path / f"{number}.xml").touch()
    started = time.process_time()
    with pytest.warns(UserWarning, match="skipped files that are no images"):
        assert len(image_files(tmp_path, skip_others=True)) == 4000
    assert time.process_time() - started < 0.8


def test_what_systems_add_is_no_class_and_an_empty_class_is_said(tmp_path: Path) -> None:
    for name in ("cat/1.png", "dog/1.png", "unlabelled/1.png"):
        save_flat(tmp_path / name, 1)
    for name in ("__MACOSX", "@eaDir", "cat/@eaDir"):
        (tmp_path / name).mkdir()
    assert len(read_image_folder(tmp_path).x) == 3
    (tmp_path / "owl").mkdir()
    with pytest.raises(DataError, match=r"owl: .*; got none\. Put images into it, or remove it\."):
        read_image_folder(tmp_path)


@pytest.mark.parametrize("name", ["IM0001", "1.dcm"])
def test_dicom_files_are_to_be_converted(tmp_path: Path, name: str) -> None:
    save_flat(tmp_path / "cat" / "1.png", 1)
    (tmp_path / "cat" / name).write_bytes(bytes(128) + b"DICM")
    (tmp_path / "dog").mkdir()
    with pytest.raises(DataError, match=r"If it is a DICOM file, convert the scans to PNG"):
        read_image_folder(tmp_path)


def test_one_bright_image_that_darkens_all_others_is_warned_of(tmp_path: Path) -> None:
    for number in range(5):
        level = 60_000 if number == 3 else 4_000
        path = tmp_path / f"{number}.png"
        Image.fromarray(np.full((4, 4), level, np.uint16)).save(path)
    paths = sorted(tmp_path.iterdir())
    with pytest.warns(UserWarning, match=r"is 4,000, that of '3.png' is 60,000.* at most 16 of"):
        assert read_images(paths).bits == 16
    assert read_images(paths[:3]).bits == 12  # without a warning
