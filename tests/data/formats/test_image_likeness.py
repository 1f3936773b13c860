"""Notes on new images that are unlike those of training in colour or shape."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dessl.data.formats.folder import read_new_images
from dessl.data.formats.image_likeness import NOTHING_KNOWN, Likeness

COLOUR, GREY = Likeness(in_colour=True), Likeness(in_colour=False)


def saved(folder: Path, mode: str, *, height: int = 8, width: int = 8, n: int = 4) -> Path:
    """Images of noise: coloured (RGB), grey (L), or grey with three channels (3L)."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(n):
        shape = (height, width, 3) if mode == "RGB" else (height, width)
        image = Image.fromarray(rng.integers(0, 256, shape, np.uint8))
        image = image.convert("RGB") if mode == "3L" else image
        image.save(folder / f"{mode}{number}.png")
    return folder


def notes(folder: Path, channels: int, training: Likeness) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        read_new_images(folder, ("a", "b"), (channels, 8, 8), training=training)
    return [str(one.message) for one in found]


@pytest.mark.parametrize("mode", ["L", "3L"])
def test_grey_images_for_a_model_of_colour_are_noted(tmp_path: Path, mode: str) -> None:
    folder = saved(tmp_path, mode)
    (note,) = notes(folder, 3, COLOUR)
    assert "4 of 4 images are grey, but most training images were in colour." in note
    assert notes(folder, 3, GREY) == notes(folder, 3, NOTHING_KNOWN) == []
    saved(tmp_path, "RGB")  # half of them: not most
    assert notes(folder, 3, COLOUR) == []


def test_coloured_images_for_a_model_of_grey_are_noted(tmp_path: Path) -> None:
    (note,) = notes(saved(tmp_path / "RGB", "RGB"), 1, GREY)
    assert "4 of 4 images are in colour, which is dropped" in note
    assert notes(tmp_path / "RGB", 1, NOTHING_KNOWN) == []
    assert notes(saved(tmp_path / "3L", "3L"), 1, GREY) == []
    assert notes(saved(tmp_path / "L", "L"), 1, GREY) == []


def test_stretched_images_are_noted(tmp_path: Path) -> None:
    square = Likeness(aspect=1.0)
    (note,) = notes(saved(tmp_path / "wide", "L", height=9, width=16), 1, square)
    assert "4 of 4 images have another aspect ratio than the training images" in note
    assert "height / width is 0.56, where it was 1.00" in note
    assert notes(saved(tmp_path / "tall", "L", height=16, width=9), 1, square)
    assert notes(saved(tmp_path / "near", "L", height=12, width=9), 1, square) == []
    assert notes(tmp_path / "wide", 1, NOTHING_KNOWN) == []  # a size was chosen in training


def test_likeness_is_that_of_the_training_images() -> None:
    rng = np.random.default_rng(0)
    coloured = rng.integers(0, 256, (3, 3, 6, 4), np.uint8)
    assert Likeness.of_images(coloured, own_shape=True) == Likeness(in_colour=True, aspect=1.5)
    coloured[:2, 1:] = coloured[:2, :1]
    assert Likeness.of_images(coloured, own_shape=False) == GREY
    for one in (COLOUR, Likeness(True, 1.5), NOTHING_KNOWN):
        assert Likeness.read(one._asdict()) == one
    for damaged in (None, [], {"in_colour": 1, "aspect": -1.0}):
        assert Likeness.read(damaged) == NOTHING_KNOWN


def scans(n: int, *, seed: int, factor: float = 1.0, inverted: bool = False) -> np.ndarray:
    """Noisy images with a bright centre (n, 1, 12, 12)."""
    rows, columns = np.mgrid[:12, :12] / 11 - 0.5
    noise = np.random.default_rng(seed).normal(0, 20, (n, 1, 12, 12))
    x = (120 * np.exp(-(rows**2 + columns**2) / 0.1) + 70 + noise).clip(0, 255) * factor
    return (255 - x if inverted else x).astype(np.uint8)


def written(folder: Path, x: np.ndarray) -> Path:
    folder.mkdir()
    for number, image in enumerate(x):
        Image.fromarray(image[0]).save(folder / f"{number}.png")
    return folder


def test_images_of_other_brightness_are_noted(tmp_path: Path) -> None:
    training = Likeness.of_images(scans(40, seed=0), own_shape=True)
    training = Likeness.read(json.loads(json.dumps(training._asdict())))  # as a model stores it
    assert notes(written(tmp_path / "same", scans(40, seed=1)), 1, training) == []
    for n, words in ((20, "most of 20 images differ"), (1, "the image differs")):
        (note,) = notes(
            written(tmp_path / f"dark{n}", scans(n, seed=1, factor=1 / 16)), 1, training
        )
        assert f"{words} from all training images in " in note
        assert "another number of bits" in note
    assert notes(tmp_path / "dark20", 1, NOTHING_KNOWN) == []


def test_inverted_images_are_noted(tmp_path: Path) -> None:
    training = Likeness.of_images(scans(40, seed=0), own_shape=True)._replace(levels=None)
    assert notes(written(tmp_path / "same", scans(40, seed=1)), 1, training) == []
    (note,) = notes(written(tmp_path / "not", scans(20, seed=1, inverted=True)), 1, training)
    assert "they are bright where those are dark (median correlation -" in note
    noise = np.random.default_rng(0).integers(0, 256, (40, 1, 12, 12), np.uint8)
    assert Likeness.of_images(noise, own_shape=True).pattern is None  # nothing in common


@pytest.mark.parametrize("damaged", [None, "x", [[1, 2]], [float("nan")] * 16, {}])
def test_what_is_stored_wrongly_is_not_known(damaged: object) -> None:
    assert Likeness.read({"levels": damaged, "pattern": damaged}) == NOTHING_KNOWN
