import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from dessl.data.parts import dataset_arrays


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
