"""Images for a trained model come in its size, colour and classes, from one folder or several."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dessl.data import DataError
from dessl.data.formats.new_images import read_new_images


def save(path: Path, level: int, size: tuple[int, int] = (6, 5), mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, level if mode == "L" else (level, level, level)).save(path)


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    save(tmp_path / "b.png", 20)
    save(tmp_path / "a.png", 10, size=(9, 9), mode="RGB")
    data = read_new_images(tmp_path, ("cat", "dog"), (1, 4, 3))
    assert (data.x.shape, data.x.dtype) == ((2, 1, 4, 3), np.uint8)
    assert [int(image.mean()) for image in data.x] == [10, 20]
    assert (data.y.tolist(), data.row_names) == ([-1, -1], ("a.png", "b.png"))


def test_subfolders_are_the_models_classes_in_its_order(tmp_path: Path) -> None:
    save(tmp_path / "cat" / "1.png", 1)
    save(tmp_path / "dog" / "2.png", 2)
    save(tmp_path / "Unlabelled" / "3.png", 3)
    data = read_new_images(tmp_path, ("dog", "cat", "owl"), (3, 5, 6))
    assert data.y.tolist() == [-1, 1, 0]
    assert data.row_names == ("Unlabelled/3.png", "cat/1.png", "dog/2.png")
    assert data.x.shape == (3, 3, 5, 6)


def test_what_is_no_class_and_no_folder_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "fox" / "1.png", 1)
    with pytest.raises(DataError, match="subfolders named cat, dog, unlabelled; got 'fox'"):
        read_new_images(tmp_path, ("cat", "dog"), (1, 4, 4))
    with pytest.raises(DataError, match="expected a folder; got no such folder"):
        read_new_images(tmp_path / "no", ("cat", "dog"), (1, 4, 4))
    save(tmp_path / "loose.png", 1)
    with pytest.raises(DataError, match=r"loose.png: .* beside them. Move them"):
        read_new_images(tmp_path, ("fox", "dog"), (1, 4, 4))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="got none"):
        read_new_images(tmp_path / "empty", ("cat", "dog"), (1, 4, 4))


def test_without_labels_subfolders_may_have_any_names(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "p1", "p2")):
        save(tmp_path / name / "1.png", number)
    data = read_new_images(tmp_path, ("cat", "dog"), (1, 4, 4), labels=False)
    assert data.y.tolist() == [-1, -1, -1]
    assert data.row_names == ("cat/1.png", "p1/1.png", "p2/1.png")


def test_sixteen_bits_are_brought_to_eight_as_in_training(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 1000, np.uint16)).save(tmp_path / "1.png")
    assert (read_new_images(tmp_path, ("a", "b"), (1, 4, 4), bits=12).x == 1000 // 16).all()
    with pytest.warns(UserWarning, match="values up to 1000, and 8 bits a pixel end at 255"):
        assert (read_new_images(tmp_path, ("a", "b"), (1, 4, 4)).x == 255).all()
