import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from dessl.data.draw import LabelDraw
from dessl.data.parts import check_draw, dataset_arrays


class Photographs(Dataset):
    """Pillow images with text labels, as folders of images are often read."""

    def __init__(self, images: np.ndarray) -> None:
        self.images, self.reads = images, 0

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int):
        self.reads += 1
        return Image.fromarray(self.images[row]), [None, "cat"][row % 2]


def test_each_item_is_read_once() -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
    photographs = Photographs(images)
    x, y = dataset_arrays(photographs)
    assert np.array_equal(x, images)
    assert x.dtype == np.uint8
    assert y == [None, "cat"] * 3
    assert photographs.reads == 6


def test_tensors_and_their_labels_are_taken() -> None:
    rows, labels = torch.rand(4, 2), torch.tensor([1, -1, 0, 1])
    x, y = dataset_arrays(TensorDataset(rows, labels))
    assert np.array_equal(x, rows.numpy())
    assert y == [1, -1, 0, 1]


def test_labels_in_arrays_of_one_entry_are_taken() -> None:
    items = [(np.zeros(2), label) for label in (np.array([1]), np.array(-1), torch.tensor([0]))]
    _, labels = dataset_arrays(items)
    assert labels == [1, -1, 0]
    assert all(type(label) is int for label in labels)


def test_outputs_of_a_network_are_taken() -> None:
    x, _ = dataset_arrays([(torch.ones(2, requires_grad=True), 0)])
    assert np.array_equal(x, np.ones((1, 2), np.float32))


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(1), 0


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        ([], ValueError, "must have items and a length; list"),
        (Endless(), ValueError, "Endless has none. Collect an iterable"),
        ([np.zeros(2)], TypeError, r"item 0 .* must be a pair \(x, y\); got ndarray"),
        ([(np.zeros(2), 0), (np.zeros(2), 0, 1)], TypeError, "item 1 .* got tuple"),
        ([(np.zeros(2), torch.eye(3)[0])], ValueError, r"label of item 0 .* \(3,\)\. .*argmax"),
        ([(np.zeros(2), 0), (np.zeros(3), 0)], ValueError, r"item 1 has \(3,\) of float64. Resize"),
        ([(np.zeros(2), 0), (np.zeros(2, "f4"), 0)], ValueError, "of float64, item 1 .* float32"),
    ],
)
def test_what_is_no_data_set_of_pairs_is_refused(dataset, error, message) -> None:
    with pytest.raises(error, match=message):
        dataset_arrays(dataset)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (([0, 3], [], []), r"row numbers \(int64\) from 0 to 2; got torch.int64 from 0 to 3"),
        (([0, -1], [], []), "got torch.int64 from -1 to 0"),
        (([0], [1], [1]), "has a row twice"),
        (([0], [2], [1]), "1 rows of the draw have no label"),
    ],
)
def test_a_draw_from_other_data_is_refused(draw, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_draw(
            LabelDraw(*(torch.tensor(rows, dtype=torch.long) for rows in draw)),
            torch.tensor([0, 1, -1]),
        )


def test_a_draw_that_holds_no_row_numbers_is_refused() -> None:
    nothing = torch.empty(0)
    with pytest.raises(ValueError, match=r"got torch\.float32 from no rows"):
        check_draw(LabelDraw(nothing, nothing, nothing), torch.tensor([0, 1]))
