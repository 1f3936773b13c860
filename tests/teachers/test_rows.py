import pytest
import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.recipes import fit, recipe_for
from dessl.teachers import Graph, Linear, out_of_fold, pooled
from dessl.teachers.neighbours import EXACT_UP_TO
from dessl.teachers.rows import SomeRows, blocks_of
from dessl.teachers.space import Space


@pytest.fixture
def wide() -> SemiData:
    """300 rows of 80 columns in three classes, every fifth row labelled."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 3
    centres = 2 * torch.randn(3, 80, generator=generator)
    x = centres[y] + torch.randn(300, 80, generator=generator)
    return SemiData(x, torch.where(torch.arange(300) % 5 == 0, y, -1))


def some(data: SemiData) -> SomeRows:
    return SomeRows(data.x, data.unlabelled_rows, lambda x: x)


def even(data: SemiData) -> tuple[Tensor, Tensor]:
    log_p = torch.full((data.n_labelled, 3), 1 / 3, dtype=torch.float64).log()
    return torch.arange(data.n_labelled) % 5, log_p


def test_blocks_are_the_rows(wide: SemiData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dessl.teachers.rows.AT_ONCE", 7 * 80)
    rows, exact = some(wide), wide.x[wide.unlabelled_rows]
    assert [len(block) for block in rows.blocks()] == [7] * 34 + [2]
    assert torch.equal(torch.cat(list(rows.blocks())), exact)
    assert torch.equal(torch.cat(list(blocks_of(exact))), exact)
    assert torch.equal(rows.gathered(), exact)


def test_a_space_of_blocks_is_the_space(wide: SemiData, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = wide.x[wide.unlabelled_rows]
    space = Space.of(exact)
    expected = (exact - space.mean) / space.scale @ space.directions
    monkeypatch.setattr("dessl.teachers.rows.AT_ONCE", 7 * 80)
    for mine, other in zip(Space.of(some(wide)), space, strict=True):
        torch.testing.assert_close(mine, other)
    torch.testing.assert_close(space(some(wide)), expected)


def test_a_graph_of_blocks_is_the_graph(wide: SemiData) -> None:
    x, y = wide.x[wide.labelled_rows], wide.y[wide.labelled_rows]
    folds = torch.arange(len(y)) % 5
    for teacher in (Graph(0.8, 1.0), Linear(1.0, space=Space.of(wide.x)), Linear(1.0)):
        found = out_of_fold(teacher, x, y, some(wide), folds, 3)
        expected = out_of_fold(teacher, x, y, some(wide).gathered(), folds, 3)
        torch.testing.assert_close(found, expected)


def test_a_pool_by_default_never_copies_all_unlabelled_rows(
    wide: SemiData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(rows: SomeRows) -> Tensor:
        raise AssertionError(f"{len(rows)} rows were gathered at once")

    with_copies = pooled(wide, *even(wide), lambda x: even(wide)[1][:1].expand(len(x), -1))
    monkeypatch.setattr(SomeRows, "gathered", refused)
    pool = pooled(wide, *even(wide), lambda x: even(wide)[1][:1].expand(len(x), -1))
    assert pool.report == with_copies.report
    graphs = [one for one in pool.members.values() if isinstance(one, Graph)]
    assert graphs
    assert not graphs[0].shared._known  # nor are they kept with the model


def test_of_very_many_unlabelled_rows_teachers_see_a_random_sample(
    wide: SemiData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nodes(seed: int) -> Tensor:
        anchor = even(wide)[1][:1]
        its = {"teachers": ["graph"], "seed": seed}
        pool = pooled(wide, *even(wide), lambda x: anchor.expand(len(x), -1), **its)
        graphs = [one for one in pool.members.values() if isinstance(one, Graph)]
        return graphs[0].state().tensors["rows"]

    monkeypatch.setattr("dessl.teachers.evaluated.MOST_UNLABELLED", wide.n_unlabelled)
    assert len(nodes(0)) == len(wide)
    monkeypatch.setattr("dessl.teachers.evaluated.MOST_UNLABELLED", 100)
    once, again, other = nodes(0), nodes(0), nodes(1)
    assert len(once) == wide.n_labelled + 100
    assert torch.equal(once, again)
    assert not torch.equal(once, other)


def test_networks_without_a_use_for_unlabelled_rows_have_no_copy_of_them(
    wide: SemiData, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dessl.recipes.scaling import Scaling

    seen: list[int] = []
    scaled = Scaling.standardised
    monkeypatch.setattr(
        Scaling, "standardised", lambda self, x: seen.append(len(x)) or scaled(self, x)
    )
    fit(wide, recipe_for(wide, steps=5, networks=2))
    assert seen == [wide.n_labelled]
    fit(wide, recipe_for(wide, steps=5, networks=2, lam=0.5))
    assert seen == [wide.n_labelled, len(wide)]


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("n", [600, EXACT_UP_TO + 3000])
def test_on_a_gpu_the_pool_is_that_of_the_cpu(n: int) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    x = 1.5 * torch.randn(3, 80, generator=generator)[y] + torch.randn(n, 80, generator=generator)
    x[5:9] = x[4]  # copies
    data = SemiData(x, torch.where(torch.arange(n) < 60, y, -1))
    folds, anchor = torch.arange(60) % 5, torch.full((60, 3), 1 / 3, dtype=torch.float64).log()

    def networks(x: Tensor) -> Tensor:
        return anchor[:1].expand(len(x), -1)

    here = pooled(data, folds, anchor, networks)
    there = pooled(data.to("cuda"), folds, anchor, networks)
    for one, other in zip(here.report.members, there.report.members, strict=True):
        assert (one.name, one.weight) == (other.name, pytest.approx(other.weight, abs=0.02))
    torch.testing.assert_close(
        there.predict_log_proba(x[:200].cuda()).exp(),
        here.predict_log_proba(x[:200]).exp(),
        atol=0.02,
        rtol=0,
    )
