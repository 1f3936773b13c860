from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dessl import SemiData


@pytest.fixture(scope="module")
def benchmark(script) -> ModuleType:
    return script("embeddings")


def test_the_vectors_have_classes_that_can_be_told_apart(
    benchmark: ModuleType, tmp_path: Path
) -> None:
    benchmark.write_vectors(tmp_path, 1500)
    data = SemiData.from_file(tmp_path / "vectors.npy", labels=tmp_path / "labels.csv")
    assert (tuple(data.x.shape), data.n_labelled, data.n_classes) == ((1500, 768), 500, 10)
    x, y = data.x[data.labelled_rows].numpy(), data.y[data.labelled_rows].numpy()
    centres = np.stack([x[y == k].mean(0) for k in range(10)])
    nearest = ((x[:, None] - centres) ** 2).sum(2).argmin(1)
    assert 0.5 < (nearest == y).mean() < 0.95  # they overlap
