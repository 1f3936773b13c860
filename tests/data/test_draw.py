from collections import Counter
from contextlib import nullcontext
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.data.draw import (
    LabelDraw,
    draw_labels,
    draw_labels_by_class,
    draw_of_mask,
    redraw_labels,
)

LEVEL = 1e-4  # seeds are fixed, so a test that passes once passes always


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def is_partition(draw: LabelDraw, n: int) -> bool:
    return sorted(torch.cat(draw).tolist()) == list(range(n))


# MCAR


@pytest.mark.filterwarnings("ignore:no label of class")
def test_mcar_makes_every_split_equally_likely() -> None:
    y = torch.tensor([0, 0, 0, 1, 1, -1])  # imbalanced, and one row that cannot be drawn
    generator, counts = seeded(), Counter()
    for _ in range(6000):
        draw = draw_labels(y, 4, n_validation=1, generator=generator)
        assert is_partition(draw, 6)
        assert 5 in draw.unlabelled.tolist()
        counts[tuple(draw.labelled.tolist()), tuple(draw.validation.tolist())] += 1
    splits = [
        (tuple(sorted(set(four) - {held})), (held,))
        for four in combinations(range(5), 4)
        for held in four
    ]
    assert set(counts) == set(splits)
    assert len(splits) == comb(5, 4) * 4
    assert stats.chisquare([counts[split] for split in splits]).pvalue > LEVEL


@pytest.mark.filterwarnings("ignore:no label of class")
def test_mcar_class_counts_follow_the_hypergeometric_law() -> None:
    y = torch.tensor([0] * 30 + [1] * 10)
    generator, repeats = seeded(1), 4000
    ones = [int(y[draw_labels(y, 8, generator=generator).labelled].sum()) for _ in range(repeats)]
    law = stats.hypergeom(40, 10, 8)
    expected = np.array([law.pmf(k) for k in range(5)] + [law.sf(4)]) * repeats
    observed = np.bincount(np.minimum(ones, 5), minlength=6)
    assert stats.chisquare(observed, expected).pvalue > LEVEL


def test_the_budget_covers_training_and_validation() -> None:
    y = torch.arange(1000) % 10
    draw = draw_labels(y, 200, n_validation=20, generator=seeded())
    assert [len(rows) for rows in draw] == [180, 20, 800]
    assert is_partition(draw, 1000)
    assert all(rows.tolist() == sorted(rows.tolist()) for rows in draw)


def test_a_seed_gives_one_draw_and_another_seed_another() -> None:
    y = np.arange(1000) % 10
    first, again, other = (draw_labels(y, 200, generator=seeded(s)).labelled for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_mcar_warns_of_a_class_without_labels() -> None:
    for rare in (7, 2**60):  # whose size costs no memory
        y = torch.tensor([0] * 50 + [1] * 50 + [2] * 50 + [rare])
        message = rf"no label of class\(es\) {rare} was drawn to train on"
        with pytest.warns(UserWarning, match=message):
            draw_labels(y, 30, generator=seeded())


def test_a_class_whose_only_labels_are_held_out_is_warned_of() -> None:
    y = torch.tensor([0, 1])
    with pytest.warns(UserWarning, match=r"no label of class\(es\) [01] was drawn"):
        draw_labels(y, 2, n_validation=1, generator=seeded())


# balanced


@pytest.mark.parametrize(("n_labelled", "n_validation"), [(40, 10), (43, 7), (17, 3), (11, 0)])
def test_balanced_draws_differ_by_one_at_most(n_labelled: int, n_validation: int) -> None:
    y = torch.arange(400) % 10
    draw = draw_labels(y, n_labelled, how="balanced", n_validation=n_validation, generator=seeded())
    assert is_partition(draw, 400)
    assert len(draw.labelled) == n_labelled - n_validation
    for rows in (draw.labelled, draw.validation, torch.cat(draw[:2])):
        counts = y[rows].bincount(minlength=10)
        assert int(counts.max() - counts.min()) <= 1


def test_balanced_draws_are_uniform_within_classes_and_over_remainders() -> None:
    y = torch.tensor([0, 0, 0, 4, 4, 4, -1])
    generator, counts = seeded(2), Counter()
    for _ in range(4000):
        draw = draw_labels(y, 3, how="balanced", generator=generator)
        counts[tuple(draw.labelled.tolist())] += 1
    sets = [rows for rows in combinations(range(6), 3) if len({0, 1, 2} & set(rows)) in (1, 2)]
    assert set(counts) == set(sets)
    assert stats.chisquare([counts[rows] for rows in sets]).pvalue > LEVEL


def test_balanced_warns_exactly_where_a_chi_square_test_does() -> None:
    for ones in range(100, 181, 8):
        y = torch.tensor([0] * 100 + [1] * ones)
        imbalanced = stats.chisquare([100, ones]).pvalue < 0.01
        with pytest.warns(UserWarning, match="not MCAR") if imbalanced else nullcontext():
            draw_labels(y, 10, how="balanced", generator=seeded())


def test_the_warning_says_why() -> None:
    y = torch.tensor([0] * 100 + [1] * 400)
    with pytest.warns(UserWarning, match=r"rarest has 100 rows, .* 400\) is not MCAR: .*unbiased"):
        draw_labels(y, 10, how="balanced", generator=seeded())


def test_a_class_too_small_for_balance_is_named() -> None:
    y = torch.tensor([0] * 8 + [3] * 5)
    with pytest.raises(ValueError, match=r"12 labels needs 6 of class 3, which has 5\. Draw fewer"):
        draw_labels(y, 12, how="balanced", generator=seeded())


# φ(y)


def test_class_dependent_missingness_keeps_each_class_at_its_rate() -> None:
    y = torch.tensor([0, 1, 2, -1]).repeat(5000)
    phi = [0.4, 0.1, 0.03]
    draw = draw_labels_by_class(y, phi, n_validation=100, generator=seeded())
    assert is_partition(draw, len(y))
    assert len(draw.validation) == 100
    kept = y[torch.cat(draw[:2])].bincount(minlength=3).tolist()
    for count, probability in zip(kept, phi, strict=True):
        assert stats.binomtest(count, 5000, probability).pvalue > LEVEL
    assert stats.chi2_contingency(
        [y[rows].bincount(minlength=3).tolist() for rows in draw[:2]]
    ).pvalue > (LEVEL)  # validation is drawn from the kept labels alike


def test_certain_and_impossible_labels() -> None:
    y = torch.tensor([0, 1, -1, 1, 0])
    with pytest.warns(UserWarning, match=r"class\(es\) 1"):
        draw = draw_labels_by_class(y, np.array([1.0, 0.0]), generator=seeded())
    assert [rows.tolist() for rows in draw] == [[0, 4], [], [1, 2, 3]]


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        ([0.5, 1.5], r"phi must be probabilities; got \[0.5, 1.5\]"),
        ([0.5], "one probability for each class; got 1, but y has class 1"),
        ([[0.5, 0.5]], r"phi must have 1 dimension\(s\)"),
        ([0.5, float("nan")], "phi must be finite"),
    ],
)
def test_what_cannot_be_a_propensity_is_refused(phi, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_labels_by_class(torch.tensor([0, 1]), phi, generator=seeded())


# label noise


def test_noise_redraws_an_exact_number_uniformly() -> None:
    y = torch.tensor([0, 1, 2, 3, -1]).repeat(2500)
    before = y.clone()
    noisy = redraw_labels(y, 0.3, 5, generator=seeded())
    assert torch.equal(y, before)
    assert torch.equal(noisy == -1, y == -1)
    # 3,000 of 10,000 are redrawn, each staying as it was with probability 1/5
    changed = noisy != y
    assert int(changed.sum()) <= 3000
    assert stats.binomtest(int(changed.sum()), 3000, 4 / 5).pvalue > LEVEL
    # which of the other four classes it becomes is uniform, for each class it was
    for k in range(4):
        became = noisy[changed & (y == k)].bincount(minlength=5)
        assert int(became[k]) == 0
        others = [int(became[j]) for j in range(5) if j != k]
        assert stats.chisquare(others).pvalue > LEVEL


def test_noise_may_hit_every_set_of_rows() -> None:
    y = torch.zeros(5, dtype=torch.long)
    generator, counts = seeded(), Counter()
    for _ in range(4000):
        noisy = redraw_labels(y, 0.4, 1000, generator=generator)
        counts[tuple(noisy.nonzero().flatten().tolist())] += 1
    pairs = list(combinations(range(5), 2))
    redrawn = [counts[pair] for pair in pairs]
    assert sum(redrawn) > 3980  # a redrawn label is 0 again once in a thousand
    assert stats.chisquare(redrawn).pvalue > LEVEL


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_noise_and_only_noise(share: float) -> None:
    y = torch.zeros(1000, dtype=torch.long)
    noisy = redraw_labels(y, share, 4, generator=seeded())
    expected = [1000, 0, 0, 0] if share == 0 else None
    counts = noisy.bincount(minlength=4).tolist()
    assert counts == expected if expected else stats.chisquare(counts).pvalue > LEVEL


# errors


@pytest.mark.parametrize(
    ("y", "options", "error", "message"),
    [
        ([0, 1], {"n_labelled": 3}, ValueError, "n_labelled must be between 1 and 2; got 3"),
        ([0, 1], {"n_labelled": 0}, ValueError, "between 1 and 2; got 0"),
        ([0, 1], {"n_labelled": 0.5}, TypeError, "n_labelled must be a whole number"),
        ([0, 1], {"n_labelled": 2, "n_validation": 2}, ValueError, "between 0 and 1; got 2"),
        (
            [0, 1],
            {"n_labelled": 2, "how": "random"},
            ValueError,
            "'mcar', 'balanced'; got 'random'",
        ),
        ([-1, -1], {"n_labelled": 1}, ValueError, "at least one label; all 2 are missing"),
        ([0, -2], {"n_labelled": 1}, ValueError, "got -2"),
        (
            [0.0, 1.0],
            {"n_labelled": 1},
            TypeError,
            "class numbers.*got torch.float64.*SemiData's y",
        ),
        ([[0, 1]], {"n_labelled": 1}, TypeError, r"of shape \(1, 2\)"),
    ],
)
def test_impossible_draws_are_refused(y, options, error, message: str) -> None:
    with pytest.raises(error, match=message):
        draw_labels(np.array(y), generator=seeded(), **options)


@pytest.mark.parametrize("generator", [0, None, np.random.default_rng(0)])
def test_a_seed_is_no_generator(generator) -> None:
    y = np.array([0, 1, 0, 1])
    message = r"must be a torch.Generator; got \w+. Make one with torch.Generator\(\).manual_seed"
    for draw in (
        lambda: draw_labels(y, 2, generator=generator),
        lambda: draw_labels_by_class(y, [0.5, 0.5], generator=generator),
        lambda: redraw_labels(y, 0.5, 2, generator=generator),
    ):
        with pytest.raises(TypeError, match=message):
            draw()


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.uint32, np.uint64])
def test_labels_of_any_whole_number_type_are_drawn_alike(dtype) -> None:
    y = np.arange(300) % 256  # 255 is -1 to a byte
    draws = [draw_labels(labels, 300, generator=seeded()) for labels in (y, y.astype(dtype))]
    assert torch.equal(draws[0].labelled, draws[1].labelled)
    assert len(draws[1].labelled) == 300


def test_noise_refuses_too_few_classes() -> None:
    with pytest.raises(ValueError, match="n_classes must be at least 3; got 2"):
        redraw_labels(torch.tensor([0, 2]), 0.1, 2, generator=seeded())


def test_a_mask_is_a_draw() -> None:
    y = torch.tensor([0, 1, -1])
    draw = draw_of_mask(np.array([False, True, False]), y)
    assert [rows.tolist() for rows in draw] == [[1], [], [0, 2]]
    for mask in ([1, 0, 0], [True, False]):
        with pytest.raises(ValueError, match=r"boolean of shape \(3,\), True where"):
            draw_of_mask(np.array(mask), y)
