"""Labels of images in a table: file names in several forms, and lines that do not match."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from dessl.data import DataError, SemiData
from dessl.data.formats.folder import read_new_images
from dessl.data.formats.image_table import (
    images_of_table,
    read_labelled_images,
    read_new_labelled_images,
)

NAMES = ("p1/a.png", "p1/b.PNG", "p2/deep/c.jpg", "d.png", "0012.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for level, name in enumerate(NAMES):
        path = tmp_path / "scans" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 5), 10 * level, np.uint8)).save(path)
    return tmp_path / "scans"


def table(folder: Path, text: str) -> Path:
    path = folder / "labels.csv"  # among the images, where it is no image
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "cells",
    [
        ("p1/a.png", "p2/deep/c.jpg", "0012.png"),
        ("a.png", "c.jpg", "0012.png"),
        ("a", "c", "0012"),
        (r"p1\A.PNG", r"C:\study\scans\p2\deep\c.jpg", r".\0012.png"),
        ("/home/me/p1/a", " c.jpg ", "12/0012.png"),
    ],
)
def test_images_are_found_by_their_names(folder: Path, cells: tuple[str, ...]) -> None:
    lines = zip(cells, ("ill", "well", ""), (3, 4, 5), strict=True)
    path = table(folder, "age,file,finding\n" + "".join(f"{a},{c},{b}\n" for c, b, a in lines))
    data = SemiData.from_folder(folder, labels=path, label="finding")
    assert data.row_names == ("0012.png", "d.png", "p1/a.png", "p1/b.PNG", "p2/deep/c.jpg")
    assert data.class_names == ("ill", "well")
    assert data.y.tolist() == [-1, -1, 0, -1, 1]
    assert data.x.float().mean(dim=(1, 2, 3)).round().tolist() == [40, 30, 0, 10, 20]
    age = images_of_table(path, data.row_names or ()).columns["age"]
    assert [age.cell(row) for row in range(5)] == ["5", "", "3", "", "4"]


def test_a_table_among_the_images_may_have_any_suffix(folder: Path) -> None:
    path = table(folder, "file,finding\na,ill\nd,well\n").rename(folder / "labels.txt")
    assert SemiData.from_folder(folder, labels=path).n_labelled == 2
    (folder / "other.txt").write_text("a note")
    with pytest.raises(DataError, match=r"other\.txt: expected images"):
        SemiData.from_folder(folder, labels=path)


def test_one_other_column_has_the_labels(folder: Path) -> None:
    path = table(folder, "file,finding\na,ill\nd,well\n")
    assert read_labelled_images(folder, labels=path).class_names == ("ill", "well")
    path = table(folder, "file,finding,age\na,ill,3\nd,well,4\n")
    with pytest.raises(DataError, match=r"Which column has the labels\? Pass --label NAME"):
        read_labelled_images(folder, labels=path)
    new = read_new_labelled_images(folder, ("well", "ill"), (1, 4, 4), labels=path, label="finding")
    assert new.y.tolist() == [-1, 0, 1, -1, -1]


def test_labels_of_another_type_are_refused(folder: Path) -> None:
    path = folder / "labels.parquet"
    pd.DataFrame({"file": ["a", "d"], "finding": [[1], [2]]}).to_parquet(path)
    with pytest.raises(DataError, match=r"expected labels in column 'finding'; got type list"):
        read_labelled_images(folder, labels=path)


def test_lines_without_an_image_are_counted(folder: Path) -> None:
    path = table(folder, "file,finding\na,ill\nd,well\nlost.png,odd\n")
    with pytest.warns(UserWarning, match=r"1 of 3 lines name no image of .* 'lost.png', and are"):
        data = read_labelled_images(folder, labels=path)
    assert data.class_names == ("ill", "well")
    path = table(folder, "file,finding\nx,ill\ny,well\n")
    with pytest.raises(DataError, match=r"a column with the file names .*'0012.png'; got the col"):
        read_labelled_images(folder, labels=path)


def test_a_name_of_several_images_and_two_lines_for_one_are_refused(folder: Path) -> None:
    Image.new("L", (5, 6)).save(folder / "p2" / "a.png")
    with pytest.raises(DataError, match=r"'a' in data row 1, the name of several\. Write the path"):
        read_labelled_images(folder, labels=table(folder, "file,finding\na,ill\nd,well\n"))
    path = table(folder, "file,finding\np1/a,ill\nd,well\np1/a.png,well\n")
    with pytest.raises(DataError, match=r"'p1/a.png' in data rows 1 and 3|in data rows 1, 3"):
        read_labelled_images(folder, labels=path)


def test_a_path_within_the_folder_means_itself(folder: Path) -> None:
    Image.new("L", (5, 6)).save(folder / "p2" / "d.png")
    Image.new("L", (5, 6)).save(folder / "p2" / "0012.png")
    path = table(folder, "file,finding\nd.png,ill\n/scans/0012.png,well\n")
    data = SemiData.from_folder(folder, labels=path)
    known = dict(zip(data.row_names or (), data.y.tolist(), strict=True))
    assert {name: y for name, y in known.items() if y >= 0} == {"d.png": 0, "0012.png": 1}


def test_images_of_one_name_in_different_folders_are_different(folder: Path) -> None:
    path = table(folder, "file,finding\np2/a.png,ill\np1/b.png,ill\nd.png,well\n")
    with pytest.warns(UserWarning, match=r"1 of 3 lines name no image .*'p2/a\.png'"):
        data = SemiData.from_folder(folder, labels=path)  # p1/a.png is another one
    known = dict(zip(data.row_names or (), data.y.tolist(), strict=True))
    assert {name: y for name, y in known.items() if y >= 0} == {"p1/b.PNG": 0, "d.png": 1}


def test_images_whose_names_differ_in_case_alone_are_not_mixed_up(folder: Path) -> None:
    Image.new("L", (5, 6)).save(folder / "D.PNG")
    if not (folder / "d.png").samefile(folder / "D.PNG"):  # where case matters
        path = table(folder, "file,finding\na,ill\nD.PNG,well\n")
        with pytest.raises(DataError, match=r"'D\.PNG' in data row 2, the name of several"):
            SemiData.from_folder(folder, labels=path)


def test_row_numbers_and_labels_are_no_file_names(folder: Path) -> None:
    for k in range(4):
        Image.new("L", (5, 6)).save(folder / f"{k}.png")
    path = table(folder, "row,file,finding\n0,3.png,1\n1,2.png,0\n2,lost.png,0\n3,d.png,1\n")
    with pytest.warns(UserWarning, match=r"'lost\.png'"):
        data = SemiData.from_folder(folder, labels=path, label="finding")
    known = dict(zip(data.row_names or (), data.y.tolist(), strict=True))
    assert {n: y for n, y in known.items() if y >= 0} == {"3.png": 1, "2.png": 0, "d.png": 1}
    path = table(folder, "finding,file\n0,0\n1,1\n0,2\n")
    known = dict.fromkeys(data.row_names or (), -1) | {"0.png": 0, "1.png": 1, "2.png": 0}
    data = SemiData.from_folder(folder, labels=path, label="finding")
    assert dict(zip(data.row_names or (), data.y.tolist(), strict=True)) == known
    path = table(folder, "row,file,finding\n0,3,1\n1,2,0\n")
    with pytest.raises(DataError, match="'row' and 'file', which name different images"):
        SemiData.from_folder(folder, labels=path, label="finding")


def test_damaged_images_are_left_out_with_their_labels(folder: Path) -> None:
    path = table(folder, "file,finding\na,ill\nb,ill\nd,well\n")
    (folder / "p1" / "b.PNG").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"b\.PNG: expected an image"):
        read_labelled_images(folder, labels=path)
    with pytest.warns(UserWarning, match=r"skipped 1 of 5 files"):
        data = read_labelled_images(folder, labels=path, skip_damaged=True)
    assert data.y.tolist() == [-1, 1, 0, -1]


def test_a_link_to_a_folder_above_ends(folder: Path) -> None:
    (folder / "p1" / "up").symlink_to(folder)
    path = table(folder, "file,finding\na,ill\nd,well\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_labelled_images(folder, labels=path).x) == 5


def test_a_table_in_a_folder_without_labels_is_pointed_at(folder: Path) -> None:
    table(folder / "p1", "file,finding\na,ill\n")
    with pytest.raises(DataError, match=r"If it has the labels, pass --labels .*labels\.csv"):
        read_new_images(folder / "p1", ("ill", "well"), (1, 4, 4))
    assert len(read_new_images(folder / "p1", ("ill", "well"), (1, 4, 4), labels=False).x) == 2
