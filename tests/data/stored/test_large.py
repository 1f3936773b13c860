"""Files larger than memory as data: labelled rows and a sample in memory, the rest stored."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dessl.data.stored.large import large_data, large_embeddings


@pytest.mark.parametrize("sparse", [True, False])
def test_embeddings_with_their_labels_apart(tmp_path: Path, sparse: bool) -> None:
    x = np.arange(600, dtype=np.float16).reshape(300, 2)
    np.save(tmp_path / "x.npy", x)
    labels = tmp_path / "labels.csv"
    every = {k: "cat" if k % 2 else "dog" for k in range(0, 300, 7)}
    if sparse:
        lines = ["row,animal", *(f"{k},{name}" for k, name in every.items())]
    else:
        lines = ["animal", *(f'"{every.get(k, "")}"' for k in range(300))]
    labels.write_text("\n".join(lines) + "\n")
    data = large_embeddings(tmp_path / "x.npy", labels=labels, sample=50, seed=3)
    assert data is not None
    assert data.class_names == ("cat", "dog")
    assert (data.n_labelled, len(data.unlabelled_rows), data.n_stored) == (43, 50, 207)
    known = data.x[data.labelled_rows, 0].long() // 2
    assert dict(zip(known.tolist(), data.y[data.labelled_rows].tolist(), strict=True)) == {
        k: int(name == "dog") for k, name in every.items()
    }
    assert data.stored is not None
    seen = [*data.x[:, 0].tolist(), *data.stored.rows(range(207))[:, 0].tolist()]
    assert sorted(seen) == x[:, 0].tolist()
    assert large_embeddings(tmp_path / "x.npy", labels=labels, sample=300) is None


def test_each_kind_has_its_reader(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text(
        "age,sick\n" + "".join(f"{k % 9},{('no', 'yes', '')[k % 3]}\n" for k in range(60))
    )
    data = large_data("table", table, place=tmp_path, label="sick", sample=5)
    assert data is not None
    assert (data.n_labelled, len(data.unlabelled_rows), data.n_stored) == (40, 5, 15)
    assert large_data("table", table, place=None, label="sick", sample=5) is None

    for number in range(12):
        folder = tmp_path / "pets" / ("cat", "dog", "unlabelled")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / f"{number}.png")
    images = large_data("images", tmp_path / "pets", place=None, sample=1, size=8)
    assert images is not None
    assert (images.n_labelled, len(images.unlabelled_rows), images.n_stored) == (8, 1, 3)
    assert large_data("images", tmp_path / "pets", place=None, sample=4, size=8) is None
