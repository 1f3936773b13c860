"""Input checks of the networks: the shape of the rows, and floats rather than bytes."""

from torch import Tensor


def check_images(x: Tensor, channels: int, *, least_side: int = 1) -> None:
    """Check that x is normalised images (n, channels, height, width)."""
    _check_floats(x)
    fits = x.ndim == 4 and x.shape[1] == channels and min(x.shape[2:]) >= least_side
    if not fits:
        sides = f", sides of at least {least_side}" if least_side > 1 else ""
        raise ValueError(
            f"this network expects images of shape (n, {channels}, height, width){sides}; "
            f"got {tuple(x.shape)}. Set in_channels= to match your images, or permute them."
        )


def check_image_size(x: Tensor, channels: int, size: tuple[int, int]) -> None:
    """Check that x is normalised images (n, channels, *size)."""
    _check_floats(x)
    if tuple(x.shape[1:]) != (channels, *size):
        raise ValueError(
            f"this network expects images of shape (n, {channels}, {size[0]}, {size[1]}); got "
            f"{tuple(x.shape)}. Set in_channels= and size= to match your images."
        )


def check_table(x: Tensor, n_features: int) -> None:
    """Check that x is rows (n, n_features)."""
    _check_floats(x)
    if x.ndim != 2 or x.shape[1] != n_features:
        raise ValueError(
            f"this network expects rows of shape (n, {n_features}); got {tuple(x.shape)}. Set "
            "n_features= to match your table, or flatten the rows with .flatten(1)."
        )


def _check_floats(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(
            f"this network expects normalised floats; got {x.dtype}. Convert images with "
            "x.float() / 255 and subtract their mean."
        )
