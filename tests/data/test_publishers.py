"""The publishers' own files, where DESSL_DATA names a folder that has them."""

import gc
import gzip
import hashlib
import os
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from dessl.data.catalogue import DATASETS, find, load
from dessl.data.semi import SemiData

ROOT = os.environ.get("DESSL_DATA")
pytestmark = pytest.mark.skipif(ROOT is None, reason="DESSL_DATA names no folder of real data")

MNIST_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
# Images of each class over all three parts, as published.
TOTALS = {
    "dermamnist": [327, 514, 1099, 115, 1113, 6705, 142],
    "bloodmnist": [1218, 3117, 1551, 2895, 1214, 1420, 3329, 2348],
    "pneumoniamnist": [1583, 4273],
    "breastmnist": [210, 570],
    "retinamnist": [714, 186, 326, 282, 92],
}


def loaded(name: str) -> SemiData:
    if find(name) is None:
        pytest.skip(f"DESSL_DATA has no files of {name}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rebuilt")
        return load(name, download=False, progress=False)


@pytest.mark.parametrize("name", [name for name in DATASETS if DATASETS[name].remote])
def test_whatever_is_there_has_its_published_form(name: str) -> None:
    data, description = loaded(name), DATASETS[name]
    parts = (data, data.validation, data.test)
    assert tuple(0 if part is None else len(part.y) for part in parts) == description.sizes
    assert tuple(data.x.shape[1:]) == description.shape
    assert data.x.dtype == torch.uint8
    assert data.x.is_contiguous()
    assert data.class_names == description.class_names
    assert set(data.y.unique().tolist()) - {-1} == set(range(len(description.class_names)))


def test_mnist_has_the_publishers_contents() -> None:
    data = loaded("mnist")
    folder = Path(str(ROOT)) / "mnist"
    for name, md5 in MNIST_MD5.items():
        if (folder / f"{name}.gz").exists():
            content = gzip.decompress((folder / f"{name}.gz").read_bytes())
        else:
            content = (folder / name).read_bytes()
        assert hashlib.md5(content).hexdigest() == md5
        header = 16 if "images" in name else 8
        x, y = (data.x, data.y) if name.startswith("train") else data.test
        ours = x if "images" in name else y.to(torch.uint8)
        assert ours.numpy().tobytes() == content[header:]
    assert torch.bincount(data.y).tolist() == [
        *(5923, 6742, 5958, 6131, 5842),
        *(5421, 5918, 6265, 5851, 5949),
    ]


def test_cifar10_has_as_many_of_each_class() -> None:
    data = loaded("cifar10")
    assert data.test is not None
    assert torch.bincount(data.y).tolist() == [5000] * 10
    assert torch.bincount(data.test.y).tolist() == [1000] * 10
    assert data.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]  # frog, truck, truck, deer, ...
    folder = Path(str(ROOT)) / "cifar-10-batches-bin"
    records = np.fromfile(folder / "data_batch_3.bin", np.uint8).reshape(-1, 3073)
    ours = data.x[20_000:30_000].reshape(10_000, -1).numpy()
    np.testing.assert_array_equal(ours, records[:, 1:])


def test_svhn_has_the_published_class_counts() -> None:
    data, place = loaded("svhn"), find("svhn")
    assert place is not None
    assert ("rebuilt" in data.name) == place.rebuilt
    assert data.test is not None
    assert torch.bincount(data.y).tolist() == [
        *(4948, 13861, 10585, 8497, 7458),
        *(6882, 5727, 5595, 5045, 4659),
    ]
    assert torch.bincount(data.test.y).tolist() == [
        *(1744, 5099, 4149, 2882, 2523),
        *(2384, 1977, 2019, 1660, 1595),
    ]


@pytest.mark.parametrize("name", TOTALS)
def test_medmnist_has_the_published_class_totals(name: str) -> None:
    data = loaded(name)
    assert data.validation is not None
    assert data.test is not None
    labels = torch.cat([data.y, data.validation.y, data.test.y])
    assert torch.bincount(labels).tolist() == TOTALS[name]


@pytest.mark.parametrize("name", TOTALS)
def test_medmnist_files_are_the_publishers_or_say_rebuilt(name: str) -> None:
    data, place = loaded(name), find(name)
    assert place is not None
    assert ("rebuilt" in data.name) == place.rebuilt
    if not place.rebuilt:
        file = DATASETS[name].remote[0]
        digest = hashlib.md5((place.root / file.path).read_bytes()).hexdigest()
        assert f"md5:{digest}" == file.checksum


def test_medmnist_agrees_with_numpys_own_reader() -> None:
    data, place = loaded("retinamnist"), find("retinamnist")
    assert place is not None
    with np.load(place.root / "medmnist" / "retinamnist.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(data.x, arrays["train_images"].transpose(0, 3, 1, 2))
        np.testing.assert_array_equal(data.y, arrays["train_labels"][:, 0])


def test_cifar10_costs_its_own_bytes() -> None:
    loaded("cifar10")  # imports and caches are not what is measured
    gc.collect()
    tracemalloc.start()
    data = loaded("cifar10")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data.test is not None
    own = sum(t.numel() * t.element_size() for t in (data.x, data.y, *data.test, data.ids))
    assert peak < 1.1 * own
