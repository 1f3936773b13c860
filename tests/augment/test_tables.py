"""Lookup tables against Pillow's formulas in Python numbers, for every level and every range."""

import numpy as np
import torch

from dessl.augment.tables import autocontrast_tables


def test_autocontrast_rounds_as_python_does_for_every_range() -> None:
    ends = [(low, high) for low in range(256) for high in range(low + 1, 256)]
    images = torch.tensor(ends, dtype=torch.uint8).view(-1, 1, 1, 2)
    tables = autocontrast_tables(images)[:, 0].numpy()
    low, high = (np.array(end, dtype=np.float64)[:, None] for end in zip(*ends, strict=True))
    scale = 255.0 / (high - low)
    expected = np.clip((np.arange(256) * scale + -low * scale).astype(int), 0, 255)
    np.testing.assert_array_equal(tables, expected)
