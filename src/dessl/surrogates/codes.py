"""Rows of codes, such as tokens: which terms would turn them into other codes."""

import torch
from torch import Tensor, nn

from dessl.surrogates.base import Surrogate
from dessl.surrogates.views import jittered_view, strong_view

NOISY = (jittered_view, strong_view)  # they add noise to anything but uint8 images
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
ROWS = 1_000  # looked at


def noise_on_codes(model: nn.Module, surrogate: Surrogate, x: Tensor) -> str | None:
    """A warning if a term adds noise to rows that the model looks up in an embedding, or None.

    Rows count as codes if the model has an embedding and all their entries are whole numbers. A
    model rounds such an entry before it looks it up, so that a little noise makes another code of
    it, or has neither an effect nor a gradient.

    Args:
        model: The model.
        surrogate: The term.
        x: Rows (n, ...).

    >>> from dessl.surrogates import Entropy, PiModel
    >>> model, x = nn.Sequential(nn.Embedding(9, 2)), torch.tensor([[1.0, 8.0]])
    >>> noise_on_codes(model, PiModel(), x)[:39]
    'PiModel adds noise to rows, or mixes th'
    >>> noise_on_codes(model, Entropy(), x)
    """
    embeds = any(isinstance(module, EMBEDDINGS) for module in model.modules())
    seen = x[:ROWS]
    if not embeds or x.dtype == torch.uint8 or not bool((seen == seen.round()).all()):
        return None
    parts = surrogate.parts()
    by_view = [part for part in parts if any(view in NOISY for view in vars(part).values())]
    found = [part for part in parts if part.adds_to_rows] or by_view
    if not found:
        return None
    other = "use a surrogate that changes no rows, such as 'entropy' or 'pseudo_label'."
    views = "" if found[0].adds_to_rows else "Pass views for such rows (view=, weak=, strong=), or "
    return (
        f"{type(found[0]).__name__} adds noise to rows, or mixes them, but these are whole numbers "
        "that the model looks up in an embedding, such as tokens: they become other tokens, or the "
        f"noise is lost. {views or ''}{other if views else other.capitalize()}"
    )
