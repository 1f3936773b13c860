"""Rows of an experiment: found, cut, noisy, or made up."""

from pathlib import Path

import pytest
import torch

from dessl.data import DataError, load
from dessl_paper.sources import experiment_data, generated
from dessl_paper.specification import DataSetting


def test_generated_rows_are_in_the_shape_of_the_set() -> None:
    data = generated("dermamnist", 70)
    assert data.x.shape == (70, 3, 28, 28)
    assert data.x.dtype == torch.uint8
    assert data.n_classes == 7
    assert data.y.bincount().tolist() == [10] * 7
    assert data.name == "dermamnist (generated)"
    assert data.test is not None
    assert not torch.equal(data.test.x, data.x)
    assert torch.equal(generated("dermamnist", 70).x, data.x)


def test_generated_classes_can_be_told_apart() -> None:
    """The nearest class mean of the training rows finds the class of the test rows."""
    data = generated("mnist", 200)
    assert data.test is not None
    rows, test = data.x.flatten(1).float(), data.test.x.flatten(1).float()
    means = torch.stack([rows[data.y == k].mean(0) for k in range(10)])
    found = torch.cdist(test, means).argmin(1)
    assert (found == data.test.y).float().mean() > 0.95


def test_rows_are_cut_and_real_ones_go_before_made_up_ones() -> None:
    data = experiment_data(DataSetting("digits", 50, rows=120, generated=True))
    whole = load("digits")
    assert data.name == "digits"
    assert data.test is not None
    assert whole.test is not None
    for part, source in ((data, whole), (data.test, whole.test)):
        assert part.y.bincount().tolist() == [12] * 10  # classes take turns
        firsts = [(source.y == k).nonzero().flatten()[:12] for k in range(10)]
        for k, rows in enumerate(firsts):
            assert torch.equal(part.x[part.y == k], source.x[rows])
    assert data.validation is None


def test_noise_redraws_a_share_of_all_labels_the_test_sets_too() -> None:
    clean = experiment_data(DataSetting("digits", 50))
    noisy, again = (experiment_data(DataSetting("digits", 50, label_noise=0.2)) for _ in range(2))
    assert clean.test is not None
    assert noisy.test is not None
    assert again.test is not None
    for before, after in ((clean.y, noisy.y), (clean.test.y, noisy.test.y)):
        share = (before != after).float().mean()  # a tenth of the redrawn come out as they were
        assert share == pytest.approx(0.18, abs=0.05)
    assert torch.equal(noisy.y, again.y)
    assert torch.equal(noisy.test.y, again.test.y)
    assert torch.equal(noisy.x, clean.x)


def test_a_curve_on_the_test_set_has_it_for_validation() -> None:
    data = experiment_data(DataSetting("digits", 50), curve="test")
    assert data.validation is not None
    assert data.test is not None
    assert torch.equal(data.validation.x, data.test.x)


def test_data_without_a_test_part_is_refused() -> None:
    with pytest.raises(DataError, match="toy: expected a test part; got none"):
        experiment_data(DataSetting("toy", 50))


def test_a_damaged_file_is_not_passed_over_for_made_up_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESSL_DATA", str(tmp_path))
    (tmp_path / "svhn").mkdir()
    for part in ("train", "test"):
        (tmp_path / "svhn" / f"{part}_32x32.mat").write_bytes(b"no matrix")
    with pytest.raises(DataError, match=r"32x32\.mat"):
        experiment_data(DataSetting("svhn", 50, rows=20, generated=True))
