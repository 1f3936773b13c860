"""The default views of a row, and one pass for all views.

========== ======================================= ===================================
view       uint8 images                            floats (tables, normalised images)
========== ======================================= ===================================
plain      levels / 255                            as they are
weak       ``Weak()``: flip and shift              as they are
jittered   ``Weak()``                              Gaussian noise of deviation 0.1
strong     ``Strong()``: RandAugment and Cutout    Gaussian noise of deviation 0.1
========== ======================================= ===================================

The noise is meant for columns of unit variance. If a flip changes the class, or a table's columns
have other scales, pass your own views: ``weak=Weak(flip=False)``.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dessl import _checks
from dessl.augment import Strong, Weak, noisy
from dessl.surrogates.base import Model, View

NOISE = 0.1

_plain = Weak(flip=False, shift=0)
_weak = Weak()
_strong = Strong()


def checked_view(name: str, view: View) -> View:
    """Return a view; refuse what cannot be called on rows, before the first pass.

    >>> checked_view("weak", "flip")
    Traceback (most recent call last):
    TypeError: weak must be a view, a function of rows x and a torch.Generator; got str 'flip'. \
Pass such a function, or a view of dessl.augment, such as Weak().
    """
    if isinstance(view, type) or not callable(view):
        got = f"{type(view).__name__} {_checks.quoted(view)}"
        if isinstance(view, type):
            got = f"the class {view.__name__}"
        raise TypeError(
            f"{name} must be a view, a function of rows x and a torch.Generator; got {got}. Pass "
            "such a function, or a view of dessl.augment, such as Weak()."
        )
    return view


def plain_view(x: Tensor, generator: torch.Generator) -> Tensor:
    """Scale images to levels in [0, 1]; return anything else unchanged.

    >>> plain_view(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), torch.Generator()).item()
    1.0
    """
    return _plain(x, generator) if x.dtype == torch.uint8 else x


def weak_view(x: Tensor, generator: torch.Generator) -> Tensor:
    """Flip and shift images; return anything else unchanged.

    >>> weak_view(torch.ones(1, 2), torch.Generator())
    tensor([[1., 1.]])
    """
    return _weak(x, generator) if x.dtype == torch.uint8 else x


def jittered_view(x: Tensor, generator: torch.Generator) -> Tensor:
    """Flip and shift images; add a little noise to floats.

    >>> jittered_view(torch.zeros(1, 2), torch.Generator().manual_seed(0)).abs().max() < 0.5
    tensor(True)
    """
    return _weak(x, generator) if x.dtype == torch.uint8 else _noisy(x, generator)


def strong_view(x: Tensor, generator: torch.Generator) -> Tensor:
    """Augment images strongly; add a little noise to floats.

    >>> strong_view(torch.zeros(1, 2), torch.Generator().manual_seed(0)).abs().max() < 0.5
    tensor(True)
    """
    return _strong(x, generator) if x.dtype == torch.uint8 else _noisy(x, generator)


def _noisy(x: Tensor, generator: torch.Generator) -> Tensor:
    if not x.is_floating_point():
        raise TypeError(
            f"only uint8 images and floats have default augmented views; got {x.dtype}. "
            "Pass the surrogate a view of your rows: a function (x, generator) -> x."
        )
    return noisy(x, NOISE, generator)


def joint_logits(model: Model, views: Sequence[Tensor]) -> Tensor:
    """Return the logits of all views, (views, n, classes), from one pass through the model.

    It is one pass, so that BatchNorm treats all rows of all views in the same way.

    >>> joint_logits(lambda x: 2 * x, [torch.ones(1, 2), torch.zeros(1, 2)])
    tensor([[[2., 2.]],
    <BLANKLINE>
            [[0., 0.]]])
    """
    for view in views:
        check_rows(view)
    n = len(views[0])
    if any(len(view) != n for view in views):
        raise ValueError(
            "all views must have the same number of rows; got views of "
            f"{', '.join(str(len(view)) for view in views)} rows for the same rows. A view must "
            "return as many rows as it gets."
        )
    logits = row_logits(model, torch.cat(list(views)))
    return logits.view(len(views), n, logits.shape[-1])


def row_logits(model: Model, x: Tensor) -> Tensor:
    """Return the model's logits of rows x; reject anything but (n, classes).

    >>> row_logits(lambda x: x.sum(-1), torch.ones(2, 3))
    Traceback (most recent call last):
    ValueError: the model's logits must have shape (2, classes), or (2, 1) for a binary model's \
log-odds; got (2,). For log-odds of shape (n,) let it return logits.unsqueeze(-1).
    """
    check_rows(x)
    logits = model(x)
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        got = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise TypeError(
            f"the model's logits must be a floating-point tensor (n, classes); got {got}."
            f"{_wrapping(logits)}"
        )
    n = len(x)
    if logits.ndim != 2 or logits.shape[0] != n or logits.shape[1] == 0:
        raise ValueError(
            f"the model's logits must have shape ({n}, classes), or ({n}, 1) for a binary model's "
            f"log-odds; got {tuple(logits.shape)}. For log-odds of shape (n,) let it return "
            "logits.unsqueeze(-1)."
        )
    return logits


def check_rows(x: object) -> None:
    """Refuse what a view returned instead of rows."""
    if not isinstance(x, Tensor):
        raise TypeError(f"a view must return the rows as a tensor; it returned {type(x).__name__}.")


def _wrapping(output: object) -> str:
    """How to get the logits out of an output that contains them; "" if it does not."""
    places = {".logits": getattr(output, "logits", None)}
    if isinstance(output, Mapping):
        places |= {f"[{name!r}]": part for name, part in output.items()}
    elif isinstance(output, Sequence):
        places |= {f"[{number}]": part for number, part in enumerate(output)}
    found = [place for place, part in places.items() if isinstance(part, Tensor)]
    if not found:
        return ""
    place = next((place for place in found if "logits" in place), found[0])
    return (
        " Wrap the model in a module that returns them: def forward(self, x): return "
        f"self.model(x){place}."
    )
