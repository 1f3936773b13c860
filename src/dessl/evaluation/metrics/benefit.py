"""Benefit ratio: the share of the gain from full supervision that SSL achieves.

    BR(C) = ( acc_SSL(C) − acc_CC(C) ) / ( acc_S(C) − acc_CC(C) )

for each class C, from the accuracies of SSL, the complete case and full supervision (Zhu et al.,
2022; the paper's appendix "Per class accuracy"). Its standard deviation over the classes measures
how unequally they benefit. The paper's 0.12 and 0.06 are sample standard deviations (n − 1): its
printed ratios give 0.120 and 0.065 with n − 1, and 0.114 and 0.062 with n.
"""

import math

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike

SAME = 1e-6  # relative difference of accuracies too small for any test set to show


def benefit_ratio(ssl: ArrayLike, complete_case: ArrayLike, supervised: ArrayLike) -> Tensor:
    """Benefit ratio of each class, (classes,); NaN if full supervision does not help.

    The ratio is NaN for a class whose supervised accuracy does not exceed the complete case's (to
    six digits: means over folds are rounded), or that is missing from the test set (NaN accuracy).
    It is negative for a class that SSL hurts.

    Args:
        ssl: (classes,) accuracies with semi-supervised training.
        complete_case: (classes,) accuracies with the labelled rows alone.
        supervised: (classes,) accuracies with all labels.

    >>> benefit_ratio([0.9, 0.8, 0.7], [0.8, 0.7, 0.7], [1.0, 0.9, 0.7])
    tensor([0.5000, 0.5000,    nan], dtype=torch.float64)
    """
    given = {"ssl": ssl, "complete_case": complete_case, "supervised": supervised}
    taken = {name: _float64(name, value) for name, value in given.items()}
    shapes = {name: tuple(value.shape) for name, value in taken.items()}
    if len(set(shapes.values())) > 1 or taken["ssl"].ndim != 1 or not taken["ssl"].numel():
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"accuracies must have the same shape (classes,), not empty; got {listed}."
        )
    _checks.same_device(**taken)
    room = taken["supervised"] - taken["complete_case"]
    gain = taken["ssl"] - taken["complete_case"]
    none = torch.isclose(taken["supervised"], taken["complete_case"], rtol=SAME, atol=0)
    return torch.where(none | (room < 0), math.nan, gain / room)


def _float64(name: str, values: ArrayLike) -> Tensor:
    """Accuracies; NaN for a class without rows."""
    found = _checks.numbers(name, values)
    if isinstance(found, Tensor):
        return found.double()
    return torch.from_numpy(np.array(found, dtype=np.float64))


def benefit_ratio_std(ssl: ArrayLike, complete_case: ArrayLike, supervised: ArrayLike) -> float:
    """Sample standard deviation (n − 1) of the benefit ratio over the classes that have one.

    NaN when fewer than two classes have a ratio.

    Args:
        ssl: (classes,) accuracies with semi-supervised training.
        complete_case: (classes,) accuracies with the labelled rows alone.
        supervised: (classes,) accuracies with all labels.

    >>> round(benefit_ratio_std([0.9, 0.8], [0.8, 0.7], [1.0, 0.8]), 4)
    0.3536
    """
    ratio = benefit_ratio(ssl, complete_case, supervised)
    ratio = ratio[~ratio.isnan()]
    return float(ratio.std()) if ratio.numel() > 1 else math.nan
