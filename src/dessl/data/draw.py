"""Which labels are kept: drawn completely at random (MCAR), class by class, or by φ(y).

Under MCAR every set of n_labelled rows is equally likely, whatever x and y: the one assumption of
the debiased risk.
"""

import warnings
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.data.features import shared_tensor
from dessl.data.labels import MISSING

IMBALANCE_LEVEL = 0.01  # of the χ² test that the classes are equally frequent


class LabelDraw(NamedTuple):
    """Row numbers, each sorted, no row in two of them."""

    labelled: Tensor  # (n_labelled - n_validation,) rows to train on with their label
    validation: Tensor  # (n_validation,) rows held out of both the loss and the debiasing term
    unlabelled: Tensor  # all other rows, whether their label was hidden or missing before


def draw_labels(
    y: "Tensor | NDArray[Any]",
    n_labelled: int,
    *,
    how: str = "mcar",
    n_validation: int = 0,
    generator: torch.Generator,
) -> LabelDraw:
    """Draw the rows that keep their label.

    The budget is n_labelled labels in all, as in the paper: n_validation of them are held out for
    validation and n_labelled - n_validation are left to train on.

    Args:
        y: (n,) class numbers; rows with -1 cannot be drawn and count as unlabelled.
        n_labelled: How many labels to draw.
        how: ``"mcar"``: every set of labelled rows is equally likely. ``"balanced"``: classes take
            turns in a random order, so that their numbers of labels differ by one at most, among
            training and among validation labels. It warns if the classes are not equally
            frequent in y (χ² test at 1 %), since it then is not MCAR.
        n_validation: How many of the n_labelled labels go to validation.
        generator: The source of randomness.

    Example:
        >>> y = torch.arange(60) % 3
        >>> draw = draw_labels(y, 20, n_validation=2, generator=torch.Generator().manual_seed(0))
        >>> [len(rows) for rows in draw]
        [18, 2, 40]
    """
    _checks.one_of("how", how, ("mcar", "balanced"))
    _check_generator(generator)
    y = _class_numbers(y)
    rows = (y != MISSING).nonzero().flatten()
    n_labelled = _checks.whole_number("n_labelled", n_labelled, low=1, high=len(rows))
    n_validation = _checks.whole_number("n_validation", n_validation, high=n_labelled - 1)
    rows = rows[_permutation(len(rows), generator, y.device)]
    if how == "balanced":
        rows = rows[_turns(y[rows], n_labelled, generator)]
    return _split(y, rows[:n_labelled], n_validation)


def draw_labels_by_class(
    y: "Tensor | NDArray[Any]",
    phi: ArrayLike,
    *,
    n_validation: int = 0,
    generator: torch.Generator,
) -> LabelDraw:
    """Keep each label of class k with probability φ_k, independently: missing not at random.

    For studies of what goes wrong without MCAR, and how to fix it. The number of labels is
    random; n_validation of them, drawn from all of them, are held out.

    Args:
        y: (n,) class numbers, -1 for missing.
        phi: (n_classes,) probabilities.
        n_validation: How many of the kept labels go to validation.
        generator: The source of randomness.

    Example:
        >>> y = torch.arange(3000) % 3
        >>> g = torch.Generator().manual_seed(0)
        >>> draw = draw_labels_by_class(y, [1.0, 0.5, 0.01], generator=g)
        >>> int((y[draw.labelled] == 0).sum()), int((y[draw.labelled] == 2).sum()) < 50
        (1000, True)
    """
    _check_generator(generator)
    y = _class_numbers(y)
    probability = _checks.float64("phi", phi, ndim=1).to(y.device)
    if bool(((probability < 0) | (probability > 1)).any()):
        raise ValueError(f"phi must be probabilities; got {probability.tolist()}.")
    if int(y.max()) >= len(probability):
        raise ValueError(
            f"phi must have one probability for each class; got {len(probability)}, but y has "
            f"class {int(y.max())}."
        )
    chance = torch.rand(
        len(y), generator=generator, device=generator.device, dtype=torch.float64
    ).to(y.device)
    keep = (y != MISSING) & (chance < probability[y.clamp(min=0)])
    rows = keep.nonzero().flatten()
    n_validation = _checks.whole_number("n_validation", n_validation, high=max(len(rows) - 1, 0))
    return _split(y, rows[_permutation(len(rows), generator, y.device)], n_validation)


def redraw_labels(
    y: "Tensor | NDArray[Any]", share: float, n_classes: int, *, generator: torch.Generator
) -> Tensor:
    """Label noise: a share of the labels is replaced by uniform draws from all classes.

    Exactly round(share × number of labels) rows are redrawn, every set of them equally likely. A
    redrawn label may come out as it was, so about share × (1 - 1/n_classes) of them change. Missing
    labels stay missing. Returns (n,).

    Example:
        >>> y = torch.zeros(1000, dtype=torch.long)
        >>> noisy = redraw_labels(y, 0.2, 10, generator=torch.Generator().manual_seed(0))
        >>> 150 < int((noisy != y).sum()) <= 200
        True
    """
    _check_generator(generator)
    y = _class_numbers(y)
    share = _checks.number("share", share, low=0, high=1)
    n_classes = _checks.whole_number("n_classes", n_classes, low=int(y.max()) + 1)
    rows = (y != MISSING).nonzero().flatten()
    chosen = rows[_permutation(len(rows), generator, y.device)[: round(share * len(rows))]]
    fresh = torch.randint(
        n_classes, (len(chosen),), generator=generator, device=generator.device
    ).to(y.device)
    return y.index_copy(0, chosen, fresh)


def draw_of_mask(keep: "Tensor | NDArray[Any]", y: Tensor) -> LabelDraw:
    """The draw that keeps exactly the labels of a boolean mask (n,)."""
    mask = shared_tensor("the mask", keep).to(y.device)
    if mask.dtype != torch.bool or mask.shape != y.shape:
        raise ValueError(
            f"the mask must be boolean of shape {tuple(y.shape)}, True where a label is kept; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}."
        )
    kept = mask.nonzero().flatten()
    return LabelDraw(kept, kept.new_empty(0), (~mask).nonzero().flatten())


def _class_numbers(y: "Tensor | NDArray[Any]") -> Tensor:
    labels = shared_tensor("y", y)
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise TypeError(
            f"y must be class numbers, shape (n,), with -1 for missing; got {labels.dtype} of "
            f"shape {tuple(labels.shape)}. For text labels, use SemiData's y."
        )
    labels = labels.to(torch.int64)
    if not bool((labels != MISSING).any()):
        raise ValueError(f"y must have at least one label; all {len(labels)} are missing.")
    if int(labels.min()) < MISSING:
        raise ValueError(f"y must be -1 (missing) or a class number; got {int(labels.min())}.")
    return labels


def _check_generator(generator: object) -> None:
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator; got {type(generator).__name__}. "
            "Make one with torch.Generator().manual_seed(0)."
        )


def _permutation(n: int, generator: torch.Generator, device: torch.device) -> Tensor:
    # Drawn on the generator's device, so that a seed gives the same rows on any device.
    return torch.randperm(n, generator=generator, device=generator.device).to(device)


def _turns(y: Tensor, n_labelled: int, generator: torch.Generator) -> Tensor:
    """The order (n,) of shuffled rows if classes take turns in a random order."""
    classes, y, frequency = torch.unique(y, return_inverse=True, return_counts=True)
    _warn_of_imbalance(frequency)
    place = _permutation(len(classes), generator, y.device)
    wanted = (n_labelled - place - 1).div(len(classes), rounding_mode="floor") + 1
    short = (wanted > frequency).nonzero().flatten().tolist()
    if short:
        raise ValueError(
            f"a balanced draw of {n_labelled} labels needs {int(wanted[short[0]])} of class "
            f"{int(classes[short[0]])}, which has {int(frequency[short[0]])}. Draw fewer labels, "
            "or use how='mcar'."
        )
    by_class = y.argsort(stable=True)
    turn = torch.empty_like(y)
    starts = frequency.cumsum(0) - frequency
    turn[by_class] = torch.arange(len(y), device=y.device) - starts[y[by_class]]
    return (turn * len(classes) + place[y]).argsort()


def _warn_of_imbalance(frequency: Tensor) -> None:
    expected = frequency.sum().double() / len(frequency)
    statistic = ((frequency - expected) ** 2 / expected).sum()
    freedom = torch.tensor((len(frequency) - 1) / 2, dtype=torch.float64, device=frequency.device)
    if len(frequency) > 1 and torch.special.gammaincc(freedom, statistic / 2) < IMBALANCE_LEVEL:
        warnings.warn(
            "a balanced label draw from imbalanced classes (the rarest has "
            f"{int(frequency.min())} rows, the commonest {int(frequency.max())}) is not MCAR: rare "
            "classes are labelled more often, and the debiased risk is no longer unbiased. Use "
            "how='mcar' to keep its guarantee.",
            UserWarning,
            stacklevel=4,
        )


def _split(y: Tensor, drawn: Tensor, n_validation: int) -> LabelDraw:
    validation, labelled = drawn[:n_validation].sort().values, drawn[n_validation:].sort().values
    known, trained = (set(torch.unique(seen).tolist()) for seen in (y[y != MISSING], y[labelled]))
    absent = sorted(known - trained)
    if absent:
        warnings.warn(
            f"no label of class(es) {', '.join(map(str, absent))} was drawn to train on, so the "
            "model cannot learn it. Draw more labels.",
            UserWarning,
            stacklevel=3,
        )
    rest = torch.ones(len(y), dtype=torch.bool, device=y.device)
    rest[drawn] = False
    return LabelDraw(labelled, validation, rest.nonzero().flatten())
