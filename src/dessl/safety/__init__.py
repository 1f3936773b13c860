"""Is it safe here? Are labels missing at random, are there leaks, and what can be gained?"""

from dessl.safety.audit import Audit, audit
from dessl.safety.propensity import (
    Propensity,
    effective_labels,
    known_propensity,
    propensity_from_x,
    propensity_from_y,
)

__all__ = [
    "Audit",
    "Propensity",
    "audit",
    "effective_labels",
    "known_propensity",
    "propensity_from_x",
    "propensity_from_y",
]
