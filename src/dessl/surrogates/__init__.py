"""Every unlabelled term of the paper: one method a file, one dict, one contract."""

from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View, as_is
from dessl.surrogates.entropy import Entropy
from dessl.surrogates.fixmatch import FixMatch, FixMatchStar
from dessl.surrogates.flexmatch import FlexMatch
from dessl.surrogates.freematch import FreeMatch
from dessl.surrogates.function import FromFunction, as_surrogate
from dessl.surrogates.mixmatch import MixMatch
from dessl.surrogates.pseudo_label import PseudoLabel
from dessl.surrogates.remixmatch import ReMixMatch
from dessl.surrogates.softmatch import SoftMatch
from dessl.surrogates.uda import UDA
from dessl.surrogates.ups import UPS
from dessl.surrogates.weak_to_strong import WeakToStrong

SURROGATES: dict[str, type[Surrogate]] = {
    "entropy": Entropy,
    "pseudo_label": PseudoLabel,
    "ups": UPS,
    "uda": UDA,
    "fixmatch": FixMatch,
    "fixmatch_star": FixMatchStar,
    "flexmatch": FlexMatch,
    "freematch": FreeMatch,
    "softmatch": SoftMatch,
    "mixmatch": MixMatch,
    "remixmatch": ReMixMatch,
}

__all__ = [
    "SURROGATES",
    "UDA",
    "UPS",
    "Entropy",
    "FixMatch",
    "FixMatchStar",
    "FlexMatch",
    "FreeMatch",
    "FromFunction",
    "MixMatch",
    "Model",
    "PseudoLabel",
    "ReMixMatch",
    "Rows",
    "Scores",
    "SoftMatch",
    "Surrogate",
    "View",
    "WeakToStrong",
    "as_is",
    "as_surrogate",
]
