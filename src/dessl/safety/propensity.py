"""Propensities: the probability that each row is labelled, known or estimated.

known            from the labelling design: a survey, a stratified or an active draw
from x           it depends on the row's features: logistic regression, cross-fitted
from y           it depends on the class: moments of a classifier's predictions, or EM

Training weights each label by 1/π (:func:`dessl.inverse_propensity_risk`): λ = 0 is IPW, and λ = 1
is AIPW. Weights are bounded: π is raised if a label would count for more than twenty average ones,
which adds a little bias and saves much variance.
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl.data import SemiData
from dessl.safety.answers import fold_answers
from dessl.safety.choices import Codes, group_folds
from dessl.safety.class_test import LEAST_LABELS, class_test
from dessl.safety.columns import columns_of, groups_of_rows
from dessl.safety.two_samples import Floats, auc
from dessl.teachers import FromClassifier, Linear, Teacher
from dessl.teachers.linear import logistic_weights
from dessl.teachers.rows import as_columns
from dessl.teachers.space import Space

Source = Literal["known", "estimated from x", "estimated from y"]
Method = Literal["em", "moments"]
ESTIMATES = ("estimate-x", "estimate-y")
MOST_WEIGHT = 20.0  # largest weight of a label, as a multiple of the average
BOOTSTRAP = 200  # bootstrap draws for the standard error of moments
FOLDS = 5
STRENGTH = 1.0  # inverse penalty of the logistic regression of being labelled


class ClassPropensity(NamedTuple):
    """The probability of a label in one class, with its standard error."""

    name: str
    propensity: float
    standard_error: float


@dataclass(frozen=True)
class Propensity:
    """The probability that each row is labelled.

    Attributes:
        values: (n,) float32; NaN for unlabelled rows if it depends on their unknown class.
        source: How it was obtained.
        raised: Number of labelled rows whose π was raised, because the weight was too large.
        effective_labels: (Σ 1/π)² / Σ 1/π² over labelled rows: the number of labels of equal weight
            that would give equally precise means.
        labels: Number of labels.
        largest_weight: The largest 1/π, as a multiple of the mean.
        auc: Out-of-fold AUC of π for labelled against unlabelled rows; near 1, the two hardly
            overlap. None if π is not estimated from x.
        no_overlap: Share of unlabelled rows whose π is below that of every labelled row.
        classes: The probability in each class, if it is estimated from y.
    """

    values: Tensor
    source: Source
    raised: int
    effective_labels: float
    labels: int
    largest_weight: float
    auc: float | None = None
    no_overlap: float = 0.0
    classes: tuple[ClassPropensity, ...] = ()

    def on(self, data: SemiData) -> SemiData:
        """Return the data with these propensities; the features are shared."""
        new = copy.copy(data)
        new.propensity = self.values.to(data.device)
        return new

    @property
    def sentence(self) -> str:
        """The effect on the labels, in words."""
        text = (
            f"Labelling probabilities {self.source}: the effective sample size of {self.labels} "
            f"labels is {self.effective_labels:.0f}, and the largest weight is "
            f"{self.largest_weight:.1f} times the mean."
        )
        if self.raised:
            text += f" {self.raised} probabilities were raised to bound the weights."
        if self.no_overlap > 0.01:
            text += (
                f" {self.no_overlap:.0%} of the unlabelled rows are unlike any labelled row: no "
                "weights can represent them."
            )
        return text


def known_propensity(
    data: SemiData, values: "Tensor | NDArray[Any]", *, most_weight: float = MOST_WEIGHT
) -> Propensity:
    """Return propensities known from the labelling design.

    Args:
        data: The data with its labels.
        values: (n,) in (0, 1]; those of unlabelled rows may be NaN if they are not known.
        most_weight: Largest weight of a label, as a multiple of the average.

    Raises:
        ValueError: A row could never get a label: weights cannot represent such rows.

    >>> data = SemiData(torch.rand(4, 2), [0, 1, -1, -1])
    >>> known = known_propensity(data, torch.tensor([0.5, 0.25, 0.5, 0.25]))
    >>> round(known.effective_labels, 2), round(known.largest_weight, 2)
    (1.8, 1.33)
    """
    found = _checks.numbers("propensity", values)
    given = (found if isinstance(found, Tensor) else _checks.shared(found)).double().cpu()
    if given.shape != (len(data),):
        raise ValueError(
            f"propensity must have one probability for each row, shape ({len(data)},); got "
            f"{tuple(given.shape)}."
        )
    known = torch.zeros(len(data), dtype=torch.bool)
    known[data.labelled_rows.cpu()] = True
    check_probabilities(given, known)
    return _bounded(data, given, "known", most_weight)


def check_probabilities(values: Tensor, labelled: Tensor) -> None:
    """Reject propensities outside (0, 1]; NaN is accepted for unlabelled rows only.

    Args:
        values: (n,) the propensities.
        labelled: (n,) which rows are labelled.
    """
    bad = ~((values > 0) & (values <= 1)) & (labelled | ~values.isnan())
    if not bool(bad.any()):
        return
    row = int(bad.nonzero()[0])
    do = (
        "No labelled row represents a row that could never get a label: exclude such rows, "
        "and report this with the results."
        if float(values[row]) == 0
        else "Pass the probability with which each labelled row got its label."
    )
    raise ValueError(
        f"propensity must lie in (0, 1]; {int(bad.sum())} of {len(values)} rows do not, the "
        f"first is row {row}: {float(values[row]):g}. {do}"
    )


def propensity_from_x(
    data: SemiData,
    *,
    classifier: Any = None,
    most_weight: float = MOST_WEIGHT,
    seed: int = 0,
) -> Propensity:
    """Estimate π(x), if the probability of a label depends on the row's features.

    Args:
        data: The data with its labels.
        classifier: Your own classifier, with ``fit`` and ``predict_proba``, to predict from the
            columns which rows are labelled. Logistic regression if not given.
        most_weight: Largest weight of a label, as a multiple of the average.
        seed: Seed of the five folds: a row's π comes from a model that was not fitted on it, or on
            any row of its group. The π of all rows are then calibrated by logistic regression on
            their log-odds: a model that overfits would otherwise give too unequal weights, even to
            labels missing at random.
    """
    _check_both(data)
    rows = torch.cat([data.labelled_rows, data.unlabelled_rows]).cpu()
    groups = _groups(data, rows, len(rows))
    marks = torch.zeros(len(rows), dtype=torch.int64)
    marks[: data.n_labelled] = 1
    values = _columns(data, rows)
    teacher: Teacher = (
        Linear(STRENGTH, space=Space.of(values))
        if classifier is None
        else FromClassifier(classifier)
    )
    found = torch.empty(len(rows), dtype=torch.float64)
    units = np.arange(len(rows)) if groups is None else groups
    folds = torch.from_numpy(group_folds(units, FOLDS, np.random.default_rng(seed)))
    for fold in torch.unique(folds):  # of fewer groups than FOLDS, fewer
        held = folds == fold
        own = copy.deepcopy(teacher).fit(values[~held], marks[~held], values[:0], 2)
        found[held] = own.predict_log_proba(values[held])[:, 1].exp()
    everywhere = torch.full((len(data),), torch.nan, dtype=torch.float64)
    everywhere[rows] = _calibrated(found, marks)
    known, unknown = found[: data.n_labelled].numpy(), found[data.n_labelled :].numpy()
    return _bounded(
        data,
        everywhere,
        "estimated from x",
        most_weight,
        auc=auc(known, unknown),
        no_overlap=float((unknown < known.min()).mean()),
    )


def propensity_from_y(
    data: SemiData,
    *,
    method: Method = "em",
    classifier: Any = None,
    most_weight: float = MOST_WEIGHT,
    seed: int = 0,
) -> Propensity:
    """Estimate φ(y), if the probability of a label depends only on the class.

    Both methods need a classifier that separates the classes, and unlabelled rows of the same kind:
    within a class, labelled and unlabelled rows must have the same distribution.

    Args:
        data: The data with its labels; each class needs three.
        method: ``"em"``: the most likely φ_k = n_lk / (n_lk + Σ_U q_k), with q the classes that the
            unlabelled rows probably have, recalibrated together with φ. ``"moments"``: the class
            shares of unlabelled rows that explain the classifier's mean prediction for them, given
            its out-of-fold predictions for each class: it does not require calibration.
        classifier: Your own classifier; logistic regression on the rows' columns if not given.
        most_weight: Largest weight of a label, as a multiple of the average.
        seed: Seed of the folds and of the bootstrap.
    """
    _checks.one_of("method", method, ("em", "moments"))
    _check_both(data)
    rows = torch.cat([data.labelled_rows, data.unlabelled_rows]).cpu()
    y = data.y.cpu()[rows[: data.n_labelled]]
    counts = y.bincount(minlength=data.n_classes)
    if int(counts.min()) < LEAST_LABELS:
        name = data.class_names[int(counts.argmin())]
        raise ValueError(
            f"to estimate how often each class is labelled, each needs at least {LEAST_LABELS} "
            f"labels; {name!r} has {int(counts.min())}. Label more of its rows, or leave the class "
            "out."
        )
    labelled = np.arange(len(rows)) < data.n_labelled
    groups = _groups(data, rows, data.n_labelled)
    teacher = None if classifier is None else FromClassifier(classifier)
    answers = fold_answers(
        _columns(data, rows), y, labelled, data.n_classes, teacher=teacher, groups=groups, seed=seed
    )
    if method == "em":
        found = class_test(answers.log_p, y, labelled, groups=groups)
        assert found is not None  # noqa: S101 (all classes have enough labels, and some rows none)
        phi, error = found.propensity, found.standard_error
    else:
        phi, error = class_moments(
            answers.log_p.exp().numpy(), y.numpy(), labelled, groups=groups, seed=seed
        )
    values = torch.full((len(data),), torch.nan, dtype=torch.float64)
    values[rows[: data.n_labelled]] = torch.from_numpy(phi)[y]
    classes = tuple(
        ClassPropensity(name, float(phi[k]), float(error[k]))
        for k, name in enumerate(data.class_names)
    )
    return _bounded(data, values, "estimated from y", most_weight, classes=classes)


def class_moments(
    p: Floats,
    y: NDArray[np.int64],
    labelled: NDArray[np.bool_],
    *,
    groups: Codes | None = None,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """Return φ and its standard error, (classes,) each, from the moments of a classifier.

    With C_jk the mean of p_j over labelled rows of class k, the class shares s of the unlabelled
    rows solve C s = mean_U p, and φ_k = n_lk / (n_lk + n_u s_k). Errors come from a bootstrap of
    rows, or of groups; the classifier is not refitted.

    Args:
        p: (n, classes) probabilities, out of fold where rows are labelled.
        y: (n_l,) classes of the labelled rows.
        labelled: (n,) which rows are labelled.
        groups: (n,) group of each row; None if rows are independent.
        seed: Seed of the bootstrap.
    """
    generator = np.random.default_rng(seed)
    hot, known, unknown = np.eye(p.shape[1])[y], p[labelled], p[~labelled]
    _, number = np.unique(np.arange(len(p)) if groups is None else groups, return_inverse=True)
    n_groups = int(number.max()) + 1

    def solved(times: Floats) -> Floats:
        """φ if each row counted this many times; NaN if a class has no label then."""
        by_class, others = times[labelled, None] * hot, times[~labelled]
        counts, n_u = by_class.sum(0), others.sum()
        if not counts.all() or not n_u:
            return np.full(p.shape[1], np.nan)
        confusion, mean = known.T @ by_class / counts, others @ unknown / n_u
        shares = np.clip(np.linalg.lstsq(confusion, mean, rcond=None)[0], 1e-6, None)
        found: Floats = counts / (counts + n_u * shares / shares.sum())
        return found

    even = np.full(n_groups, 1 / n_groups)
    times = (generator.multinomial(n_groups, even)[number] for _ in range(BOOTSTRAP))
    draws = [solved(own.astype(np.float64)) for own in times]
    return solved(np.ones(len(p))), np.nanstd(draws, axis=0, ddof=1)


def propensity_of(
    data: SemiData, given: "str | Tensor | NDArray[Any] | Propensity", *, seed: int = 0
) -> Propensity:
    """Return propensities from the user's input: numbers, ``"estimate-x"`` or ``"estimate-y"``.

    Args:
        data: The data with its labels.
        given: (n,) probabilities, a name, or existing propensities.
        seed: Seed of the folds of an estimate.
    """
    if isinstance(given, Propensity):
        return given
    if isinstance(given, str):
        _checks.one_of("propensity", given, ESTIMATES)
        estimate = propensity_from_x if given == "estimate-x" else propensity_from_y
        return estimate(data, seed=seed)
    return known_propensity(data, given)


def effective_labels(propensity: Tensor) -> float:
    """Return (Σ 1/π)² / Σ 1/π² of labelled rows' propensities, (n_l,).

    >>> effective_labels(torch.tensor([0.5, 0.5, 0.5]))
    3.0
    """
    weights = 1 / propensity.double()
    return float(weights.sum().square() / weights.square().sum())


def _bounded(
    data: SemiData, values: Tensor, source: Source, most_weight: float, **more: Any
) -> Propensity:
    """Raise propensities that would give too large weights, and compute the effective labels."""
    most_weight = _checks.number("most_weight", most_weight, low=1)
    known = data.labelled_rows.cpu()
    if not len(known):
        raise ValueError(
            "propensities weight labelled rows, but the data has none. Label some rows first."
        )
    least = len(known) / (len(known) + data.n_unlabelled) / most_weight
    own = values[known]
    raised = int((own < least).sum())
    bounded = values.clamp(min=least, max=1.0)  # NaN stays NaN
    weights = 1 / bounded[known]
    return Propensity(
        values=bounded.float(),
        source=source,
        raised=raised,
        effective_labels=effective_labels(bounded[known]),
        labels=len(known),
        largest_weight=float(weights.max() / weights.mean()),
        **more,
    )


def _calibrated(chances: Tensor, labelled: Tensor) -> Tensor:
    """Calibrate out-of-fold chances (n,); all are equal if they do not predict ``labelled``.

    >>> _calibrated(torch.tensor([0.9, 0.9, 0.9, 0.1, 0.1, 0.1]), torch.tensor([0, 1, 0, 1, 0, 0]))
    tensor([0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """
    odds = torch.logit(chances.double(), eps=1 / (len(chances) + 2))
    weights = logistic_weights(odds[:, None], labelled, STRENGTH)
    slope, intercept = (weights[:, 1] - weights[:, 0]).tolist()
    if slope <= 0:
        return labelled.double().mean().expand(len(chances))
    return torch.sigmoid(slope * odds + intercept)


def _groups(data: SemiData, rows: Tensor, fitted: int) -> Codes | None:
    """The groups of these rows, if the data has any; the first ``fitted`` must be of several."""
    groups = groups_of_rows(data)
    found = None if groups is None else groups[rows].numpy()
    if found is not None and len(np.unique(found[:fitted])) < 2:
        raise ValueError(
            "a group is predicted by models of other groups, so at least two must be labelled; "
            "got 1. Label rows of more groups, or omit the groups if rows are independent."
        )
    return found


def _columns(data: SemiData, rows: Tensor) -> Tensor:
    """Small rows unchanged, large images as summaries."""
    if data.is_image and data.x[0].numel() > 4096:
        return columns_of(data, rows).values
    return as_columns(data.x[rows.to(data.device)]).float().cpu()


def _check_both(data: SemiData) -> None:
    if not data.n_labelled or not data.n_unlabelled:
        raise ValueError(
            "to estimate which rows get a label, some must have one and some not; got "
            f"{data.n_labelled} labelled and {data.n_unlabelled} unlabelled rows."
        )
