"""What networks say of rows that they cannot read."""

import pytest
import torch

from dessl.models.inputs import check_image_size, check_images, check_table

IMAGES = torch.zeros(2, 3, 8, 6)


def test_fitting_rows_pass() -> None:
    check_images(IMAGES, 3)
    check_images(IMAGES.half(), 3, least_side=6)
    check_images(IMAGES[:0], 3)
    check_image_size(IMAGES, 3, (8, 6))
    check_table(torch.zeros(5, 4), 4)


@pytest.mark.parametrize(
    ("shape", "least", "says"),
    [
        ((2, 1, 8, 6), 1, r"shape \(n, 3, height, width\); got \(2, 1, 8, 6\)"),
        ((3, 8, 6), 1, r"got \(3, 8, 6\)\. Set in_channels="),
        ((2, 3, 8, 6), 7, r"sides of at least 7; got \(2, 3, 8, 6\)"),
    ],
)
def test_other_images_are_refused(shape: tuple[int, ...], least: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_images(torch.zeros(shape), 3, least_side=least)


@pytest.mark.parametrize("shape", [(2, 3, 6, 8), (2, 1, 8, 6), (3, 8, 6)])
def test_images_of_another_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(n, 3, 8, 6\); got .*Set in_channels= and size="):
        check_image_size(torch.zeros(shape), 3, (8, 6))


@pytest.mark.parametrize("shape", [(5, 3), (4,), (5, 4, 1)])
def test_other_tables_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"rows of shape \(n, 4\); got .*Set n_features="):
        check_table(torch.zeros(shape), 4)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_bytes_are_refused_before_anything_else(dtype: torch.dtype) -> None:
    x = torch.zeros(1, dtype=dtype)
    for check in (
        lambda: check_images(x, 3),
        lambda: check_image_size(x, 3, (8, 6)),
        lambda: check_table(x, 4),
    ):
        with pytest.raises(TypeError, match=f"normalised floats; got {dtype}. Convert images"):
            check()
