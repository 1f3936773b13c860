"""The toy example: its laws are the paper's."""

from typing import Any

import pytest
import torch

from dessl.data.toy import two_uniforms, two_uniforms_posterior


def test_the_laws_are_the_papers() -> None:
    data = two_uniforms(40_000, 20_000)
    x, y = data.x[data.labelled_rows, 0], data.y[data.labelled_rows]
    assert (data.n_labelled, data.n_unlabelled) == (40_000, 20_000)
    assert y.float().mean() == pytest.approx(0.5, abs=0.01)
    for label, low, high in ((0, 0.0, 3.0), (1, 1.0, 10.0)):
        points = x[y == label]
        assert points.min() >= low
        assert points.max() < high
        assert points.mean() == pytest.approx((low + high) / 2, abs=0.05)
    for low, high in ((0.0, 1.0), (1.0, 3.0), (3.0, 10.0)):
        inside = (x >= low) & (x < high)
        truth = two_uniforms_posterior(torch.tensor((low + high) / 2))
        assert y[inside].float().mean() == pytest.approx(float(truth), abs=0.01)


def test_a_seed_gives_the_same_points_and_another_seed_others() -> None:
    one, again, other = (
        two_uniforms(50, 50, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one.x, again.x)
    assert not torch.equal(one.x, other.x)


def test_the_posterior_is_a_quarter_where_the_classes_overlap() -> None:
    x = torch.tensor([[0.0, 0.999], [1.0, 2.999], [3.0, 9.999]], dtype=torch.float64)
    found = two_uniforms_posterior(x)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, torch.tensor([[0.0] * 2, [0.25] * 2, [1.0] * 2]).double())


def test_the_first_rows_are_labelled_and_the_default_seed_is_0() -> None:
    data = two_uniforms(3, 4)
    assert data.labelled_rows.tolist() == [0, 1, 2]
    assert data.unlabelled_rows.tolist() == [3, 4, 5, 6]
    assert data.class_names == ("0", "1")
    assert torch.equal(data.x, two_uniforms(3, 4, generator=torch.Generator().manual_seed(0)).x)


@pytest.mark.parametrize("numbers", [(0, 5), (5, 0), (-1, 5), (2.5, 5)])
def test_both_kinds_of_rows_are_needed(numbers: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"n_(un)?labelled must"):
        two_uniforms(*numbers)
