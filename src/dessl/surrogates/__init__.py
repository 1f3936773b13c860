"""Every unlabelled term of the paper: one method a file, one dict, one contract."""

from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View, as_is
from dessl.surrogates.entropy import Entropy
from dessl.surrogates.function import FromFunction, as_surrogate

SURROGATES: dict[str, type[Surrogate]] = {
    "entropy": Entropy,
}

__all__ = [
    "SURROGATES",
    "Entropy",
    "FromFunction",
    "Model",
    "Rows",
    "Scores",
    "Surrogate",
    "View",
    "as_is",
    "as_surrogate",
]
