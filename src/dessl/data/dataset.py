"""A PyTorch data set read once, item by item, into one array."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset


def dataset_arrays(dataset: "Dataset[Any]") -> tuple[NDArray[Any], list[Any]]:
    """The features (n, ...) and labels [n] of a map-style data set of (x, y) items.

    The array is allocated once, at the first item; each item is let go when it has been copied in.

    Example:
        >>> dataset_arrays([(np.zeros(2), "a"), (np.ones(2), None)])
        (array([[0., 0.], [1., 1.]]), ['a', None])
    """
    n = len(dataset) if hasattr(dataset, "__len__") else 0
    if n == 0:
        raise ValueError(
            f"the data set must have items and a length; got {type(dataset).__name__} without. "
            "Collect an iterable data set into arrays first."
        )
    x, y = _pair(dataset, 0)
    features = np.empty((n, *x.shape), dtype=x.dtype)
    labels = [y]
    features[0] = x
    for row in range(1, n):
        x, y = _pair(dataset, row)
        if x.shape != features.shape[1:] or x.dtype != features.dtype:
            raise ValueError(
                f"all items must be alike; item 0 has shape {features.shape[1:]} of "
                f"{features.dtype}, item {row} has {x.shape} of {x.dtype}. Resize or convert them "
                "in the data set."
            )
        features[row] = x
        labels.append(y)
    return features, labels


def _pair(dataset: "Dataset[Any]", row: int) -> tuple[NDArray[Any], Any]:
    item = dataset[row]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise TypeError(
            f"item {row} of the data set must be a pair (x, y); got {type(item).__name__}. "
            "Give unlabelled rows the label -1 or None."
        )
    x, y = item
    shape = tuple(getattr(y, "shape", ()))
    if math.prod(shape) != 1:
        raise ValueError(
            f"the label of item {row} must be one number or text; got shape {shape}. Turn one-hot "
            "labels into classes in the data set, with .argmax()."
        )
    features = x.detach().cpu() if isinstance(x, Tensor) else x
    return np.asarray(features), y.item() if isinstance(y, Tensor | np.ndarray | np.generic) else y
