"""The columns that tests look at, against NumPy."""

import numpy as np
import pytest
import torch

from dessl.data import SemiData
from dessl.safety.columns import columns_of, image_columns, image_names, sampled_rows


def test_images_become_few_columns_and_rows_are_sampled_of_both_kinds() -> None:
    x = torch.randint(0, 256, (50, 3, 12, 12), dtype=torch.uint8)
    data = SemiData(x, [0, 1] * 20 + [-1] * 10)
    sample = sampled_rows(data, most=30)
    assert (int(sample.labelled.sum()), len(sample.rows)) == (20, 30)
    columns = columns_of(data, sample.rows)
    assert columns.values.shape == (30, len(columns.names)) == (30, 3 + 3 + 1 + 64)
    first = x[sample.rows[0]].double() / 255
    assert float(columns.values[0, 0]) == pytest.approx(float(first[0].mean()), abs=1e-5)
    assert float(columns.values[0, 3]) == pytest.approx(float(first[0].std(correction=0)), abs=1e-5)


def test_very_wide_rows_are_tested_by_some_of_their_columns() -> None:
    data = SemiData(torch.rand(6, 3000), [0, 1, 0, 1, -1, -1])
    columns = columns_of(data, torch.arange(6))
    assert columns.values.shape == (6, 1000)
    assert columns.names[1] == "column 4"
    assert torch.equal(columns.values[:, 1], data.x[:, 3])


@pytest.mark.parametrize("channels", [1, 3])
def test_each_column_of_an_image_is_what_its_name_says(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (4, channels, 16, 24), dtype=torch.uint8, generator=generator)
    names = image_names(channels)
    values = image_columns(x)
    assert values.shape == (4, len(names)) == (4, 2 * channels + 65)
    levels = x.double().numpy() / 255
    grey = levels.mean(1)
    across, down = (np.abs(np.diff(grey, axis=axis)).mean((1, 2)) for axis in (2, 1))
    expected = {
        "mean of channel 1": levels[:, 0].mean((1, 2)),
        f"contrast of channel {channels}": levels[:, -1].std((1, 2)),
        "sharpness": (across + down) / 2,
        "brightness in row 1, column 1 of 8": grey[:, :2, :3].mean((1, 2)),
        "brightness in row 3, column 8 of 8": grey[:, 4:6, 21:].mean((1, 2)),
    }
    for name, column in expected.items():
        np.testing.assert_allclose(values[:, names.index(name)], column, atol=1e-6)


@pytest.mark.parametrize(
    ("n_labelled", "n_unlabelled", "most", "taken"),
    [(30, 30, 20, (10, 10)), (4, 30, 20, (4, 16)), (30, 4, 20, (16, 4)), (5, 6, 20, (5, 6))],
)
def test_half_of_the_sample_is_labelled_where_there_are_enough(
    n_labelled: int, n_unlabelled: int, most: int, taken: tuple[int, int]
) -> None:
    y = torch.tensor([*(k % 2 for k in range(n_labelled)), *[-1] * n_unlabelled])
    data = SemiData(torch.rand(len(y), 2), y)
    rows, labelled, _ = sampled_rows(data, most=most, seed=3)
    assert (int(labelled.sum()), int((~labelled).sum())) == taken
    assert len(set(rows.tolist())) == len(rows)
    assert ((y[rows] >= 0).numpy() == labelled).all()
    assert torch.equal(rows, sampled_rows(data, most=most, seed=3).rows)


def test_a_sample_of_groups_is_of_whole_groups_half_of_them_labelled() -> None:
    groups = torch.arange(40).repeat_interleave(10)
    y = torch.where(groups < 15, groups % 2, -1)
    rows, labelled, numbers = sampled_rows(
        SemiData(torch.rand(400, 2), y), groups=groups, most=200, seed=1
    )
    assert numbers is not None
    assert np.bincount(numbers)[np.unique(numbers)].tolist() == [10] * 20
    assert labelled.sum() == 100
    assert (groups[rows].numpy() == numbers).all()
    assert ((y[rows] >= 0).numpy() == labelled).all()


def test_large_groups_are_thinned_alike_whatever_their_labels() -> None:
    groups = torch.arange(4).repeat_interleave(1000)
    y = torch.where((groups == 0) | (torch.arange(4000) % 1000 < 3), 0, -1)
    rows, labelled, numbers = sampled_rows(
        SemiData(torch.rand(4000, 2), y, class_names=["a", "b"]), groups=groups, most=400
    )
    assert numbers is not None
    assert np.bincount(numbers).tolist() == [100] * 4
    assert np.bincount(numbers[labelled]).tolist() == [100, 3, 3, 3]  # labels are not thinned away
    assert len(torch.unique(rows)) == 400


def test_a_table_keeps_its_numbers_and_names() -> None:
    x = torch.rand(5, 3)
    columns = columns_of(SemiData(x, [0, 1, 0, 1, -1]), torch.tensor([4, 0]))
    assert torch.equal(columns.values, x[[4, 0]])
    assert columns.names == ("column 1", "column 2", "column 3")
