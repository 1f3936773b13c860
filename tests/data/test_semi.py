import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from dessl.data import DataError, LabelDraw, Part, SemiData, draw_labels
from dessl.data.formats.tables import open_table


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)


# what it holds


def test_text_labels_are_mapped_and_remembered(images: np.ndarray) -> None:
    labels = ["dog", "cat", None, None] * 5
    data = SemiData(images, labels, test=(images[:3], ["ant", "dog", "cat"]), name="pets")
    assert data.class_names == ("ant", "cat", "dog")
    assert (data.n_classes, data.n_labelled, data.n_unlabelled) == (3, 10, 10)
    assert data.y[:4].tolist() == [2, 1, -1, -1]
    assert data.test.y.tolist() == [0, 2, 1]
    assert data.labelled_rows.tolist() == [row for row in range(20) if row % 4 < 2]
    assert data.unlabelled_rows.tolist() == [row for row in range(20) if row % 4 >= 2]
    assert data.ids.tolist() == list(range(20))
    assert data.is_image
    assert data.validation is None
    assert len(data) == 20
    assert repr(data) == (
        "SemiData(pets: 20 images of shape (3, 8, 8), 3 classes: "
        "10 labelled, 10 unlabelled, 3 test)"
    )


def test_parts_come_as_pairs_in_any_layout(images: np.ndarray) -> None:
    last = images.transpose(0, 2, 3, 1)
    data = SemiData(images, [0, 1] * 10, validation=(last, [0, 1] * 10), test=Part(last, [1] * 20))
    assert np.array_equal(data.validation.x.numpy(), images)
    assert np.array_equal(data.test.x.numpy(), images)
    assert data.test.x.data_ptr() == images.ctypes.data


def test_own_ids_are_kept() -> None:
    data = SemiData(torch.rand(3, 2), [0, 1, -1], ids=np.array([30, 10, 20], dtype=np.int32))
    assert data.ids.tolist() == [30, 10, 20]
    assert data.ids.dtype == torch.int64


def test_a_data_set_of_pairs_is_read() -> None:
    rows, labels = torch.rand(6, 2), torch.tensor([0, 1, 2, -1, -1, 0])
    data = SemiData.from_dataset(TensorDataset(rows, labels), name="pairs")
    assert torch.equal(data.x, rows)
    assert torch.equal(data.y, labels)
    assert data.name == "pairs"


# files


def test_an_npz_file_is_read(tmp_path: Path, images: np.ndarray) -> None:
    np.savez(tmp_path / "mine.npz", x=images, y=["dog", "cat", "", ""] * 5)
    data = SemiData.from_file(tmp_path / "mine.npz")
    assert np.array_equal(data.x.numpy(), images)
    assert (data.name, data.class_names, data.n_labelled) == ("mine", ("cat", "dog"), 10)


def test_an_npz_file_of_float_images_is_read(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 2, 5, 3)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=[0, 1, -1, -1])
    assert np.array_equal(SemiData.from_file(tmp_path / "mine.npz").x.numpy(), x)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_read_and_remembers_its_encoding(tmp_path: Path, suffix: str) -> None:
    ages = [30.0, 41.0, 25.0, 60.0, 18.0, 77.0]
    frame = pd.DataFrame({"age": ages, "sick": ["yes", "no", None, "no", None, "yes"]})
    path = tmp_path / f"people.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    data = SemiData.from_file(path, label="sick")
    assert data.y.tolist() == [1, 0, -1, 0, -1, 1]
    assert (data.name, data.class_names) == ("people", ("no", "yes"))
    centred = np.array(ages) - np.mean(ages)  # the recipe scales
    np.testing.assert_allclose(data.x[:, 0].numpy(), centred, rtol=1e-5)
    again = data.encoding.features(open_table(path))
    assert np.array_equal(again, data.x.numpy())
    assert data.with_labels(data.y == 0).encoding is data.encoding


def test_a_folder_of_images_is_read(tmp_path: Path) -> None:
    for number, folder in enumerate(["cat", "dog", "unlabelled"]):
        (tmp_path / "pets" / folder).mkdir(parents=True)
        colour = np.full((6, 5, 3), (10 * number, 20, 30), dtype=np.uint8)
        Image.fromarray(colour).save(tmp_path / "pets" / folder / "a.png")
    data = SemiData.from_folder(tmp_path / "pets")
    assert data.x.shape == (3, 3, 6, 5)
    assert data.x[:, 0, 0, 0].tolist() == [0, 10, 20]
    assert data.y.tolist() == [0, 1, -1]
    assert (data.name, data.class_names) == ("pets", ("cat", "dog"))
    assert [Path(name).parts[-2] for name in data.row_names] == ["cat", "dog", "unlabelled"]


# hiding labels


def test_a_mask_hides_labels_without_touching_features(images: np.ndarray) -> None:
    data = SemiData(images, [0, 1] * 10)
    keep = np.arange(20) < 4
    fewer = data.with_labels(keep)
    assert fewer.y.tolist() == [0, 1, 0, 1] + [-1] * 16
    assert data.n_labelled == 20
    assert fewer.x.data_ptr() == data.x.data_ptr() == images.ctypes.data
    assert fewer.with_labels(fewer.y == 0).labelled_rows.tolist() == [0, 2]


def test_held_out_rows_leave_both_streams(images: np.ndarray) -> None:
    data = SemiData(images, [0, 1] * 10, validation=(images[:2], [0, 1]))
    draw = draw_labels(data.y, 10, n_validation=4, generator=seeded())
    split = data.with_labels(draw)
    assert (split.n_labelled, len(split.validation.y), split.n_unlabelled) == (6, 4, 10)
    rows = [*split.labelled_rows, *split.unlabelled_rows, *split.validation_rows]
    assert sorted(int(row) for row in rows) == list(range(20))
    # their labels are to be had from the validation part only
    assert (split.y[split.validation_rows] == -1).all()
    assert torch.equal(split.validation.y, split.validation_rows % 2)
    assert np.array_equal(split.validation.x.numpy(), images[split.validation_rows.numpy()])
    assert split.x.data_ptr() == images.ctypes.data
    assert len(data.validation.y) == 2  # the published part stays where nothing was drawn


def test_a_draw_without_validation_keeps_the_published_part(images: np.ndarray) -> None:
    data = SemiData(images, [0, 1] * 10, validation=(images[:2], [0, 1]))
    split = data.with_labels(draw_labels(data.y, 10, generator=seeded()))
    assert len(split.validation.y) == 2


def test_rows_outside_a_draw_are_left_aside() -> None:
    data = SemiData(torch.rand(5, 2), [0, 1, 0, 1, 0])
    rows = [torch.tensor(r) for r in ([0, 1], [2], [4])]
    split = data.with_labels(LabelDraw(*rows))
    assert (split.n_labelled, split.n_unlabelled, len(split.validation.y)) == (2, 1, 1)
    assert split.y.tolist() == [0, 1, -1, -1, -1]


def test_labels_are_drawn_once_from_one_source() -> None:
    data = SemiData(torch.rand(20, 2), [0, 1] * 10)
    split = data.with_labels(draw_labels(data.y, 10, n_validation=2, generator=seeded()))
    with pytest.raises(ValueError, match=r"already drawn from this data.*Draw from the original"):
        split.with_labels(split.y == 0)


def test_a_label_that_is_not_there_cannot_be_kept() -> None:
    data = SemiData(torch.rand(3, 2), [0, 1, -1])
    with pytest.raises(ValueError, match="1 rows of the draw have no label"):
        data.with_labels(np.array([True, True, True]))


# devices


def test_moving_takes_everything_along(images: np.ndarray) -> None:
    data = SemiData(images, [0, 1] * 10, test=(images[:2], [0, 1]))
    split = data.with_labels(draw_labels(data.y, 10, n_validation=2, generator=seeded()))
    moved = split.to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 7
    assert all(t.device.type == "meta" for t in [*tensors, *moved.test, *moved.validation])
    assert moved.device.type == "meta"
    assert split.device.type == "cpu"


def test_staying_shares_the_memory(images: np.ndarray) -> None:
    data = SemiData(images, [0, 1] * 10)
    assert data.to("cpu").x.data_ptr() == images.ctypes.data


# memory


def test_images_cost_their_own_bytes_and_no_more() -> None:
    n = 50_000
    images = np.zeros((n, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(n) % 10
    tracemalloc.start()
    data = SemiData(images, labels)
    split = data.with_labels(draw_labels(data.y, 4000, n_validation=400, generator=seeded()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert split.x.data_ptr() == images.ctypes.data
    assert split.x.untyped_storage().nbytes() == images.nbytes
    assert peak < 0.02 * images.nbytes  # labels and row numbers


RESIDENT = """
import numpy as np, torch
from dessl.data import SemiData, draw_labels
def megabytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 2**10
SemiData(np.zeros((2, 3, 4, 4), np.uint8), [0, 1])  # lazy imports
images = np.full((50_000, 3, 32, 32), 7, dtype=np.uint8)
before = megabytes("VmRSS")
data = SemiData(images, np.arange(50_000) % 10)
g = torch.Generator().manual_seed(0)
split = data.with_labels(draw_labels(data.y, 4000, n_validation=400, generator=g))
print(images.nbytes / 2**20, megabytes("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_process_grows_by_little_more_than_the_images() -> None:
    result = subprocess.run(
        [sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True
    )
    images, grown = map(float, result.stdout.split())
    assert images > 140
    assert grown < 0.1 * images


def test_a_data_set_is_read_into_one_array() -> None:
    class Blank(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 2000

        def __getitem__(self, row: int):
            return np.full((3, 32, 32), row % 256, dtype=np.uint8), row % 2

    tracemalloc.start()
    data = SemiData.from_dataset(Blank())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.x[:, 0, 0, 0].tolist() == [row % 256 for row in range(2000)]
    assert peak < 1.1 * data.x.nbytes


# errors


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1], {}, "y must have one label for each row of x; got 2 labels for 3 rows"),
        ([1], {}, "y must have .* row of x; got 1 labels for 3 rows"),  # not: of one class only
        ([0], {"test": (np.zeros((2, 2)), [1, 0])}, "y must .* of x; got 1 labels for 3 rows"),
        ([0, 0, 0], {"validation": (np.zeros((2, 2)), [0])}, "of validation x; got 1 labels for 2"),
        ([0, 1, 2], {"class_names": ["a", "b"]}, "class numbers below 2"),
        ([0, 0, -1], {}, "at least 2 classes"),
        ([0, 1, -1], {"test": (np.zeros((2, 2)), [0, -1])}, "test y must label every row; 1 of 2"),
        ([0, 1, -1], {"test": (np.zeros((2, 2)), [0])}, "test y must have .* 1 labels for 2 rows"),
        (
            [0, 1, -1],
            {"validation": (np.zeros((2, 3)), [0, 1])},
            r"validation x must have rows like those of x, \(2,\) of torch.float32; got \(3,\)",
        ),
        (
            [0, 1, -1],
            {"test": (np.zeros((2, 2, 2), np.uint8), [0, 1])},
            r"got \(1, 2, 2\) of torch.uint8",
        ),
        ([0, 1, -1], {"test": (np.full((1, 2), np.nan), [0])}, "test x must be finite"),
        ([0, 1, -1], {"test": (np.zeros((1, 2)),)}, r"pair \(x, y\) .*; got 1 \(ndarray\)"),
        ([0, 1, -1], {"test": np.zeros((2, 2))}, r"pair \(x, y\) .*; got 1 \(ndarray\)"),
        ([0, 1, -1], {"validation": ([[0, 1]], [0], [7])}, r"got 3 \(list, list, list\)"),
        ([0, 1, -1], {"ids": np.array([1, 2])}, r"one whole number for each row, shape \(3,\)"),
        ([0, 1, -1], {"ids": np.array([1.0, 2, 3])}, "got torch.float64"),
        ([0, 1, -1], {"ids": np.array([-1, 0, 1])}, r"in \[0, 2147483647\]; got from -1 to 1"),
        (
            [0, 1, -1],
            {"ids": np.array([1, 2, 10**12])},
            r"to 1000000000000. Number the rows from 0",
        ),
        ([0, 1, -1], {"ids": np.array([1, 2, 1])}, "ids must differ from each other; 1 are"),
    ],
)
def test_what_does_not_fit_together_is_refused(y, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SemiData(torch.rand(3, 2), y, **options)


def test_a_file_whose_name_is_not_utf8_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "gr\udcfcn.npz"
    with pytest.raises(DataError, match=r"gr\\udcfcn.npz': expected a name in UTF-8; .* Rename"):
        SemiData.from_file(path)


def test_text_that_numpy_made_of_a_missing_label_is_warned_of() -> None:
    labels = np.array(["a", "b", None, np.nan]).astype(str)
    with pytest.warns(UserWarning, match="y: 'None', 'nan' is treated as a class.* pass None") as c:
        data = SemiData(torch.rand(4, 2), labels)
    assert c[0].filename == __file__
    assert data.n_classes == 4
    SemiData(torch.rand(4, 2), labels, class_names=["None", "a", "b", "nan"])


def test_propensities_stay_with_their_rows() -> None:
    x, y = torch.rand(5, 2), [0, 1, -1, 1, -1]
    chances = np.array([0.5, 1.0, np.nan, 0.25, 7.0])
    data = SemiData(x, y, propensity=chances)
    assert data.propensity is not None
    assert data.propensity[[0, 1, 3]].tolist() == [0.5, 1.0, 0.25]
    kept = data.with_labels(torch.tensor([True, False, False, True, False]))
    assert kept.propensity is data.propensity


@pytest.mark.parametrize(
    ("chances", "complaint"),
    [
        (np.array([0.5, 0.0, 0.5]), r"\(0, 1\] for labelled rows.*1 of 2 do not.*row 1: 0\."),
        (np.array([0.5, np.nan, 0.5]), "row 1: nan"),
        (np.array([1.5, 0.5, 0.5]), "row 0: 1.5"),
        (np.array([0.5, 0.5, 0.0]), "is 0 for 1 rows without a label, the first in row 2.*never"),
        (np.array([0.5, 0.5]), r"one number for each row, shape \(3,\)"),
        (np.array([1, 1, 1]), "one number for each row"),
    ],
)
def test_propensities_that_cannot_be_are_refused(chances: np.ndarray, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        SemiData(torch.rand(3, 2), [0, 1, -1], propensity=chances)


def test_answers_of_teachers_are_kept_beside_the_rows() -> None:
    x, y = torch.rand(4, 2), [0, 1, -1, -1]
    data = SemiData(x, y, teachers={"crowd": [0, 1, 1, None]})
    assert data.with_labels(torch.tensor([True, False, False, False])).teachers == data.teachers
    assert SemiData(x, y).teachers == {}
    with pytest.raises(ValueError, match=r"one for each of the 4 rows.*got 3"):
        SemiData(x, y, teachers=[[1, 0, 1]])
    with pytest.raises(TypeError, match="Put a single teacher's answers in a list"):
        SemiData(x, y, teachers=torch.tensor([0, 1, 1, 1]))  # type: ignore[arg-type]


def test_a_loader_and_a_data_set_in_place_of_arrays_are_said() -> None:
    pairs = TensorDataset(torch.rand(4, 2), torch.tensor([0, 1, -1, -1]))
    with pytest.raises(TypeError, match=r"a DataLoader, which has batches\. Pass loader\.dataset"):
        SemiData.from_dataset(DataLoader(pairs))
    for given in (pairs, DataLoader(pairs)):
        with pytest.raises(TypeError, match=r"x must be an array .*SemiData\.from_dataset"):
            SemiData(given, [0, 1, -1, -1])
