"""Teachers by name, and those of the user's own."""

from typing import Any

import pytest
import torch
from sklearn.naive_bayes import GaussianNB

from dessl.teachers import FromClassifier, Linear
from dessl.teachers.families import (
    DEFAULT,
    KINDS,
    MOST_ENTRIES,
    WITH_SPARSE,
    check_teachers,
    default_teachers,
    family,
    named_families,
)
from dessl.teachers.gaussians import COVARIANCES, MASSES
from dessl.teachers.graph import ALPHAS, SMOOTHINGS
from dessl.teachers.kernel import KERNELS
from dessl.teachers.linear import STRENGTHS, WHOLE_STRENGTHS
from dessl.teachers.space import Space, left_out
from dessl.teachers.sparse import SHARES
from dessl.teachers.trees import TRIED

SPACE = Space.of(torch.randn(20, 3, generator=torch.Generator().manual_seed(0)))


def test_each_family_has_its_kind_and_its_grid() -> None:
    counts = {
        "graph": len(ALPHAS) * len(SMOOTHINGS), "linear": len(STRENGTHS), "trees": len(TRIED),
        "kernel": len(KERNELS), "gaussians": len(COVARIANCES) * len(MASSES), "boosting": 1,
        "sparse": len(SHARES),
    }  # fmt: skip
    assert counts.keys() == KINDS.keys()
    assert set(DEFAULT) < KINDS.keys()
    for name, count in counts.items():
        found = family(name, SPACE, seed=3, n_labelled=30)
        assert [type(one) for one in found] == [KINDS[name]] * count
        assert len({one.name for one in found}) == count


def test_of_many_columns_the_regression_may_use_all_unless_it_would_take_long() -> None:
    space = Space.of(torch.randn(80, 100, generator=torch.Generator().manual_seed(0)))
    found = family("linear", space, 0, 300)
    assert [one.whole for one in found] == [False] * len(STRENGTHS) + [True] * len(WHOLE_STRENGTHS)
    assert len({one.name for one in found}) == len(found)
    assert len(family("linear", space, 0, MOST_ENTRIES // 100 + 1)) == len(STRENGTHS)
    assert len(family("linear", SPACE, 0, 300)) == len(STRENGTHS)


def test_only_wide_tables_that_components_do_not_sum_up_have_a_sparse_regression() -> None:
    x = torch.randn(800, 120, generator=torch.Generator().manual_seed(0))
    assert default_teachers(x) == WITH_SPARSE == (*DEFAULT, "sparse")
    few = {"64 columns": x[:, :64], "50 rows": x[:50], "images": x[:, :100].view(800, 1, 10, 10)}
    alike = x[:, :1] + 0.3 * x  # as neighbouring pixels are
    assert left_out(alike) < 0.1
    for name, rows in {**few, "alike": alike, "constant": torch.ones(800, 120)}.items():
        assert default_teachers(rows) == DEFAULT, name


def test_families_are_in_the_order_of_the_list() -> None:
    own = FromClassifier(GaussianNB(), name="bayes")
    found = named_families(["trees", own, "linear"], SPACE, 0, 30)
    assert list(found) == ["trees", "bayes", "linear"]
    assert found["bayes"] == [own]
    (wrapped,) = named_families([GaussianNB()], SPACE, 0, 30).values()
    assert isinstance(wrapped[0], FromClassifier)


@pytest.mark.parametrize(
    ("teachers", "kind", "message"),
    [
        ("graph", TypeError, r"must be a list such as \['graph', 'linear'\]; got 'graph'"),
        (None, TypeError, "must be a list"),
        (["graph", "tree"], ValueError, "must be among 'graph', .* or teacher objects; got 'tree'"),
    ],
)
def test_what_is_no_list_of_teachers_is_refused(teachers: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        check_teachers(teachers)
    with pytest.raises(kind, match=message):
        named_families(teachers, SPACE, 0, 30)


@pytest.mark.parametrize(
    "teachers",
    [["trees", "trees"], [GaussianNB(), GaussianNB()], ["linear", Linear(STRENGTHS[0])]],
)
def test_one_name_twice_is_refused(teachers: list[Any]) -> None:
    with pytest.raises(ValueError, match="must have different names"):
        named_families(teachers, SPACE, 0, 30)
