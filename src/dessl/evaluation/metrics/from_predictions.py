"""Metrics from probabilities, from logits, or from a model and labelled rows."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import (
    checked_labels,
    checked_logits,
    checked_probabilities,
)
from dessl.evaluation.metrics.ranking import ROUNDING, class_auc, log_odds, macro_auc
from dessl.evaluation.metrics.summary import Metrics, StreamingMetrics
from dessl.evaluation.metrics.temperature import fitted_temperature, temperature_scaled

SUM_OF_ONE = 1e-4  # how far a row of probabilities may be from it, in single precision


def metrics_from_probabilities(
    probabilities: ArrayLike, y: ArrayLike, *, bins: int = 15
) -> Metrics:
    """Compute the metrics of probabilities against labels.

    Args:
        probabilities: (n, classes), rows summing to one (within 1e-6 in float64, 1e-5 in float32).
        y: (n,) class numbers.
        bins: number of bins of the calibration errors.

    >>> metrics = metrics_from_probabilities([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    >>> metrics.balanced_accuracy
    0.75
    """
    values = checked_probabilities(probabilities)
    return _exact(values, y, "probabilities", values, 0.0, bins)


def metrics_from_logits(logits: ArrayLike, y: ArrayLike, *, bins: int = 15) -> Metrics:
    """Compute the metrics of logits against labels, without the underflow of probabilities.

    Args:
        logits: (n, classes), or (n,) or (n, 1) for a one-logit binary model.
        y: (n,) class numbers.
        bins: number of bins of the calibration errors.

    >>> metrics = metrics_from_logits([[-2.0], [1.0], [3.0]], [0, 0, 1])
    >>> metrics.confusion
    tensor([[1, 1],
            [0, 1]])
    """
    values = checked_logits(logits)
    one_logit = values.shape != np.shape(logits)
    if not one_logit and look_like_probabilities(values):
        warnings.warn(
            "logits seem to be probabilities: they are at least 0 and add up to 1 in each row. "
            "Softmax would be applied to them: use metrics_from_probabilities.",
            UserWarning,
            stacklevel=2,
        )
    return _exact(values, y, "logits", log_odds(values), ROUNDING, bins)


def metrics_of_outputs(logits: ArrayLike, y: ArrayLike, *, bins: int = 15) -> Metrics:
    """Return metrics of what :func:`predicted_logits` returned, which has warned of probabilities.

    >>> metrics_of_outputs(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), [0, 0]).accuracy
    0.5
    """
    values = checked_logits(logits)
    return _exact(values, y, "logits", log_odds(values), ROUNDING, bins)


def _exact(
    values: Tensor,
    y: ArrayLike,
    inputs: Literal["logits", "probabilities"],
    scores: Tensor,
    rounding: float,
    bins: int,
) -> Metrics:
    """Metrics of checked predictions with the exact AUC, since all scores are in memory."""
    rows, classes = values.shape
    labels = checked_labels(y, rows=rows, classes=classes, device=values.device)
    streaming = StreamingMetrics(classes, inputs=inputs, bins=bins, auc_bins=None)
    streaming.add_checked(values, labels)
    auc = macro_auc(class_auc(scores, labels, rounding=rounding))
    return dataclasses.replace(streaming.compute(), auc=auc, auc_error=0.0)


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Switch a module to evaluation mode; a plain function has no mode and is unchanged.

    >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with evaluating(model):
    ...     model[0].training
    False
    >>> model.training, model[0].training, model[1].training
    (True, True, False)
    """
    if not isinstance(model, nn.Module):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def predicted_logits(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    batch_size: int = 512,
    transform: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Run a model over x in batches, in eval mode without gradients; restores modules' modes.

    Args:
        model: maps (batch, ...) to logits, (batch, classes), (batch, 1) or (batch,).
        x: (n, ...); batches go to the device of the model's parameters.
        batch_size: rows per forward pass.
        transform: applied to each batch on the device, for example to scale uint8 images.

    >>> predicted_logits(nn.Identity(), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), batch_size=1)
    tensor([[1., 2.],
            [3., 4.]])
    """
    _checks.whole_number("batch_size", batch_size, low=1)
    if not isinstance(x, Tensor):
        raise TypeError(
            f"x must be a torch.Tensor; got {type(x).__name__}. Convert it with "
            "torch.as_tensor(...)."
        )
    if x.ndim == 0 or len(x) == 0:
        raise ValueError(f"x must have at least one row; got shape {tuple(x.shape)}.")
    if x.dtype == torch.uint8 and transform is None:
        raise TypeError(
            "x is uint8 and no transform was given. Pass the one the model was trained with, "
            "for example transform=lambda x: x.float() / 255."
        )
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    device = next((parameter.device for parameter in parameters), x.device)
    # Not inference_mode: a tensor the model caches under it would break the next training step.
    with evaluating(model), torch.no_grad():
        outputs = []
        for first in range(0, len(x), batch_size):
            batch = x[first : first + batch_size].to(device)
            logits: object = model(transform(batch) if transform else batch)
            if not isinstance(logits, Tensor) or logits.shape[:1] != (len(batch),):
                got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
                raise ValueError(
                    "the model must return logits, a tensor with one row for each of the "
                    f"{len(batch)} input rows; got {got}. Wrap it in a function that does."
                )
            outputs.append(logits)
        found = torch.cat(outputs)
    warn_of_probabilities(found)
    return found


def warn_of_probabilities(logits: Tensor) -> None:
    """Warn if a model's outputs (n, classes) look like probabilities instead of logits."""
    if look_like_probabilities(logits):
        warnings.warn(
            "the model seems to return probabilities: its outputs are at least 0 and add up to 1 "
            "in each row. Losses and metrics apply softmax themselves and would be wrong: remove "
            "the model's softmax.",
            UserWarning,
            stacklevel=3,
        )


def look_like_probabilities(logits: Tensor) -> bool:
    """Whether all entries are at least 0 and all rows, two or more, add up to 1.

    >>> look_like_probabilities(torch.eye(2)), look_like_probabilities(torch.ones(2, 2))
    (True, False)
    """
    if logits.ndim != 2 or min(logits.shape) < 2 or not logits.is_floating_point():
        return False
    sums = logits.double().sum(1)
    return bool((logits >= 0).all() & ((sums - 1).abs() < SUM_OF_ONE).all())


def evaluate(
    model: Callable[[Tensor], Tensor],
    x: Tensor,
    y: ArrayLike,
    *,
    batch_size: int = 512,
    transform: Callable[[Tensor], Tensor] | None = None,
    bins: int = 15,
    validation: tuple[Tensor, ArrayLike] | None = None,
) -> Metrics:
    """Compute the metrics of a model on labelled rows.

    Keeps all logits in memory, about 30·n·classes bytes; if they do not fit, use StreamingMetrics.

    Args:
        model: maps (batch, ...) to logits, (batch, classes), or (batch, 1) for two classes.
        x: (n, ...). uint8 needs a ``transform``: scaling is part of the model's recipe.
        y: (n,) class numbers, all labelled.
        batch_size: rows per forward pass.
        transform: applied to each batch on the model's device.
        bins: number of bins of the calibration errors.
        validation: (x, y), other rows to fit a temperature on. The metrics at that temperature
            are reported separately, in ``Metrics.scaled``.

    >>> evaluate(nn.Identity(), torch.tensor([[2.0, 0.0], [0.0, 1.0]]), [0, 1]).accuracy
    1.0
    """
    logits = predicted_logits(model, x, batch_size=batch_size, transform=transform)
    metrics = metrics_of_outputs(logits, y, bins=bins)
    if validation is None:
        return metrics
    held_out = predicted_logits(model, validation[0], batch_size=batch_size, transform=transform)
    temperature = fitted_temperature(held_out, validation[1])
    scaled = metrics_of_outputs(temperature_scaled(logits, temperature), y, bins=bins)
    return dataclasses.replace(metrics, temperature=temperature, scaled=scaled)
