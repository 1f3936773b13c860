import json
from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load, save
from sklearn.datasets import make_moons
from sklearn.naive_bayes import GaussianNB
from torch import Tensor

from dessl.data import LabelDraw, SemiData
from dessl.teachers import (
    DEFAULT,
    KINDS,
    FromClassifier,
    Linear,
    Pooled,
    PoolReport,
    Sparse,
    State,
    default_teachers,
    pooled,
)
from dessl.teachers.rows import as_columns

CONSTANT = torch.tensor([0.5, 0.5]).double().log()


def constant(x: Tensor) -> Tensor:
    """An anchor that knows nothing."""
    return CONSTANT.expand(len(x), 2)


@pytest.fixture
def moons() -> tuple[SemiData, Tensor, Tensor]:
    x, y = make_moons(500, noise=0.1, random_state=0)
    labels = torch.from_numpy(y).clone()
    labels[40:] = -1
    return SemiData(torch.from_numpy(x).float(), labels), torch.arange(40) % 5, torch.from_numpy(y)


def nothing_known(n: int) -> Tensor:
    return CONSTANT.expand(n, 2).clone()


def test_unlabelled_rows_and_other_predictors_are_told_apart(moons: tuple) -> None:
    data, folds, y = moons
    pool = pooled(data, folds, nothing_known(40), constant)
    report = pool.report
    assert isinstance(report, PoolReport)
    assert float((pool.predict_log_proba(data.x).argmax(1) == y).float().mean()) > 0.95
    assert report.total.mean == pytest.approx(report.anchor - report.pooled)
    assert report.total.mean == pytest.approx(report.ensembling.mean + report.unlabelled.mean)
    assert report.ensembling.mean > 0.1
    assert [member.name for member in report.members if member.uses_unlabelled] == [
        name for name in pool.weights.weights if name.startswith(("graph", "gaussians"))
    ]
    assert "held-out labels" in str(report)
    assert PoolReport.from_dict(json.loads(json.dumps(report.as_dict()))) == report


def test_without_unlabelled_rows_they_bring_nothing(moons: tuple) -> None:
    data, folds, _ = moons
    alone = SemiData(data.x[:40], data.y[:40])
    report = pooled(alone, folds, nothing_known(40), constant).report
    assert report.unlabelled.mean == 0
    assert "unlabelled rows were not used" in report.verdict
    assert not any(member.uses_unlabelled for member in report.members)
    assert report.without_unlabelled == report.pooled


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "boosting"])
def test_a_pool_comes_back_from_disk_to_the_last_digit(moons: tuple, kind: str) -> None:
    data, folds, _ = moons
    pool = pooled(data, folds, nothing_known(40), constant, teachers=[kind])
    assert pool.members
    tensors, settings = pool.state()
    state = State(load(save(tensors)), json.loads(json.dumps(settings, allow_nan=False)))
    again = Pooled.from_state(state, constant)
    assert torch.equal(again.predict_log_proba(data.x), pool.predict_log_proba(data.x))
    assert again.report == pool.report


def test_a_classifier_of_the_users_own_takes_part_but_is_not_saved(moons: tuple) -> None:
    data, folds, _ = moons
    pool = pooled(data, folds, nothing_known(40), constant, teachers=[GaussianNB()])
    assert pool.weights.weights["GaussianNB"] > 0
    with pytest.raises(TypeError, match="'GaussianNB' cannot be saved"):
        pool.state()


def test_the_seed_settles_everything(moons: tuple) -> None:
    data, folds, _ = moons
    one, two, other = (
        pooled(data, folds, nothing_known(40), constant, seed=seed, teachers=["trees"])
        for seed in (0, 0, 1)
    )
    assert torch.equal(one.predict_log_proba(data.x), two.predict_log_proba(data.x))
    assert not torch.equal(one.predict_log_proba(data.x), other.predict_log_proba(data.x))


def test_with_too_few_held_out_labels_the_anchor_stays_alone(moons: tuple) -> None:
    data, _, _ = moons
    none = torch.full((40,), -1)
    pool = pooled(data, none, torch.full((40, 2), torch.nan), constant)
    assert pool.weights.kept == ("cc",)
    assert pool.report is None
    assert torch.equal(pool.predict_log_proba(data.x), constant(data.x))


def test_an_anchor_that_held_out_one_fold_alone_is_judged_by_it(moons: tuple) -> None:
    data, folds, _ = moons
    anchor = nothing_known(40)
    folds = torch.arange(40) % 2
    anchor[folds > 0] = torch.nan
    pool = pooled(data, folds, anchor, constant, teachers=["linear"])
    assert pool.report.n == 20


def test_a_validation_part_judges_and_does_not_train(moons: tuple) -> None:
    data, _, y = moons
    full = SemiData(data.x, y)
    rows = torch.arange(500)
    drawn = full.with_labels(LabelDraw(rows[:30], rows[30:60], rows[60:]))
    flipped = SemiData(data.x, torch.where(rows < 30, y, 1 - y))
    wrong = flipped.with_labels(LabelDraw(rows[:30], rows[30:60], rows[60:]))
    none = torch.full((30,), -1)
    own = Linear(1.0)
    pool = pooled(drawn, none, nothing_known(30), constant, teachers=[own])
    assert pool.report.n == 30
    assert pool.weights.weights["linear C=1"] > 0.5
    expected = Linear(1.0).fit(data.x[:30], y[:30], data.x[60:], 2)
    assert own.predict_log_proba(data.x).numpy() == pytest.approx(
        expected.predict_log_proba(data.x).numpy(), abs=0.1
    )
    worse = pooled(wrong, none, nothing_known(30), constant, teachers=[Linear(1.0)])
    assert worse.weights.weights["linear C=1"] * worse.weights.exponents["linear C=1"] < 0.1


def test_images_are_levels_side_by_side() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randint(0, 128, (60, 1, 5, 5), generator=generator, dtype=torch.uint8)
    x += (y * 100).to(torch.uint8)[:, None, None, None]
    data = SemiData(x, y)
    pool = pooled(data, torch.arange(60) % 5, nothing_known(60), constant, teachers=["linear"])
    assert (pool.predict_log_proba(x).argmax(1) == y).all()
    assert as_columns(x).shape == (60, 25)


def test_large_images_are_reduced() -> None:
    x = torch.randint(256, (5, 1, 64, 64), dtype=torch.uint8)
    expected = torch.nn.functional.avg_pool2d(x.float(), 2).round().flatten(1) / 255
    torch.testing.assert_close(as_columns(x), expected)


def test_a_network_may_give_the_columns(moons: tuple) -> None:
    data, folds, _ = moons
    pool = pooled(data, folds, nothing_known(40), constant, teachers=["trees"],
                  columns=lambda x: x[:, :1])  # fmt: skip
    moved = data.x.clone()
    moved[:, 1] += 100
    assert torch.equal(pool.predict_log_proba(data.x), pool.predict_log_proba(moved))


@pytest.mark.parametrize(
    ("teachers", "kind", "message"),
    [
        ("graph", TypeError, "a list"),
        (["forest"], ValueError, "got 'forest'"),
        (["graph", "graph"], ValueError, "different names"),
        ([GaussianNB(), GaussianNB()], ValueError, "different names"),
        ([3], TypeError, "predict_proba"),
    ],
)
def test_wrong_teachers_are_refused(
    moons: tuple, teachers: object, kind: type, message: str
) -> None:
    data, folds, _ = moons
    with pytest.raises(kind, match=message):
        pooled(data, folds, nothing_known(40), constant, teachers=teachers)


def test_two_of_a_kind_by_name(moons: tuple) -> None:
    data, folds, _ = moons
    both = [FromClassifier(GaussianNB(), name=name) for name in ("one", "two")]
    pool = pooled(data, folds, nothing_known(40), constant, teachers=both)
    assert set(pool.weights.weights) == {"cc", "one", "two"}


def test_predictions_of_other_rows_are_refused(moons: tuple) -> None:
    data, folds, _ = moons
    with pytest.raises(ValueError, match="one row for each held-out label"):
        pooled(data, folds, nothing_known(39), constant)


def test_a_row_repeated_counts_as_one_label(moons: tuple, blobs: Callable) -> None:
    data, folds, _ = moons
    x, y = data.x[:40].repeat(4, 1), data.y[:40].repeat(4)
    copied = SemiData(torch.cat([x, data.x[40:]]), torch.cat([y, data.y[40:]]))
    groups = torch.arange(40).repeat(4)
    one = pooled(data, folds, nothing_known(40), constant, teachers=["graph"]).report
    four = pooled(copied, folds.repeat(4), nothing_known(160), constant, groups=groups,
                  teachers=["graph"]).report  # fmt: skip
    assert four.n == one.n == 40
    assert four.n_groups is None
    assert four.total.standard_error == pytest.approx(one.total.standard_error, rel=0.5)
    copied.groups = torch.cat([groups, 40 + torch.arange(len(copied) - 160)])
    told = pooled(copied, folds.repeat(4), nothing_known(160), constant, groups=groups,
                  teachers=["graph"]).report  # fmt: skip
    assert (told.n, told.n_groups) == (160, 40)
    assert told.total == four.total


def test_the_comparison_counts_what_the_anchor_gains_by_its_networks_together(
    moons: tuple,
) -> None:
    """Five noisy networks: each alone is worse than their mean, which the user gets."""
    data, folds, y = moons
    noise = 2 * torch.randn(5, 500, 2, generator=torch.Generator().manual_seed(0)).double()
    signal = torch.stack([1.0 - y, y * 1.0], 1).double()
    each = (signal + noise).log_softmax(-1)
    number = {tuple(row.tolist()): k for k, row in enumerate(data.x)}

    def rows_of(x: Tensor) -> list[int]:
        return [number[tuple(row.tolist())] for row in x]

    def mean(x: Tensor) -> Tensor:
        return each[:, rows_of(x)].mean(0).log_softmax(-1)

    oof = each[folds, torch.arange(40)]
    plain = pooled(data, folds, oof, mean, teachers=["linear"]).compared
    fair = pooled(
        data, folds, oof, mean, teachers=["linear"], each_anchor=lambda x: each[:, rows_of(x)]
    ).compared
    assert plain is not None
    assert fair is not None
    one_hot = torch.nn.functional.one_hot(y, 2)
    alone, together = (
        float((p.exp() - one_hot).square().sum(-1).mean()) for p in (each, mean(data.x))
    )
    gained = fair.difference - plain.difference  # less than alone − together: the pool gains too
    assert 0.02 < gained < alone - together
    assert fair.high - fair.low == pytest.approx(plain.high - plain.low)


def test_of_many_columns_the_sparse_regression_finds_the_few_that_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1200, 300, generator=generator)
    y = (2 * x[:, 5] - 2 * x[:, 70] + torch.randn(1200, generator=generator) > 0).long()
    data = SemiData(x, torch.where(torch.arange(1200) < 200, y, -1))
    losses, folds = [], torch.arange(200) % 5
    for teachers in (DEFAULT, default_teachers(x)):
        regressions = [name for name in teachers if name in ("linear", "sparse")]
        pool = pooled(data, folds, nothing_known(200), constant, teachers=regressions)
        log_p = pool.predict_log_proba(x[200:])
        losses.append(-float(log_p.gather(1, y[200:, None]).mean()))
    assert losses[1] < losses[0] - 0.2
    (member,) = (one for one in pool.members.values() if isinstance(one, Sparse))
    assert {5, 70} <= set(member.columns.tolist())
