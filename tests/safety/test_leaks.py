"""Copies between labelled, unlabelled and test rows, exact and near."""

import torch

from dessl.data import SemiData
from dessl.safety.leaks import copies_in


def images(n: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (n, 1, 4, 4), generator=generator).float()
    smooth = torch.nn.functional.interpolate(coarse, size=16, mode="bilinear")
    return smooth.to(torch.uint8)


def test_copies_are_counted_where_they_were_put() -> None:
    x = images(120)
    x[50] = x[3]  # unlabelled copy of a labelled row
    x[51] = x[4]
    x[7] = x[8]  # labelled copies with different labels
    y = torch.where(torch.arange(120) < 40, torch.arange(120) % 2, -1)
    test = images(30, seed=1)
    test[0], test[1] = x[5], x[60]
    found = copies_in(SemiData(x, y, test=(test, torch.arange(30) % 2)))
    assert (found.test_labelled, found.test_unlabelled) == (1, 1)
    assert (found.unlabelled, found.labelled, found.conflicts) == (2, 1, 2)
    assert not found.expected
    assert ("test row 0", "row 5") in {(pair.row, pair.copy) for pair in found.examples}


def test_a_slightly_changed_image_is_a_near_copy_and_others_are_not() -> None:
    x = images(200)
    noise = torch.randint(-2, 3, (1, 16, 16), generator=torch.Generator().manual_seed(2))
    x[1] = (x[0].int() + noise).clamp(0, 255).to(torch.uint8)
    test = images(20, seed=3)
    test[4] = (x[9].int() + noise).clamp(0, 255).to(torch.uint8)
    y = torch.where(torch.arange(200) < 60, torch.arange(200) % 3, -1)
    found = copies_in(SemiData(x, y, test=(test, torch.arange(20) % 3)))
    assert (found.near_labelled, found.near_test, found.near_unlabelled) == (2, 1, 0)
    assert found.labelled == 0
    assert any(not pair.exact for pair in found.examples)


def test_data_without_a_test_part_is_looked_through() -> None:
    y = torch.where(torch.arange(60) < 30, torch.arange(60) % 2, -1)
    found = copies_in(SemiData(images(60), y))
    assert (found.test_labelled, found.near_test) == (0, 0)


def test_rows_of_few_values_are_not_taken_for_copies() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 3, (300, 2), generator=generator).float()
    y = torch.where(torch.arange(300) < 60, torch.arange(300) % 2, -1)
    assert copies_in(SemiData(x, y)).expected
