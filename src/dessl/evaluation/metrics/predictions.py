"""Input checks that all metrics share: probabilities, logits and labels, in float64."""

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike

# How far a row's sum may be from one: rounding in the dtype of the input.
SUM_TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}
SUM_TOLERANCE_OTHERWISE = 1e-6  # float64, which is often a converted float32 softmax


def checked_probabilities(probabilities: ArrayLike) -> Tensor:
    """Return probabilities (n, classes) in float64, or raise an error that says what is wrong.

    Each row must lie in [0, 1] and sum to one, within 1e-6 (float64), 1e-5 (float32),
    2e-3 (float16) or 2e-2 (bfloat16). Rows are not renormalised; values rounded above 1 become 1.
    """
    raw = _checks.numbers("probabilities", probabilities)
    values = _checks.float64("probabilities", raw, ndim=(1, 2))
    if values.ndim == 1 or values.shape[1] == 1:
        raise ValueError(
            f"probabilities must have shape (n, classes) with two classes or more; "
            f"got {tuple(values.shape)}. For a binary model stack them: "
            "torch.stack([1 - p, p], dim=1)."
        )
    dtype_name = str(raw.dtype).removeprefix("torch.")
    tolerance = SUM_TOLERANCE.get(dtype_name, SUM_TOLERANCE_OTHERWISE)
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1 + tolerance:
        raise ValueError(
            f"probabilities must lie in [0, 1]; got values from {low:.6g} to {high:.6g}. "
            "These look like logits: apply softmax, or call metrics_from_logits."
        )
    sums = values.sum(dim=1)
    worst = float((sums - 1).abs().max())
    if worst > tolerance:
        row = int((sums - 1).abs().argmax())
        raise ValueError(
            f"each row of probabilities must sum to one within {tolerance:g}; row {row} sums to "
            f"{float(sums[row]):.6g}. Normalise the rows, or call metrics_from_logits."
        )
    return values.clamp(max=1) if high > 1 else values


def checked_logits(logits: ArrayLike) -> Tensor:
    """Logits (n, classes) in float64; (n,) and (n, 1) are a binary model's log-odds of class 1.

    Probabilities cannot be distinguished from small logits: they would go through a second softmax.
    Pass them to the functions that take ``probabilities``.
    """
    raw = _checks.numbers("logits", logits)
    if str(raw.dtype).removeprefix("torch.").startswith(("bool", "int", "uint")):
        raise TypeError(
            f"logits must be floating-point numbers; got {raw.dtype}. These look like class "
            "numbers, which have no cross-entropy: pass the logits that they were computed from."
        )
    values = _checks.float64("logits", raw, ndim=(1, 2))
    if values.ndim == 1 or values.shape[1] == 1:
        values = values.reshape(-1, 1)
        values = torch.cat([torch.zeros_like(values), values], dim=1)
    return values


def checked_labels(y: ArrayLike, *, rows: int, classes: int, device: torch.device) -> Tensor:
    """Check labels, one per row and within the classes; return int64 (n,) on the device."""
    labels = y.detach() if isinstance(y, Tensor) else _labels(y)
    if labels.ndim != 1:
        raise ValueError(
            f"y must have shape (n,); got {tuple(labels.shape)}. "
            "Squeeze a column of labels; take .argmax(1) of one-hot rows."
        )
    if labels.shape[0] != rows:
        raise ValueError(
            f"y must have one label for each row of the predictions; "
            f"got {labels.shape[0]} labels and {rows} rows."
        )
    if labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            f"y must contain class numbers 0 to {classes - 1}; got {labels.dtype}. "
            "Convert it with .long(), an array with .astype(int)."
        )
    labels = labels.to(device=device, dtype=torch.int64)
    if unlabelled := int((labels == -1).sum()):
        raise ValueError(
            f"every row of y must be labelled; {unlabelled} of {rows} rows are -1 (unlabelled). "
            "Drop them first: keep = y >= 0."
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ValueError(
            f"y must contain class numbers 0 to {classes - 1}; got values from {low} to {high}."
        )
    return labels


def _labels(y: ArrayLike) -> Tensor:
    """Copy the labels: PyTorch rejects a reversed array, and warns about a read-only one."""
    _checks.unmasked("y", y)
    array = np.asarray(y)
    if array.dtype == object:  # for example pandas' nullable integers
        array = np.array(array.tolist())
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"y must contain class numbers; got {array.dtype}. "
            "Number the classes: numpy.unique(y, return_inverse=True)[1]."
        )
    if missing := int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0:
        raise ValueError(
            f"y must have a class number for each row; {missing} of {array.size} are missing. Drop "
            "these rows."
        )
    return torch.from_numpy(array.astype(np.float64 if array.dtype.kind == "f" else np.int64))


def checked_pair(probabilities: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
    """Probabilities (n, classes) in float64 and their labels (n,) in int64."""
    values = checked_probabilities(probabilities)
    rows, classes = values.shape
    return values, checked_labels(y, rows=rows, classes=classes, device=values.device)
