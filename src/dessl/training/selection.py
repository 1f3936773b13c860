"""Which evaluation of a run is kept: the best by the plan's metric, and how long ago it was."""

import math
import warnings
from dataclasses import dataclass

from dessl.evaluation.metrics.vocabulary import higher_is_better
from dessl.training.plan import TrainPlan


@dataclass
class Selection:
    """The best evaluation so far, and how many came since."""

    value: float = math.nan
    step: int = 0
    waited: int = 0

    def take(self, value: float | None, step: int, plan: TrainPlan) -> bool:
        """Look at one more evaluation and return whether it is to be kept; NaN never is.

        One that only equals the best is kept where the plan's ties go to the last, but does not
        count against the waiting.
        """
        if value is None or math.isnan(value):
            if not self.step and not self.waited:
                warnings.warn(
                    f"select={plan.select!r} has no value on the validation rows at step {step}; a "
                    "class may be missing among them. Such evaluations are never selected, and the "
                    "last weights are kept where none is. Hold out more rows, or select by another "
                    "metric.",
                    UserWarning,
                    stacklevel=2,
                )
            self.waited += 1
            return False
        higher = higher_is_better(plan.select)
        ahead = value > self.value if higher else value < self.value
        better = ahead or math.isnan(self.value)
        self.waited = 0 if better else self.waited + 1
        if better or (value == self.value and plan.ties == "last"):
            self.value, self.step = float(value), step
            return True
        return False
