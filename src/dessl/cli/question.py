"""What ``dessl evaluate`` estimates: metrics, their class and threshold, how rows were labelled."""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dessl.data import Part

ESTIMATED = ("accuracy", "cross_entropy", "brier")  # if no metric is named


class Question(NamedTuple):
    """The metrics to estimate, and the columns read from DATA, with one entry per row.

    ``check_shift`` is whether to test that unlabelled rows look like labelled ones.
    """

    metrics: tuple[str, ...]
    class_names: tuple[str, ...]
    positive: int | None = None
    threshold: float | None = None
    propensity: "NDArray[np.float64] | None" = None
    strata: "NDArray[np.str_] | None" = None
    groups: "NDArray[np.int64] | None" = None
    check_shift: bool = True

    def options(
        self, rows: "Part", inside: "NDArray[np.bool_] | slice", name: str
    ) -> dict[str, Any]:
        """The class, threshold and sampling design for a metric over some of the rows."""
        known = rows.labelled.numpy()
        found: dict[str, Any] = {"check_shift": self.check_shift}
        if (positive := self._positive(name)) is not None:
            found["positive"] = positive
        if (threshold := self._threshold(name)) is not None:
            found["threshold"] = threshold
        if self.propensity is not None:
            found["propensity"] = self.propensity[inside][known[inside]]
        if self.strata is not None:
            strata = self.strata[inside]
            found["strata"] = strata[known[inside]]
            if self.propensity is None:
                found["strata_unlabelled"] = strata[~known[inside]]
        if self.groups is not None:
            groups = self.groups[inside]
            found["groups"] = groups[known[inside]]
            found["groups_unlabelled"] = groups[~known[inside]]
        return found

    def subject(self, name: str) -> dict[str, Any]:
        """The class and threshold of a metric, for JSON; empty if it is over all classes.

        >>> Question(("tpr",), ("well", "ill")).subject("tpr")
        {'class': 'ill', 'threshold': 0.5}
        """
        positive, threshold = self._positive(name), self._threshold(name)
        found: dict[str, Any] = {} if positive is None else {"class": self.class_names[positive]}
        return found if threshold is None else {**found, "threshold": threshold}

    def heading(self, name: str) -> str:
        """A metric as a heading, with its class, threshold and unit.

        >>> question = Question(("recall", "tpr"), ("well", "ill"))
        >>> print(*map(question.heading, question.metrics), sep="; ")
        recall of 'ill', %; true-positive rate of 'ill' at threshold 0.5, %
        """
        from dessl._checks import quoted
        from dessl.evaluation.metrics.vocabulary import metric_text

        subject = self.subject(name)
        of = f" of {quoted(subject['class'])}" if "class" in subject else ""
        at = f" at threshold {subject['threshold']:g}" if "threshold" in subject else ""
        return metric_text(name, f"{of}{at}")

    def _positive(self, name: str) -> int | None:
        from dessl.evaluation.debiased.rates import OF_ONE_CLASS, POSITIVE

        if name == "auc":  # with two classes, that of either
            return self.positive
        if name not in OF_ONE_CLASS:
            return None
        return POSITIVE if self.positive is None else self.positive

    def _threshold(self, name: str) -> float | None:
        from dessl.evaluation.debiased.rates import AT_A_THRESHOLD, THRESHOLD

        if name not in AT_A_THRESHOLD:
            return None
        return THRESHOLD if self.threshold is None else self.threshold


def check_complete(
    metrics: tuple[str, ...],
    names: tuple[str, ...],
    class_name: str | None,
    threshold: float | None,
    against: str | None,
) -> None:
    """Raise a ValueError that names the option a metric needs."""
    from dessl.evaluation.debiased.rates import AT_A_THRESHOLD, OF_ONE_CLASS

    for metric in metrics:
        if metric == "wins" and not against:
            raise ValueError(
                "wins compares two models. Pass --against RUN with the other model's run."
            )
        if metric in OF_ONE_CLASS and class_name is None and len(names) > 2:
            raise ValueError(
                f"{metric} is computed for one class. Pass --class NAME, one of {', '.join(names)}."
            )
        if metric in AT_A_THRESHOLD and threshold is None and len(names) > 2:
            raise ValueError(
                f"{metric} needs a threshold with more than two classes. Pass --threshold T, the "
                "probability from which a row counts as positive."
            )


def class_number(name: str | None, names: tuple[str, ...]) -> int | None:
    """The number of the class that ``--class`` names; None if it was not given."""
    if name is None:
        return None
    if name not in names:
        from dessl.cli.sources import nearest

        raise ValueError(
            f"--class must be one of the model's classes; got {name!r}. "
            + nearest(name, names, otherwise=f"The classes are {', '.join(names)}.")
        )
    return names.index(name)
