"""Creates a surrogate from its name, its views and its settings."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from dessl import _checks
from dessl.data.errors import did_you_mean
from dessl.surrogates.base import Surrogate, View
from dessl.surrogates.combine import Combine
from dessl.surrogates.entropy import Entropy
from dessl.surrogates.fixmatch import FixMatch, FixMatchStar
from dessl.surrogates.flexmatch import FlexMatch
from dessl.surrogates.freematch import FreeMatch
from dessl.surrogates.function import surrogate_from
from dessl.surrogates.ict import ICT
from dessl.surrogates.mean_teacher import MeanTeacher
from dessl.surrogates.mixmatch import MixMatch
from dessl.surrogates.pi_model import PiModel
from dessl.surrogates.pseudo_label import PseudoLabel
from dessl.surrogates.remixmatch import ReMixMatch
from dessl.surrogates.smooth import Smooth
from dessl.surrogates.softmatch import SoftMatch
from dessl.surrogates.teacher import Teacher
from dessl.surrogates.temporal_ensembling import TemporalEnsembling
from dessl.surrogates.uda import UDA
from dessl.surrogates.ups import UPS
from dessl.surrogates.vat import VAT, VATEntropy

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
    "pi_model": PiModel,
    "mean_teacher": MeanTeacher,
    "temporal_ensembling": TemporalEnsembling,
    "vat": VAT,
    "vat_entropy": VATEntropy,
    "ict": ICT,
    "teacher": Teacher,
    "combine": Combine,
    "smooth": Smooth,
}


def named_surrogate(
    name: str, *, views: Mapping[str, View] | None = None, seed: int = 0, **settings: Any
) -> Surrogate:
    """Create a surrogate of ``SURROGATES`` from its name.

    Args:
        name: A key of ``SURROGATES``.
        views: Views of a row, by the names ``"view"``, ``"weak"`` and ``"strong"``; the surrogate
            gets those that it accepts, and uses its own defaults for the rest.
        seed: Seed of its draws, if it has its own.
        settings: Its other arguments, such as ``threshold``.

    >>> named_surrogate("pseudo_label", threshold=0.9)
    PseudoLabel()
    >>> named_surrogate("pseudo_label", treshold=0.9)
    Traceback (most recent call last):
    ValueError: the surrogate 'pseudo_label' has no setting 'treshold'; did you mean 'threshold'?
    """
    closest = did_you_mean(str(name), SURROGATES)
    _checks.one_of("surrogate", name, tuple(SURROGATES), hint=closest)
    takes = inspect.signature(SURROGATES[name]).parameters
    for setting in settings:
        if setting not in takes:
            near = difflib.get_close_matches(setting, takes, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(takes)}."
            raise ValueError(f"the surrogate {name!r} has no setting {setting!r}; {hint}")
    missing = [n for n, p in takes.items() if p.default is p.empty and n not in settings]
    if missing:
        raise ValueError(
            f"the surrogate {name!r} has no default for {', '.join(missing)}, so its name is "
            f"not enough. In Python, pass dessl.SURROGATES[{name!r}](...) instead of the "
            "name; on the command line, choose another surrogate."
        )
    offered = {"seed": seed, **(views or {})}
    given = {which: value for which, value in offered.items() if which in takes}
    return SURROGATES[name](**{**given, **settings})


def as_surrogate(h: "str | Surrogate | Callable[..., Tensor]") -> Surrogate:
    """Return a surrogate unchanged, create one from a name, or wrap a function as H.

    >>> from dessl.functional import entropy
    >>> as_surrogate(entropy), as_surrogate("entropy")
    (FromFunction(), Entropy())
    """
    if isinstance(h, Surrogate):
        return h
    return named_surrogate(h) if isinstance(h, str) else surrogate_from(h)
