"""Checks that all augmentations share, and normalisation."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dessl.augment.images import (
    checked_generator,
    checked_images,
    checked_normalisation,
    normalised,
)

BYTES = torch.arange(48, dtype=torch.uint8).view(2, 3, 2, 4)


@pytest.mark.parametrize(
    ("images", "kind", "says"),
    [
        (BYTES.numpy(), TypeError, r"must be a torch\.Tensor .*; got ndarray"),
        (BYTES.float(), TypeError, r"must be uint8.*; got torch\.float32\. Augment before"),
        (BYTES[0], ValueError, r"\(n, channels, height, width\); got \(3, 2, 4\)"),
        (BYTES[:, :, :0], ValueError, r"at least one pixel; got shape \(2, 3, 0, 4\)"),
        (BYTES.permute(0, 2, 3, 1), ValueError, r"1 or 3 channel\(s\); got .*use x\.permute"),
    ],
)
def test_what_is_no_batch_of_images_is_refused(images: Any, kind: type, says: str) -> None:
    with pytest.raises(kind, match=says):
        checked_images(images, channels=(1, 3))


def test_images_are_returned_as_they_are() -> None:
    assert checked_images(BYTES, channels=(1, 3)) is BYTES
    assert checked_images(BYTES[:0]).shape == (0, 3, 2, 4)  # no image is a batch too
    assert checked_images(BYTES[:, :2]).shape == (2, 2, 2, 4)  # any number of channels


def test_a_generator_must_be_one_and_on_the_device() -> None:
    own = torch.Generator()
    assert checked_generator(own, torch.device("cpu")) is own
    with pytest.raises(TypeError, match=r"got int\. Make one with torch\.Generator\('cpu'\)"):
        checked_generator(3, torch.device("cpu"))
    with pytest.raises(ValueError, match="on the images' device, cuda:1; got one on cpu"):
        checked_generator(own, torch.device("cuda", 1))


@pytest.mark.parametrize(
    ("mean", "std", "found"),
    [
        (0.5, 2, ((0.5,), (2,))),
        ((0.1, 0.2, 0.3), 0.5, ((0.1, 0.2, 0.3), (0.5,) * 3)),
        (0, [1.0, 2.0], ((0, 0), (1.0, 2.0))),
    ],
)
def test_one_number_serves_every_channel(mean: Any, std: Any, found: Any) -> None:
    assert checked_normalisation(mean, std, torch.float32) == found


@pytest.mark.parametrize(
    ("mean", "std", "dtype", "says"),
    [
        ((0.1, 0.2), (1.0, 1.0, 1.0), torch.float32, "same number of values; got 2 and 3"),
        (0.5, 0.0, torch.float32, "std must"),
        (0.5, (1.0, -1.0), torch.float32, "std must"),
        (float("nan"), 1.0, torch.float32, "mean must"),
        (0.5, 1.0, torch.int32, "dtype must be one of"),
    ],
)
def test_wrong_settings_are_refused(mean: Any, std: Any, dtype: torch.dtype, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        checked_normalisation(mean, std, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("mean", "std"), [((0.4,), (0.3,)), ((0.1, 0.2, 0.3), (0.5, 1.0, 2.0))])
def test_normalisation_against_numpy(
    mean: tuple[float, ...], std: tuple[float, ...], dtype: torch.dtype
) -> None:
    before = BYTES.clone()
    found = normalised(BYTES, mean, std, dtype)
    m, s = (np.array(part).reshape(-1, 1, 1) for part in (mean, std))
    expected: Tensor = torch.from_numpy((BYTES.numpy() / 255 - m) / s)
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected.to(dtype))
    assert torch.equal(BYTES, before)


def test_a_mean_for_each_channel_of_other_images_is_refused() -> None:
    with pytest.raises(ValueError, match=r"each of the 3 channel\(s\) of the images; got 2"):
        normalised(BYTES, (0.1, 0.2), (1.0, 1.0))
