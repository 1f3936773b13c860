"""A user's own H from a plain function."""

import inspect
import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from dessl import _checks
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.views import checked_view, plain_view, row_logits


class FromFunction(Surrogate):
    """H given by a function, of the logits or of the model and x.

    ``h(logits)`` takes (n, classes) and returns (n,); L is computed on the same logits. A binary
    model's log-odds z (n, 1) reach it as the logits (0, z) of two classes. ``h(model, x)`` takes
    the model and its input and returns (n,); L then needs one more forward pass on the same x.

    Args:
        h: The function. It must treat each row in the same way, whatever else is in the batch.
        bounded_up_to: The largest λ for which the debiased risk is bounded below, infinite if h is
            bounded. None: unknown, and there is no warning about a large λ.
        view: View of a row for the model.
        seed: Seed of the view's draws.

    >>> import torch
    >>> gini = FromFunction(lambda logits: 1 - logits.softmax(-1).square().sum(-1))
    >>> gini(lambda x: x, Rows(torch.zeros(1, 2), torch.tensor([0]))).h
    tensor([0.5000])
    """

    rarely_zero = True  # of a function of yours it is only likely

    def __init__(
        self,
        h: Callable[..., Tensor],
        *,
        bounded_up_to: float | None = None,
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.h = h
        self.view = checked_view("view", view)
        self._bound_is_stated = bounded_up_to is not None
        bound = math.inf if bounded_up_to is None else bounded_up_to
        self.bounded_up_to = _checks.number("bounded_up_to", bound, low=0.0)
        self._takes_model = _takes_model(h)

    @property
    def bound_is_stated(self) -> bool:
        """Whether ``bounded_up_to`` was given."""
        return self._bound_is_stated

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the function's values (n,) and the logits (1, n, classes)."""
        x = self.view(rows.x, self.generator(rows.x.device))
        logits = row_logits(model, x)
        # A copy, so that a function which works in place does not change L.
        h = self.h(model, x) if self._takes_model else self.h(_of_classes(logits).clone())
        if not isinstance(h, Tensor) or h.shape != logits.shape[:1]:
            got = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
            raise ValueError(
                f"h must return one value for each row, shape {tuple(logits.shape[:1])}; "
                f"got {got}. Sum over classes and do not average over rows."
            )
        return Scores(h, logits.unsqueeze(0))


def surrogate_from(h: "Surrogate | Callable[..., Tensor]") -> Surrogate:
    """Return a surrogate unchanged, and wrap a plain function in :class:`FromFunction`."""
    if isinstance(h, Surrogate):
        return h
    if isinstance(h, type) or not callable(h):
        got = f"the class {h.__name__}: call it" if isinstance(h, type) else type(h).__name__
        if isinstance(h, str):
            got = f"{h!r}: here a name must be wrapped, as_surrogate({h!r})"
        raise TypeError(
            "a surrogate must be a Surrogate, a name in dessl.SURROGATES, or a function h(logits) "
            f"or h(model, x); got {got}."
        )
    return FromFunction(h)


def _of_classes(logits: Tensor) -> Tensor:
    """Logits of at least two classes: (0, z) for log-odds z (n, 1)."""
    return logits if logits.shape[1] > 1 else F.pad(logits, (1, 0))


def _takes_model(h: Callable[..., Tensor]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        called = h.forward if isinstance(h, nn.Module) else h
        parameters = inspect.signature(called).parameters.values()
    except ValueError as error:  # functions written in C may have no signature
        raise TypeError(
            f"cannot see whether h takes (logits) or (model, x): {h!r} has no signature. Wrap it: "
            "lambda logits: ..."
        ) from error
    needed = [
        parameter
        for parameter in parameters
        if parameter.kind in kinds and parameter.default is inspect.Parameter.empty
    ]
    if len(needed) not in (1, 2):
        raise TypeError(
            f"h must take (logits) or (model, x); got {len(needed)} arguments without a default."
        )
    return len(needed) == 2
