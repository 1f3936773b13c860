import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from dessl.teachers.space import (
    Space,
    _principal,
    column_mean,
    column_scale,
    exclusive_groups,
    left_out,
)


def test_columns_of_different_units_are_standardised() -> None:
    x = torch.randn(500, 3) * torch.tensor([1.0, 100.0, 0.1]) + 7
    z = Space.of(x)(x)
    assert z.mean(0).abs().max() < 1e-4
    assert torch.allclose(z.std(0, correction=0), torch.ones(3), atol=1e-3)


def test_pixels_share_one_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (400, 40), generator=generator).float()
    x[:, 0] = (torch.arange(400) == 0) * 3.0  # a corner in which next to nothing happens
    scale = column_scale(x)
    assert len(scale.unique()) == 1
    assert scale[0] > 50


@pytest.mark.parametrize("columns", [6, 60])
@pytest.mark.parametrize("together", [True, False])
def test_columns_of_another_unit_keep_their_scale(columns: int, together: bool) -> None:
    """Percentages beside a fraction and a mark: with one scale, both would hardly count."""
    generator = torch.Generator().manual_seed(0)
    percentages = 100 * torch.rand(400, columns, generator=generator)
    fraction = torch.rand(400, 1, generator=generator)
    mark = (torch.rand(400, 1, generator=generator) < 0.3).float()
    x = torch.cat([percentages, fraction, mark], 1)
    scale, own = column_scale(x, one_hot_together=together), x.double().std(0, correction=0)
    shared = own[: columns + 1 if columns > 50 else columns].square().mean().sqrt()
    torch.testing.assert_close(scale[:columns], shared.expand(columns))
    assert scale[-1] == pytest.approx(float(own[-1]))
    if columns <= 50:  # one of many may be a dark corner of an image
        assert scale[-2] == pytest.approx(float(own[-2]))
    else:
        assert scale[-2] == shared


def test_a_mark_is_known_after_its_mean_is_subtracted() -> None:
    """Columns of a file are centred, those of an array are not."""
    generator = torch.Generator().manual_seed(1)
    numbers = 50 * torch.rand(300, 4, generator=generator)
    marks = (torch.rand(300, 3, generator=generator) < torch.tensor([0.5, 0.02, 0.3])).float()
    x = torch.cat([numbers, marks, torch.eye(3)[torch.arange(300) % 3]], 1)
    torch.testing.assert_close(column_scale(x - x.mean(0)), column_scale(x))


def test_a_constant_column_is_left_alone() -> None:
    assert column_scale(torch.tensor([[1.0, 4.0], [3.0, 4.0]])).tolist() == [1.0, 1.0]


def test_a_category_weighs_as_a_number_however_many_levels_it_has() -> None:
    generator = torch.Generator().manual_seed(1)
    levels = torch.randint(0, 10, (2000,), generator=generator)
    one_hot = torch.nn.functional.one_hot(levels).float()
    x = torch.cat([torch.randn(2000, 1, generator=generator) * 30, one_hot], 1)
    z = Space.of(x)(x)
    of_category = torch.cdist(z[:, 1:], z[:, 1:]).square().mean()
    of_number = torch.cdist(z[:, :1], z[:, :1]).square().mean()
    assert of_category == pytest.approx(float(of_number), rel=0.02)


def test_one_hot_columns_with_rows_of_no_level_are_one_group() -> None:
    rows = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]) == 1
    assert exclusive_groups(rows, torch.ones(3, dtype=torch.bool)) == [[0, 1, 2]]


def test_a_rare_mark_does_not_outweigh_all() -> None:
    x = torch.zeros(1000, 1)
    x[0] = 1
    assert column_scale(x).item() == pytest.approx(0.2)


def test_above_64_columns_principal_components_take_over() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 80)) + 0.1 * rng.normal(size=(300, 80))
    space = Space.of(torch.from_numpy(x))
    z = space(torch.from_numpy(x)).double().numpy()
    scaled = (x - x.mean(0)) / space.scale.double().numpy()
    peer = PCA(50).fit_transform(scaled)
    assert z.shape == (300, 50)
    assert np.abs(z[:, :5]) == pytest.approx(np.abs(peer[:, :5]), abs=2e-3)


def test_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="columns of training"):
        Space.of(torch.rand(5, 3))(torch.rand(5, 2))


def test_many_rows_are_gone_through_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = (
        torch.randn(1000, 7, generator=torch.Generator().manual_seed(0)) * 3.0 ** torch.arange(7)
        + 5
    )
    monkeypatch.setattr("dessl.teachers.space.AT_ONCE", 700)
    exact = x.double().numpy()
    np.testing.assert_allclose(column_mean(x), exact.mean(0), rtol=1e-12)
    scale = column_scale(x, one_hot_together=False)
    np.testing.assert_allclose(scale, exact.std(0), rtol=1e-12)


@pytest.mark.parametrize("n", [30, 300])
def test_principal_directions_are_those_of_a_singular_value_decomposition(n: int) -> None:
    rows = torch.randn(n, 90, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = (rows - rows.mean(0)) * torch.linspace(3, 0.1, 90, dtype=torch.float64)
    rows[-2:] = rows[0]  # copies
    found = _principal(rows, torch.zeros(90).double(), torch.ones(90).double())
    k = min(50, n - 1)
    assert found.shape == (90, k)
    _, values, right = torch.linalg.svd(rows, full_matrices=False)
    there = (values[:k] > 1e-9 * values[0]).double()
    same = (found * right[:k].T).sum(0).abs()
    torch.testing.assert_close(same, there, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_equally_frequent_categories_have_principal_directions(seed: int) -> None:
    # each of 100 categories in one row: LAPACK's solver for some eigenvectors gives up
    n, levels = 400, 100
    rows = torch.zeros(n, levels + 1)
    rows[torch.arange(levels), torch.arange(levels)] = 1.0
    rows[:, -1] = torch.from_numpy(np.random.default_rng(seed).normal(size=n))
    mean, scale = column_mean(rows), column_scale(rows)
    found = _principal(rows, mean, scale)
    scaled = (rows.double() - mean) / scale
    captured = float((scaled @ found).square().sum())
    largest = torch.linalg.svdvals(scaled)[: found.shape[1]]
    torch.testing.assert_close(found.T @ found, torch.eye(found.shape[1]).double())
    assert captured == pytest.approx(float(largest.square().sum()))


def test_left_out_is_what_the_components_do_not_explain() -> None:
    x = torch.randn(400, 100, generator=torch.Generator().manual_seed(0)).double()
    for rows in (x, x[:60]):  # more rows than columns, and fewer
        values = torch.linalg.svdvals((rows - rows.mean(0)) / column_scale(rows)).square()
        assert left_out(rows) == pytest.approx(float(values[50:].sum() / values.sum()))
    assert left_out(x[:50]) == left_out(torch.zeros(400, 100)) == 0
