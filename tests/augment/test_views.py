"""The weak and the strong view: law, determinism, normalisation, and what they refuse."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.utils._pytree import tree_map

from dessl.augment import Strong, Symmetries, Weak
from dessl.augment.symmetries import in_position

VIEWS = [
    Weak(),
    Strong(),
    Strong(n_ops=2, magnitude=0.7, cutout=0.0),
    Weak(flip=False, shift=2),
    Weak(upside_down=True),
    Strong(flip=False, upside_down=True),
]


@pytest.mark.parametrize("view", VIEWS)
def test_one_seed_one_result(small: Tensor, view: Weak | Strong) -> None:
    first, second = (view(small, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, view(small, torch.Generator().manual_seed(6)))


def test_the_defaults_are_the_published_law(small: Tensor) -> None:
    weak = {"flip": True, "shift": 0.125, "mean": 0.0, "std": 1.0}
    strong = {"n_ops": 3, "magnitude": None, "cutout": 0.5, "fill": 0, "cutout_fill": 127}
    for default, spelt in ((Weak(), Weak(**weak)), (Strong(), Strong(**weak, **strong))):
        first, second = (view(small, torch.Generator().manual_seed(5)) for view in (default, spelt))
        assert torch.equal(first, second)


@pytest.mark.parametrize("view", VIEWS)
def test_an_image_alone_gives_what_it_gives_in_a_batch(small: Tensor, view: Weak | Strong) -> None:
    draw = view.draw(small, torch.Generator().manual_seed(5))
    together = view.apply(small, draw)
    for row in range(len(small)):
        alone = tree_map(lambda part, row=row: part if part is None else part[row : row + 1], draw)
        assert torch.equal(view.apply(small[row : row + 1], alone)[0], together[row])


@pytest.mark.parametrize("view", VIEWS)
def test_equal_images_get_views_of_their_own(small: Tensor, view: Weak | Strong) -> None:
    same = small[3:4].repeat(64, 1, 1, 1)
    views = view(same, torch.Generator().manual_seed(5))
    assert len({one.numpy().tobytes() for one in views}) > 20


@pytest.mark.parametrize("view", VIEWS)
def test_shapes_and_dtype(
    pictures: Tensor, view: Weak | Strong, generator: torch.Generator
) -> None:
    result = view(pictures, generator)
    assert result.shape == pictures.shape
    assert result.dtype == torch.float32
    assert 0 <= float(result.min()) <= float(result.max()) <= 1
    assert view(pictures[:0], generator).shape == (0, *pictures.shape[1:])


def test_flips_and_shifts_follow_their_law(generator: torch.Generator) -> None:
    images = torch.zeros(20_000, 1, 32, 24, dtype=torch.uint8)
    flip, columns, rows, turns = Weak().draw(images, generator)
    assert turns is None
    assert stats.binomtest(int(flip.sum()), len(flip)).pvalue > 1e-3
    for shift, reach in ((columns, 3), (rows, 4)):
        counts = np.bincount(shift + reach)
        assert len(counts) == 2 * reach + 1
        assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.chi2_contingency(np.histogram2d(columns, rows, bins=(7, 9))[0]).pvalue > 1e-3


def test_whole_shifts_are_pixels_and_flips_can_be_switched_off(generator: torch.Generator) -> None:
    images = torch.zeros(500, 1, 32, 32, dtype=torch.uint8)
    flip, columns, rows, _ = Weak(flip=False, shift=2).draw(images, generator)
    assert not flip.any()
    assert set(columns.tolist()) == set(rows.tolist()) == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("some", list(product([False, True], repeat=3)))
def test_positions_are_drawn_uniformly(
    some: tuple[bool, bool, bool], generator: torch.Generator
) -> None:
    """All positions that the symmetries lead to are equally frequent, and no others occur."""
    symmetries = Symmetries(*some)
    images = torch.zeros(8_000, 1, 4, 4, dtype=torch.uint8)
    images[:, 0, 0, 1] = 1  # in another place in each of the eight positions
    view = Weak(**symmetries._asdict(), shift=0, mean=0.0, std=1 / 255)
    shown = view(images, generator).flatten(1).argmax(1)
    expected = [int(in_position(images[:1], one).argmax()) for one in symmetries.positions]
    counts = shown.bincount(minlength=16)[expected]
    assert int(counts.sum()) == len(images)
    assert len(expected) == 1 or stats.chisquare(counts).pvalue > 1e-3


def test_without_new_symmetries_a_view_is_the_published_one_bit_for_bit(small: Tensor) -> None:
    n, (height, width) = len(small), small.shape[2:]
    by_hand, used = (torch.Generator().manual_seed(9) for _ in range(2))
    flip = torch.randint(0, 2, (n,), generator=by_hand) == 1
    columns = torch.randint(-1, 2, (n,), generator=by_hand)
    rows = torch.randint(-2, 3, (n,), generator=by_hand)
    padded = torch.nn.functional.pad(
        torch.where(flip[:, None, None, None], small.flip(-1), small).float(),
        (1, 1, 2, 2),
        mode="reflect",
    )
    expected = torch.stack(
        [
            one[:, 2 + r : 2 + r + height, 1 + c : 1 + c + width]
            for one, c, r in zip(padded, columns.tolist(), rows.tolist(), strict=True)
        ]
    )
    found = Weak(std=1 / 255).levels(small, Weak().draw(small, used))
    assert torch.equal(found, expected.to(torch.uint8))
    assert torch.equal(used.get_state(), by_hand.get_state())


def test_only_square_images_are_turned_by_quarters(
    small: Tensor, generator: torch.Generator
) -> None:
    with pytest.raises(ValueError, match=r"only square images .*; got 12 × 10 pixels. Pass turn="):
        Strong(turn=True)(small, generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_normalisation(small: Tensor, dtype: torch.dtype, generator: torch.Generator) -> None:
    mean, std = (0.1, 0.4, 0.6), (0.2, 0.5, 0.3)
    view = Strong(n_ops=0, cutout=0, flip=False, shift=0, mean=mean, std=std, dtype=dtype)
    result = view(small, generator)
    expected = (small.numpy() / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert result.dtype == dtype
    close = 4 * torch.finfo(dtype).eps * 3
    np.testing.assert_allclose(result.double(), expected, rtol=close, atol=close)


def test_one_mean_serves_every_channel(small: Tensor, generator: torch.Generator) -> None:
    one = Weak(flip=False, shift=0, mean=0.5, std=(0.1, 0.2, 0.3))(small, generator)
    three = Weak(flip=False, shift=0, mean=[0.5] * 3, std=(0.1, 0.2, 0.3))(small, generator)
    assert torch.equal(one, three)


def test_strong_is_weak_then_randaugment_then_cutout(small: Tensor) -> None:
    strong = Strong(n_ops=0, cutout=0)
    draw = strong.draw(small, torch.Generator().manual_seed(1))
    assert torch.equal(strong.apply(small, draw), Weak().apply(small, draw.weak))
    square = Strong(n_ops=0, cutout_fill=255).levels(torch.zeros_like(small), draw)
    assert set(square.unique().tolist()) == {0, 255}


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        (np.zeros((2, 3, 8, 8), np.uint8), TypeError, r"got ndarray. Convert .* torch.as_tensor"),
        (torch.zeros(2, 3, 8, 8), TypeError, "must be uint8.*got torch.float32. Augment before"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), ValueError, r"got \(3, 8, 8\). Use x\[None\]"),
        (torch.zeros(2, 8, 8, 3, dtype=torch.uint8), ValueError, r"1 or 3 channel.*x.permute"),
        (torch.zeros(2, 3, 0, 8, dtype=torch.uint8), ValueError, "at least one pixel"),
    ],
)
def test_wrong_images_are_refused(
    images: Tensor, error: type[Exception], message: str, generator: torch.Generator
) -> None:
    with pytest.raises(error, match=message):
        Strong()(images, generator)


def test_a_generator_is_asked_for(small: Tensor) -> None:
    with pytest.raises(TypeError, match=r"must be a torch.Generator; got NoneType. Make one with"):
        Weak()(small, None)
    with pytest.raises(ValueError, match=r"meta; got one on cpu"):
        Weak()(small.to("meta"), torch.Generator())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_ops": -1}, ValueError, "n_ops must be at least 0; got -1"),
        ({"n_ops": 2.0}, TypeError, "n_ops must be a whole number"),
        ({"magnitude": 1.5}, ValueError, r"magnitude must lie in \[0, 1\]; got 1.5"),
        ({"cutout": 2}, ValueError, r"cutout must lie in \[0, 1\]"),
        ({"fill": 256}, ValueError, "fill must be between 0 and 255"),
        ({"cutout_fill": -1}, ValueError, "cutout_fill must be between 0 and 255"),
        ({"shift": -1}, ValueError, "shift must be at least 0"),
        ({"shift": 1.0}, ValueError, r"shift must lie in \[0, 1\); got 1.0"),
        ({"std": 0}, ValueError, r"std must lie in \(0, inf\]; got 0"),
        ({"mean": "grey"}, TypeError, "mean must be a number"),
        ({"mean": (0, 0), "std": (1, 1, 1)}, ValueError, "same number of values; got 2 and 3"),
        ({"dtype": torch.int8}, ValueError, "dtype must be one of torch.float32"),
    ],
)
def test_wrong_settings_are_refused(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Strong(**arguments)


def test_settings_that_do_not_fit_the_images_are_refused(generator: torch.Generator) -> None:
    grey = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"each of the 1 channel\(s\) of the images; got 3"):
        Weak(mean=(0.5, 0.5, 0.5))(grey, generator)
    with pytest.raises(ValueError, match="smaller than the images' sides; got 8 for a side of 8"):
        Weak(shift=8)(grey, generator)


def test_a_view_with_nothing_to_draw_leaves_the_generator_alone() -> None:
    images = torch.randint(256, (3, 1, 8, 8), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(7)
    before = generator.get_state()
    view = Weak(flip=False, shift=0)(images, generator)
    assert torch.equal(generator.get_state(), before)
    torch.testing.assert_close(view, images / 255)
