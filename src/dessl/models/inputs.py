"""What a network refuses to read: rows of the wrong shape, and bytes where floats are due."""

from torch import Tensor


def check_images(x: Tensor, channels: int, *, least_side: int = 1) -> None:
    """Refuse anything but normalised images (n, channels, height, width)."""
    _check_floats(x)
    fits = x.ndim == 4 and x.shape[1] == channels and min(x.shape[2:]) >= least_side
    if not fits:
        sides = f", sides of at least {least_side}" if least_side > 1 else ""
        raise ValueError(
            f"this network reads images of shape (n, {channels}, height, width){sides}; "
            f"got {tuple(x.shape)}. Build it with in_channels= of your images, or permute them."
        )


def check_image_size(x: Tensor, channels: int, size: tuple[int, int]) -> None:
    """Refuse anything but normalised images (n, channels, *size)."""
    _check_floats(x)
    if tuple(x.shape[1:]) != (channels, *size):
        raise ValueError(
            f"this network reads images of shape (n, {channels}, {size[0]}, {size[1]}); got "
            f"{tuple(x.shape)}. Build it with in_channels= and size= of your images."
        )


def check_table(x: Tensor, n_features: int) -> None:
    """Refuse anything but rows (n, n_features)."""
    _check_floats(x)
    if x.ndim != 2 or x.shape[1] != n_features:
        raise ValueError(
            f"this network reads rows of shape (n, {n_features}); got {tuple(x.shape)}. Build it "
            "with n_features= of your table, or flatten the rows with .flatten(1)."
        )


def _check_floats(x: Tensor) -> None:
    if not x.is_floating_point():
        raise TypeError(
            f"this network reads normalised floats; got {x.dtype}. Convert images with "
            "x.float() / 255 and subtract their mean."
        )
