"""Columns of images from what their small squares look like."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from dessl import SemiData
from dessl.augment import Symmetries
from dessl.augment.symmetries import NO_SYMMETRIES, Position, in_position
from dessl.teachers import Linear, Pooled, pooled
from dessl.teachers.patches import (
    FLAT,
    IMAGES,
    REGIONS,
    SIDE,
    STRIDE,
    TENSORS,
    THRESHOLD,
    Patches,
    learnt_patches,
    suit_patches,
)
from dessl.teachers.space import Space


def images(n: int, shape: tuple[int, int, int] = (1, 20, 24), seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (n, *shape), generator=generator, dtype=torch.uint8)


def bars(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Bars at random places, lying or standing: classes that pixels hardly show."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    x = torch.randint(40, (n, 1, 24, 24), generator=generator)
    for image, lying in zip(x, y.tolist(), strict=True):
        a, b = torch.randint(14, (2,), generator=generator).tolist()
        (image[0, a : a + 2, b : b + 10] if lying else image[0, b : b + 10, a : a + 2]).fill_(220)
    return x.to(torch.uint8), y


@pytest.mark.parametrize("shape", [(1, 20, 24), (3, 17, 16)])
def test_columns_are_those_of_the_formula(shape: tuple[int, int, int]) -> None:
    x = images(70, shape)
    patches = Patches.of(x)
    row = x[3].double().numpy() / 255
    places = [
        (top, left)
        for top in range(0, shape[1] - SIDE + 1, STRIDE)
        for left in range(0, shape[2] - SIDE + 1, STRIDE)
    ]
    height = len(range(0, shape[1] - SIDE + 1, STRIDE))
    width = len(places) // height
    filters = patches.filters.double().flatten(1).numpy()
    found: dict[int, list[np.ndarray]] = {}
    for number, (top, left) in enumerate(places):
        square = row[:, top : top + SIDE, left : left + SIDE].reshape(-1)
        spread = np.sqrt(square.var() + FLAT)
        score = filters @ ((square - square.mean()) / spread) + patches.offsets.double().numpy()
        region = REGIONS * (number // width * REGIONS // height) + number % width * REGIONS // width
        both = np.maximum(0, np.concatenate([score, -score]) - THRESHOLD)
        found.setdefault(region, []).append(both)
    features = np.stack([np.mean(found[region], 0) for region in range(REGIONS**2)], 1)
    space = Space(patches.mean, patches.scale, patches.directions)
    expected = space(torch.from_numpy(features.reshape(1, -1)).float())
    torch.testing.assert_close(patches(x[3:4]), expected, rtol=1e-3, atol=1e-4)


def test_squares_are_white_in_the_filters() -> None:
    """Filters of noise have about the same variance each, and no mean."""
    patches = Patches.of(images(400))
    weights = patches.filters.flatten(1)
    torch.testing.assert_close(weights.sum(1), torch.zeros(len(weights)), atol=1e-4, rtol=0)
    lengths = weights.norm(dim=1)
    assert float(lengths.std() / lengths.mean()) < 0.1


def test_a_brighter_image_has_the_same_columns() -> None:
    x, _ = bars(300)
    patches = Patches.of(x)
    brighter = x[:5] + 30
    moved = (patches(brighter) - patches(x[:5])).norm()
    assert float(moved / patches(x[:5]).norm()) < 0.02


def test_shapes_show_where_pixels_do_not() -> None:
    x, y = bars(1000)
    new, answer = bars(500, seed=1)
    patches = Patches.of(x)
    shown = Linear(1.0, space=Space.unchanged(50)).fit(patches(x[:40]), y[:40], None, 2)
    right = float((shown.predict_log_proba(patches(new)).argmax(1) == answer).double().mean())
    pixels = LogisticRegression(max_iter=2000).fit(x[:40].flatten(1) / 255, y[:40])
    assert right > 0.88 > 0.75 > pixels.score(new.flatten(1) / 255, answer)


def test_they_are_learnt_without_labels_from_some_of_the_rows() -> None:
    x, y = bars(120)
    one, other = (
        learnt_patches(SemiData(x, torch.where(torch.arange(120) < n, y, -1)), 3) for n in (20, 60)
    )
    for first, second in zip(one.state().values(), other.state().values(), strict=True):
        assert torch.equal(first, second)
    assert IMAGES > 120


def test_large_images_are_reduced_and_few_ones_suffice() -> None:
    x = images(4, (3, 100, 64))
    patches = Patches.of(x)
    assert patches(x).shape == (4, 3)
    assert bool(torch.isfinite(patches(torch.zeros_like(x))).all())


@pytest.mark.parametrize(
    ("symmetries", "positions"),
    [
        (Symmetries(flip=True), [(False, 0), (True, 0)]),
        (Symmetries(flip=True, upside_down=True), [(False, 0), (False, 2), (True, 0), (True, 2)]),
        (Symmetries(turn=True), [(False, turns) for turns in range(4)]),
        (Symmetries(flip=True, upside_down=True, turn=True), [(False, t) for t in range(4)]),
    ],
)
def test_symmetric_positions_have_equal_columns(
    symmetries: Symmetries, positions: list[tuple[bool, int]]
) -> None:
    x = images(90, (1, 20, 20))
    plain, patches = Patches.of(x), Patches.of(x, symmetries=symmetries)
    assert torch.equal(plain.filters, patches.filters)  # learnt from images as they are
    each = [plain.found(in_position(x, Position(*one))) for one in positions]
    torch.testing.assert_close(patches.found(x), torch.stack(each).mean(0))
    for one in positions:
        torch.testing.assert_close(patches(in_position(x, Position(*one))), patches(x))
    again = Patches.from_state(patches.state())
    assert again is not None
    assert again.symmetries == symmetries
    assert torch.equal(again(x), patches(x))


def test_patches_without_symmetries_are_saved_as_before() -> None:
    plain = Patches.of(images(40))
    assert set(plain.state()) == {f"patches.{name}" for name in TENSORS}
    again = Patches.from_state(plain.state())
    assert again is not None
    assert again.symmetries == NO_SYMMETRIES


@pytest.mark.parametrize(
    ("shape", "teachers", "suited"),
    [
        ((1, 28, 28), ("graph", "linear"), True),
        ((3, 200, 300), ("graph",), True),
        ((1, 8, 8), ("graph",), False),
        ((1, 28, 28), ("graph", LogisticRegression()), False),
    ],
)
def test_which_images_and_teachers_suit(
    shape: tuple[int, int, int], teachers: tuple[object, ...], suited: bool
) -> None:
    data = SemiData(images(6, shape), [0, 1, 0, 1, -1, -1])
    assert suit_patches(data, teachers) == suited
    assert not suit_patches(SemiData(torch.rand(4, 784), [0, 1, -1, -1]), teachers)


def test_a_pool_uses_them_and_is_saved_with_them() -> None:
    x, y = bars(300)
    known = torch.where(torch.arange(300) < 60, y, -1)
    folds = torch.arange(60) % 5
    blind = torch.full((60, 2), 0.5, dtype=torch.float64).log()

    def anchor(rows: Tensor) -> Tensor:
        return torch.full((len(rows), 2), 0.5, dtype=torch.float64).log()

    pool = pooled(SemiData(x, known), folds, blind, anchor, teachers=["linear", "gaussians"])
    assert isinstance(pool.columns, Patches)
    new, answer = bars(200, seed=2)
    found = pool.predict_log_proba(new)
    assert float((found.argmax(1) == answer).double().mean()) > 0.85
    again = Pooled.from_state(pool.state(), anchor)
    assert torch.equal(again.predict_log_proba(new), found)
