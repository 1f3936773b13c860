"""Whether a pool with a teacher's answers is used: what they gained, and what was decided."""

from dataclasses import dataclass, replace

from dessl.evaluation.metrics.vocabulary import ROUNDING, digits_text, interval_digits
from dessl.teachers.pool import LEAST_WEIGHT

FEW_GOLD = 30  # with fewer, the interval of the gain is too often beside the truth


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def shifted(self, by: float) -> "Interval":
        """The same share plus a number, at most 1.

        >>> Interval(0.8, 0.7, 0.99).shifted(0.02)
        Interval(value=0.8200000000000001, low=0.72, high=1.0)
        """
        return Interval(*(min(1.0, part + by) for part in (self.value, self.low, self.high)))


def passes(gain: float, standard_error: float, needed: float) -> bool:
    """The gate: whether a lower loss is large enough to count, and more than rounding.

    >>> passes(0.01, 0.02, 0.0), passes(0.01, 0.02, 1.0), passes(3e-9, 1e-9, 1.0)
    (True, False, False)
    """
    return gain > needed * standard_error + ROUNDING


@dataclass(frozen=True)
class Choice:
    """The decision about a pool, from gold rows that were not trained on.

    No label trained, stopped or weighted what is evaluated on it. The gain from the answers is
    measured against the model without them: the gold-only networks, pooled with a student of their
    own predictions of unlabelled rows and with the other models of gold labels and unlabelled rows,
    or alone if they are better. Answers at prediction time must also be better than what is kept
    without them. Some member that uses the answers must have a weight.

    Attributes:
        members: Names of the pooled predictors; the first is the gold-only one.
        weights: Exponents with the answers, fitted on all gold rows.
        weights_without: Exponents without the answers: 0 for all members that use a teacher.
        gold_only_loss: Out-of-fold cross-entropy of the gold-only networks.
        without_loss: Cross-entropy of the model without answers.
        pooled_loss: Cross-entropy of the pool with answers.
        standard_error: Standard error of the paired difference of the last two.
        n: Number of gold rows.
        needed: Standard errors by which the pool must be better than the model without answers.
        accuracy: Cross-fitted estimate for what was kept, from gold and unlabelled rows.
        accuracy_gold_rows: The same from gold rows alone.
        alone_loss: Cross-entropy of what predicts without answers, for a pool that takes answers
            as input; None for a student.
        alone_error: Standard error of its paired difference from ``pooled_loss``.
        averaging: Share of new rows, estimated from unlabelled ones, that the mean over the folds
            gets right and a single network does not; added to both accuracies.
        answers_weight: Sum of the weights of the members that use answers; None in reports of
            earlier versions, which did not require one.
        doubt: Share of what predicts without answers that is mixed into a pool that takes answers
            as input; 0 for a student, and in reports of earlier versions.
        needed_over_alone: Standard errors by which such a pool must be better than what predicts
            without answers; None in reports of earlier versions, where it was ``needed``.
    """

    members: tuple[str, ...]
    weights: tuple[float, ...]
    weights_without: tuple[float, ...]
    gold_only_loss: float
    without_loss: float
    pooled_loss: float
    standard_error: float
    n: int
    needed: float
    accuracy: Interval
    accuracy_gold_rows: Interval
    alone_loss: float | None = None
    alone_error: float | None = None
    averaging: float = 0.0
    answers_weight: float | None = None
    doubt: float = 0.0
    needed_over_alone: float | None = None

    def averaged(self, by: float) -> "Choice":
        """The same, with accuracies of the mean over the folds instead of single networks."""
        both = (self.accuracy, self.accuracy_gold_rows)
        accuracy, gold_rows = (one.shifted(by) for one in both)
        return replace(self, accuracy=accuracy, accuracy_gold_rows=gold_rows, averaging=by)

    @property
    def kept(self) -> bool:
        """Whether the answers are used."""
        return self._better_than_without and self._better_than_alone

    @property
    def sure(self) -> bool:
        """Whether the answers are used and every interval of their gain is above 0."""
        more = self.gain_over_alone
        return self.kept and self.gain.low > 0 and (more is None or more.low > 0)

    @property
    def _better_than_without(self) -> bool:
        fall = self.without_loss - self.pooled_loss
        return self._has_weight and passes(fall, self.standard_error, self.needed)

    @property
    def _has_weight(self) -> bool:
        return self.answers_weight is None or self.answers_weight >= LEAST_WEIGHT

    @property
    def _better_than_alone(self) -> bool:
        if self.alone_loss is None or self.alone_error is None:
            return True
        return passes(self.alone_loss - self.pooled_loss, self.alone_error, self._bar_over_alone)

    @property
    def _bar_over_alone(self) -> float:
        return self.needed if self.needed_over_alone is None else self.needed_over_alone

    @property
    def used(self) -> tuple[float, ...]:
        """The weights of what was kept."""
        return self.weights if self.kept else self.weights_without

    @property
    def gain(self) -> Interval:
        """Decrease of the cross-entropy from the answers: positive if they help."""
        return self._gain(self.without_loss, self.standard_error)

    @property
    def gain_over_alone(self) -> Interval | None:
        """The same compared with what predicts without answers; None for a student."""
        if self.alone_loss is None or self.alone_error is None:
            return None
        return self._gain(self.alone_loss, self.alone_error)

    def _gain(self, before: float, standard_error: float) -> Interval:
        from scipy import special

        gain = before - self.pooled_loss
        half = float(special.stdtrit(self.n - 1, 0.975)) * standard_error
        return Interval(gain, gain - half, gain + half)

    @property
    def why(self) -> str:
        """The gain from the answers, what was kept, and its members."""
        gain, more = self.gain, self.gain_over_alone
        found = (
            f"out-of-fold cross-entropy {self.without_loss:.3f} without them, "
            f"{self.pooled_loss:.3f} with them; {_change(gain)}"
        )
        if more is not None and self.alone_loss != self.without_loss:
            found += f". The student alone has {self.alone_loss:.3f}; {_change(more)}"
        if self.sure:
            said = f"The answers help: {found}.{self._caution}"
        elif self.kept and gain.low > 0:
            said = (
                "The answers help, but what those to new rows add to the student may be chance: "
                f"{found}.{self._caution}"
            )
        elif self.kept:
            said = f"The answers are used, but the gain may be chance: {found}."
        elif self._better_than_without:
            bar = _at_least(self._bar_over_alone)
            nothing = f"The answers to new rows gave no gain{bar} over the student alone"
            return f"{nothing}, so it predicts alone: {found}."
        else:
            alone = "gold labels alone are used"
            if any(self.weights_without[1:]):
                alone = "only gold labels and unlabelled rows are used"
            if more is not None:
                alone = "they are not used as input"
            said = f"{self._refusal}, so {alone}: {found}."
        counted = ", ".join(
            f"{name} {weight:.2f}"
            for name, weight in zip(self.members, self.used, strict=True)
            if weight > 0.005
        )
        return said if more is not None and not self.kept else f"{said} Weights: {counted}."

    @property
    def _caution(self) -> str:
        """That few gold rows show little; "" with enough of them."""
        if self.n >= FEW_GOLD:
            return ""
        return (
            f" With only {self.n} gold rows this is uncertain, whatever the interval says: label "
            f"at least {FEW_GOLD}."
        )

    @property
    def _refusal(self) -> str:
        """Why the answers are not used."""
        if self._has_weight:
            gained, bar = self.gain.value > ROUNDING, _at_least(self.needed)
            return f"The answers gave no gain{bar}" if gained else "The answers did not help"
        if self.alone_loss is not None:
            return "The answers got no weight"
        return (
            "The students that learnt from the answers predict no better than the other models and "
            "got no weight"
        )


def _at_least(standard_errors: float) -> str:
    """The size of a gain that would have been enough, in words; "" if any would."""
    if not standard_errors:
        return ""
    return f" of more than {standard_errors:g} standard error{'s' * (standard_errors != 1)}"


def _change(gain: Interval) -> str:
    """The change of the cross-entropy with its interval, in words."""
    digits = 3
    if max(abs(gain.low), abs(gain.high)) > ROUNDING:
        digits = max(3, interval_digits("cross_entropy", -gain.high, -gain.low, 0.0))
    change, low, high = (
        digits_text("cross_entropy", -value, digits, signed=True)
        for value in (gain.value, gain.high, gain.low)
    )
    return f"change {change} (95 % interval {low} to {high})"
