"""Sets that need no file: scikit-learn's digits, and the paper's toy example."""

from pathlib import Path

import numpy as np

from dessl.data.formats.arrays import RawData, RawPart, digit_names
from dessl.data.toy import two_uniforms

N_TEST = 360
SEED = 0


def read_digits(_root: Path | None = None) -> RawData:
    """Real handwritten digits, uint8 (n, 1, 8, 8): 1,437 to train on and 360 for the test part.

    scikit-learn's values 0 to 16 are spread over 0 to 255. The test rows are the last 360 of
    NumPy's ``default_rng(0).permutation(1797)``, without regard to the classes; rows keep the
    order of the original.

    >>> data = read_digits()
    >>> data.x.shape, int(data.x.max()), len(data.test.y)
    ((1437, 1, 8, 8), 255, 360)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(images))
    train, test = np.sort(order[:-N_TEST]), np.sort(order[-N_TEST:])
    part = RawPart(images[test], labels[test])
    return RawData(images[train], labels[train], digit_names(), test=part)


def read_toy(_root: Path | None = None) -> RawData:
    """The toy example at the paper's size: 25,000 labelled points, then 25,000 unlabelled.

    >>> read_toy().x.shape
    (50000, 1)
    """
    data = two_uniforms()
    return RawData(data.x.numpy(), data.y.numpy(), data.class_names)
