"""The views that rows have when none is given, and the one pass for all of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl.augment import Strong, Weak
from dessl.surrogates import (
    ICT,
    VAT,
    FixMatch,
    MixMatch,
    PseudoLabel,
    ReMixMatch,
    Rows,
    Surrogate,
)
from dessl.surrogates.base import Model
from dessl.surrogates.views import (
    NOISE,
    jittered_view,
    joint_logits,
    plain_view,
    strong_view,
    weak_view,
)

IMAGES = torch.randint(
    256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
TABLE = torch.zeros(500, 20)
View = Callable[[Tensor, torch.Generator], Tensor]


@pytest.mark.parametrize(
    ("view", "augmentation"),
    [(weak_view, Weak()), (jittered_view, Weak()), (strong_view, Strong())],
)
def test_images_are_augmented(view: View, augmentation: View) -> None:
    seen, expected = (
        shown(IMAGES, torch.Generator().manual_seed(3)) for shown in (view, augmentation)
    )
    assert torch.equal(seen, expected)


def test_plain_images_are_levels_between_0_and_1() -> None:
    torch.testing.assert_close(plain_view(IMAGES, torch.Generator()), IMAGES / 255)


@pytest.mark.parametrize("view", [plain_view, weak_view])
def test_tables_are_shown_as_they_are(view: View) -> None:
    assert view(TABLE, torch.Generator()) is TABLE


@pytest.mark.parametrize("view", [jittered_view, strong_view])
def test_tables_get_a_little_noise(view: View) -> None:
    seen = view(TABLE, torch.Generator().manual_seed(0))
    assert seen.std().item() == pytest.approx(NOISE, rel=0.05)
    assert seen.mean().item() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("view", [jittered_view, strong_view])
def test_whole_numbers_have_no_augmented_view(view: View) -> None:
    with pytest.raises(TypeError, match=r"got torch.int64. Pass the surrogate a view of your"):
        view(torch.ones(2, 2, dtype=torch.int64), torch.Generator())


def test_all_views_share_one_batch_norm() -> None:
    norm = nn.BatchNorm1d(2)
    views = [torch.randn(5, 2), 3 + torch.randn(5, 2)]
    logits = joint_logits(norm, views)
    assert logits.shape == (2, 5, 2)
    torch.testing.assert_close(logits.flatten(0, 1), nn.BatchNorm1d(2)(torch.cat(views)))


ROWS = Rows(torch.randn(6, 3), torch.arange(6))


@pytest.mark.parametrize("surrogate", [FixMatch(), FixMatch(targets="apart"), MixMatch(), VAT()])
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda x: (x, x), r"must be a floating-point tensor \(n, classes\); got tuple"),
        (lambda x: x.long(), r"must be a floating-point tensor \(n, classes\); got torch\.int64"),
        (lambda x: x[:, :, None] * torch.ones(5), r"shape \((6|12), classes\).*got \((6|12), 3, 5"),
        (lambda x: x[:-1], r"shape \((6|12), classes\).*got \((5|11), 3\)"),
        (lambda x: x.sum(-1), r"got \((6|12),\)\. For log-odds of shape \(n,\) let it return"),
    ],
)
def test_what_is_not_logits_is_refused(surrogate: Surrogate, model: Model, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        surrogate(model, ROWS)


def test_a_view_that_changes_the_number_of_rows_is_refused() -> None:
    doubled = FixMatch(strong=lambda x, generator: torch.cat([x, x]))
    with pytest.raises(
        ValueError, match=r"got views of 6, 12 rows for the same rows\. A view must"
    ):
        doubled(lambda x: x, ROWS)


@pytest.mark.parametrize("kind", [FixMatch, ReMixMatch])
@pytest.mark.parametrize("name", ["weak", "strong"])
@pytest.mark.parametrize(
    ("wrong", "came"), [("flip", "str 'flip'"), (None, "NoneType None"), (Weak, "the class Weak")]
)
def test_what_is_no_view_is_refused_by_name(
    kind: type[Surrogate], name: str, wrong: Any, came: str
) -> None:
    expected = rf"{name} must be a view, .*; got {came}\. Pass such a function, .* Weak\(\)\."
    with pytest.raises(TypeError, match=expected):
        kind(**{name: wrong})


@pytest.mark.parametrize("targets", ["joint", "apart"])
@pytest.mark.parametrize(("wrong", "came"), [(None, "NoneType"), (ROWS.x.numpy(), "ndarray")])
def test_a_view_that_returns_no_tensor_is_refused(wrong: Any, came: str, targets: Any) -> None:
    expected = f"a view must return the rows as a tensor; it returned {came}"
    for surrogate in (
        FixMatch(strong=lambda *_: wrong, targets=targets),
        PseudoLabel(view=lambda *_: wrong),
        VAT(view=lambda *_: wrong),
        ICT(view=lambda *_: wrong),
    ):
        surrogate.prepare(nn.Linear(3, 3), len(ROWS.x), 3)
        with pytest.raises(TypeError, match=expected):
            surrogate(nn.Linear(3, 3), ROWS)
