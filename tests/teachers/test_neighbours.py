import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from dessl.teachers.neighbours import Index


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3000, 6, generator=generator) @ torch.randn(6, 20, generator=generator)


def test_exact_neighbours_are_those_of_scikit_learn(rows: torch.Tensor) -> None:
    found = Index(rows, exact=True).nearest_others(8)
    distances, _ = NearestNeighbors(n_neighbors=9).fit(rows.numpy()).kneighbors(rows.numpy())
    assert found.squares.sqrt().numpy() == pytest.approx(distances[:, 1:], rel=1e-3, abs=1e-4)
    assert not (found.numbers == torch.arange(3000)[:, None]).any()


def test_neighbours_in_cells_are_nearly_exact(rows: torch.Tensor) -> None:
    exact = Index(rows, exact=True).nearest_others(8).numbers
    near = Index(rows, exact=False).nearest_others(8).numbers
    shared = [len(set(a) & set(b)) / 8 for a, b in zip(exact.tolist(), near.tolist(), strict=True)]
    assert np.mean(shared) > 0.9
    assert not (near == torch.arange(3000)[:, None]).any()


def test_neighbours_in_cells_are_the_same_on_every_run(rows: torch.Tensor) -> None:
    first, second = (Index(rows, exact=False).nearest(rows[:50], 5) for _ in range(2))
    assert torch.equal(first.numbers, second.numbers)


def test_new_queries_in_cells(rows: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(1)
    queries = rows[:200] + 0.01 * torch.randn(200, 20, generator=generator)
    assert (Index(rows, exact=False).nearest(queries, 1).numbers[:, 0] == torch.arange(200)).all()


def test_cells_with_too_few_rows_fall_back_to_all_rows(rows: torch.Tensor) -> None:
    some = rows[:60]
    found, exact = (Index(some, exact=flag).nearest(rows[60:90], 50) for flag in (False, True))
    assert torch.equal(found.numbers, exact.numbers)


def test_queries_are_searched_in_parts(rows: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(rows, exact=False)
    whole = index.nearest(rows, 5)
    monkeypatch.setattr("dessl.teachers.neighbours.QUERIES", 700)
    monkeypatch.setattr("dessl.teachers.neighbours.ENTRIES", 2**12)
    assert (index.nearest(rows, 5).numbers == whole.numbers).float().mean() > 0.999


def test_each_query_searches_the_cells_nearest_to_itself(rows: torch.Tensor) -> None:
    index = Index(rows, exact=False)
    found = index.nearest(rows, 8).numbers
    centres, order, ends = index.cells
    cell = torch.empty(len(rows), dtype=torch.long)
    cell[order] = torch.searchsorted(ends, torch.arange(len(rows)), right=True)
    near = torch.cdist(rows, centres).topk(8, largest=False).indices
    assert (cell[found][:, :, None] == near[:, None]).any(2).float().mean() > 0.999


def test_equal_rows_do_not_count_as_the_row_itself() -> None:
    rows = torch.zeros(6, 2)
    found = Index(rows).nearest_others(3).numbers
    assert not (found == torch.arange(6)[:, None]).any()
