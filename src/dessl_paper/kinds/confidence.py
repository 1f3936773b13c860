"""How confident a model is on some rows, and the λ that minimises the gradient's variance there.

For a calibrated model E[∇L | x] = 0, so no H of x correlates with ∇L: λ = 0. Overconfidence makes λ
negative, underconfidence positive, and on memorised rows ∇L is the pseudo-labels' ∇H.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dessl.evaluation.risk_quality import network_gradient_spread
from dessl.surrogates import SURROGATES, Surrogate, named_surrogate
from dessl.surrogates.base import as_is

QUANTITIES = ("accuracy", "overconfidence")  # of the rows
OF_TERMS = ("gradient_lam_opt", "gradient_least_ratio")  # of each term on them


def still_term(settings: Mapping[str, Any]) -> Surrogate:
    """The term on normalised rows: per-sample gradients allow no random views.

    Raises:
        ValueError: The term has several views.
    """
    if not has_one_view(settings):
        raise ValueError(
            "the gradient of a term needs a single view without randomness; "
            f"{SURROGATES[settings['name']].__name__} has several. Use another term, such as "
            "pseudo_label."
        )
    return named_surrogate(**settings, views={"view": as_is})


def has_one_view(settings: Mapping[str, Any]) -> bool:
    """Whether a term sees one view of a row, which can be the unchanged row.

    >>> has_one_view({"name": "entropy"}), has_one_view({"name": "fixmatch"})
    (True, False)
    """
    return "view" in inspect.signature(SURROGATES[settings["name"]]).parameters


def confidence_on(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    terms: Mapping[str, Surrogate],
    *,
    n_labelled: int,
    at_once: int = 100,
) -> dict[str, float]:
    """Accuracy, overconfidence, and λ and variance of each term's gradient, by name.

    Args:
        model: A map from x to logits, in evaluation mode.
        x: Rows as the model sees them, (n, ...).
        y: Their labels, (n,).
        terms: Terms by name; without random views.
        n_labelled: How many rows count as labelled; the rest are unlabelled, and λ has the factor
            n_u/n.
        at_once: Number of rows whose gradients are in memory at the same time.

    >>> from dessl.surrogates import Entropy
    >>> x, y = torch.randn(9, 2), torch.arange(9) % 2
    >>> sorted(confidence_on(nn.Linear(2, 2), x, y, {"entropy": Entropy()}, n_labelled=3))
    ['accuracy', 'gradient_lam_opt_entropy', 'gradient_least_ratio_entropy', 'overconfidence']
    """
    confidence, right = [], []
    with torch.no_grad():
        for first in range(0, len(y), at_once):
            p = model(x[first : first + at_once]).double().softmax(-1)
            confidence.append(p.amax(-1))
            right.append((p.argmax(-1) == y[first : first + at_once]).double())
    accuracy = float(torch.cat(right).mean())
    found = {
        "accuracy": accuracy,
        "overconfidence": float(torch.cat(confidence).mean()) - accuracy,
    }
    for name, term in terms.items():
        spread = network_gradient_spread(
            model, term, x, y, n_labelled=n_labelled, splits=2, at_once=at_once
        )
        found[f"gradient_lam_opt_{name}"] = spread.lam
        found[f"gradient_least_ratio_{name}"] = spread.over([spread.lam]).least
    return found


def confidence_names(parts: Iterable[str], terms: Iterable[str]) -> list[str]:
    """The names of these quantities on several parts, as in ``test_gradient_lam_opt_entropy``."""
    names = list(terms)
    own = [*QUANTITIES, *(f"{quantity}_{name}" for name in names for quantity in OF_TERMS)]
    return [f"{part}_{quantity}" for part in parts for quantity in own]
