"""Every unlabelled term of the paper: one method per file, one dict, one contract."""

from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View, as_is
from dessl.surrogates.combine import Combine
from dessl.surrogates.entropy import Entropy
from dessl.surrogates.fixmatch import FixMatch, FixMatchStar
from dessl.surrogates.flexmatch import FlexMatch
from dessl.surrogates.freematch import FreeMatch
from dessl.surrogates.function import FromFunction
from dessl.surrogates.ict import ICT
from dessl.surrogates.mean_teacher import MeanTeacher
from dessl.surrogates.mixmatch import MixMatch
from dessl.surrogates.named import SURROGATES, as_surrogate, named_surrogate
from dessl.surrogates.pi_model import PiModel
from dessl.surrogates.pseudo_label import PseudoLabel
from dessl.surrogates.remixmatch import ReMixMatch
from dessl.surrogates.smooth import Smooth
from dessl.surrogates.softmatch import SoftMatch
from dessl.surrogates.teacher import Teacher
from dessl.surrogates.temporal_ensembling import TemporalEnsembling
from dessl.surrogates.terms import LossesAndTerms, losses_and_terms
from dessl.surrogates.uda import UDA
from dessl.surrogates.ups import UPS
from dessl.surrogates.vat import VAT, VATEntropy
from dessl.surrogates.weak_to_strong import WeakToStrong

__all__ = [
    "ICT",
    "SURROGATES",
    "UDA",
    "UPS",
    "VAT",
    "Combine",
    "Entropy",
    "FixMatch",
    "FixMatchStar",
    "FlexMatch",
    "FreeMatch",
    "FromFunction",
    "LossesAndTerms",
    "MeanTeacher",
    "MixMatch",
    "Model",
    "PiModel",
    "PseudoLabel",
    "ReMixMatch",
    "Rows",
    "Scores",
    "Smooth",
    "SoftMatch",
    "Surrogate",
    "Teacher",
    "TemporalEnsembling",
    "VATEntropy",
    "View",
    "WeakToStrong",
    "as_is",
    "as_surrogate",
    "losses_and_terms",
    "named_surrogate",
]
