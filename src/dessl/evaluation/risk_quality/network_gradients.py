"""The variance of a whole network's gradient, without a rows × parameters matrix.

Over the rows: Σ‖∇L‖², Σ‖∇H‖², Σ⟨∇L, ∇H⟩ of per-sample gradients, a few rows at a time. Over the
splits: the same sums of each split's mean gradients, from one forward and two backward passes over
its labelled rows. Gradients are accumulated and not kept.

``vmap`` computes the weight gradients of n rows as one convolution with n groups, which has no fast
kernel. So convolutions are matrix products here: unfolded, a convolution is W · columns(x), and
those gradients are δ · columns(x)ᵀ, a batched product.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from dessl import _checks
from dessl.evaluation.metrics.from_predictions import evaluating
from dessl.evaluation.risk_quality.ratio import Spread, Traces
from dessl.evaluation.risk_quality.splits import labelled_rows, unlabelled_count
from dessl.functional import cross_entropy
from dessl.surrogates import Rows, Scores, Surrogate

Gradient: TypeAlias = dict[str, Tensor]
Values: TypeAlias = Callable[[Gradient, Tensor], tuple[Tensor, Tensor]]


def network_gradient_spread(
    model: nn.Module,
    term: Surrogate,
    x: Tensor,
    y: Tensor,
    *,
    n_labelled: int = 40,
    splits: int = 100,
    at_once: int = 100,
    generator: torch.Generator | None = None,
) -> Spread:
    """Return the spread of ∇L and ∇H of all parameters, over the rows and over random splits.

    The model runs in evaluation mode, so a row's gradient does not depend on other rows. Memory is
    two gradients for each of the ``at_once`` rows.

    Args:
        model: From x to logits (n, classes).
        term: H, and the views that L is averaged over. It must not augment
            (:func:`dessl.surrogates.base.as_is`), since a random view would change in each pass.
        x: Rows as the model sees them, (n, ...).
        y: Their labels, (n,).
        n_labelled: Labelled rows per split.
        splits: Number of splits.
        at_once: Rows whose gradients are in memory at the same time.
        generator: Source of the splits; seeded with 0 by default.

    >>> from dessl.surrogates import Entropy
    >>> _ = torch.manual_seed(0)
    >>> x, y = torch.randn(60, 3), torch.arange(60) % 2
    >>> spread = network_gradient_spread(nn.Linear(3, 2), Entropy(), x, y, n_labelled=10)
    >>> spread.over([0.0, spread.lam]).theory < 1.0001
    tensor([True, True])
    """
    _checks.same_length("x", x, "y", y)
    _checks.whole_number("at_once", at_once, low=1)
    n_unlabelled = unlabelled_count(n_labelled, len(x))
    _checks.between("y", y, 0, advice="Every row needs its label.")
    parameters = {k: p.detach() for k, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise ValueError(
            "model must have at least one parameter that requires a gradient; it has none. "
            "Call model.requires_grad_()."
        )
    values = _values(model, term, x, y)
    ids = torch.arange(len(x), device=x.device)
    drawn = labelled_rows(len(x), n_labelled, splits, generator)
    with evaluating(model):
        rows = _row_sums(values, parameters, ids, at_once)
        means = _split_sums(values, parameters, (d.to(x.device) for d in drawn), rows.means())
    first, second, product = means.traces()
    # mean_U H − mean_L H is −n/n_u times the deviation of mean_L H from the mean of all rows.
    scale = -len(x) / n_unlabelled
    of_splits = Traces(first, scale**2 * second, scale * product)
    return Spread(rows.traces(), of_splits, n_labelled, n_unlabelled)


def _row_sums(values: Values, parameters: Gradient, ids: Tensor, at_once: int) -> "_Sums":
    """Moments of every row's two gradients."""
    sums = _Sums(parameters)
    gradients = vmap(lambda row: _gradients(values, parameters, row[None]))
    with ConvolutionsAsProducts():
        for start in range(0, len(ids), at_once):
            sums.add(*gradients(ids[start : start + at_once]))
    return sums


def _split_sums(
    values: Values,
    parameters: Gradient,
    drawn: Iterable[Tensor],
    middle: tuple[Gradient, Gradient],
) -> "_Sums":
    """Moments of the two mean gradients over each split's labelled rows.

    Subtracting the means over all rows, ``middle``, avoids cancellation.
    """
    sums = _Sums(parameters)
    for rows in drawn:
        pair = zip(_gradients(values, parameters, rows), middle, strict=True)
        sums.add(*({k: (g[k] - mean[k])[None] for k in g} for g, mean in pair))
    return sums


def _values(model: nn.Module, term: Surrogate, x: Tensor, y: Tensor) -> Values:
    """A function of parameters and row numbers (n,): L and H of those rows, averaged."""

    def values(parameters: Gradient, rows: Tensor) -> tuple[Tensor, Tensor]:
        def called(seen: Tensor) -> Tensor:
            logits: Tensor = functional_call(model, parameters, (seen,))
            return logits

        scores: Scores = term(called, Rows(x[rows], rows))
        labels = y[rows].expand(scores.logits.shape[:-1])
        return cross_entropy(scores.logits, labels).mean(), scores.h.mean()

    return values


def _gradients(values: Values, parameters: Gradient, rows: Tensor) -> tuple[Gradient, Gradient]:
    """Gradients of mean L and of mean H over some rows: one forward pass, two backward."""
    pair, pulled = vjp(lambda at: values(at, rows), parameters)[:2]
    one, zero = torch.ones_like(pair[0]), torch.zeros_like(pair[0])
    return pulled((one, zero))[0], pulled((zero, one))[0]


class _Sums:
    """Sums of two gradients and of their products over rows or splits, in float64."""

    def __init__(self, parameters: Gradient) -> None:
        self.n = 0
        self.first = {k: torch.zeros_like(p, dtype=torch.float64) for k, p in parameters.items()}
        self.second = {k: torch.zeros_like(total) for k, total in self.first.items()}
        self.products: list[float | Tensor] = [0.0, 0.0, 0.0]
        self.rounding = 8 * max(torch.finfo(p.dtype).eps for p in parameters.values())

    def add(self, first: Gradient, second: Gradient) -> None:
        """Add gradients (n, ...) of each parameter."""
        self.n += len(next(iter(first.values())))
        for name, a in first.items():
            b = second[name]
            self.first[name] += a.sum(0, dtype=torch.float64)
            self.second[name] += b.sum(0, dtype=torch.float64)
            for i, product in enumerate((a * a, b * b, a * b)):
                self.products[i] = self.products[i] + product.sum(dtype=torch.float64)

    def means(self) -> tuple[Gradient, Gradient]:
        """Mean of the first and of the second gradient."""
        first, second = (
            {name: total / self.n for name, total in sums.items()}
            for sums in (self.first, self.second)
        )
        return first, second

    def traces(self) -> Traces:
        """Sums of products of the centred gradients."""
        a, b = self.means()
        common = [sum(float((p[k] * q[k]).sum()) for k in a) for p, q in ((a, a), (b, b), (a, b))]
        totals = [float(total) for total in self.products]
        first, second, product = (
            total - self.n * both for total, both in zip(totals, common, strict=True)
        )
        # If the gradients are the same for all rows, what remains is rounding.
        first = first if first > self.rounding * totals[0] else 0.0
        second = second if second > self.rounding * totals[1] else 0.0
        limit = (first * second) ** 0.5  # rounding may exceed it if the two are proportional
        return Traces(first, second, max(-limit, min(limit, product)))


class ConvolutionsAsProducts(TorchFunctionMode):
    """Inside this context, 2-D convolutions with one group are matrix products.

    >>> x, weight = torch.rand(2, 3, 8, 8), torch.rand(4, 3, 3, 3)
    >>> with ConvolutionsAsProducts():
    ...     product = F.conv2d(x, weight, padding=1)
    >>> torch.testing.assert_close(product, F.conv2d(x, weight, padding=1))
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a PyTorch function, or its replacement."""
        if func is torch.conv2d:
            return _convolved(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: str | int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Tensor:
    if groups != 1 or isinstance(padding, str) or x.ndim != 4:
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    steps, pads, gaps = _two(stride), _two(padding), _two(dilation)
    sides = weight.shape[2:]
    columns = F.unfold(x, sides, dilation=gaps, padding=pads, stride=steps)
    height = (x.shape[2] + 2 * pads[0] - gaps[0] * (sides[0] - 1) - 1) // steps[0] + 1
    convolved = (weight.flatten(1) @ columns).reshape(len(x), len(weight), height, -1)
    return convolved if bias is None else convolved + bias[:, None, None]


def _two(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
