"""Does the probability of a label depend on the class? A likelihood-ratio test, with estimates.

With φ_k the probability that a row of class k has a label and p_k(x) a model of the class,

    ℓ = Σ_L [log p_y(x) + log φ_y] + Σ_U log Σ_k (1 − φ_k) p_k(x)

is maximised over φ *and* the model, against one φ for all classes: twice the difference is
approximately χ² with K − 1 degrees of freedom. Holding the model fixed would make the test reject
far too often. The model is p_k(x) ∝ exp(a s_k(x) + b_k), with s out-of-fold log-probabilities: K
parameters that the likelihood can determine from few labels, for any kind of row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dessl.safety.choices import Codes
from dessl.safety.two_samples import Floats

LEAST_LABELS = 3  # labels that a class needs


class ClassTest(NamedTuple):
    """Whether the probability of a label depends on the class.

    Attributes:
        p_value: p-value of the hypothesis of one probability for all classes.
        statistic: Twice the gain in log-likelihood.
        degrees: Degrees of freedom.
        propensity: (classes,) estimated probability of a label in each class; NaN for a class that
            was excluded.
        standard_error: (classes,) standard error of ``propensity``; the only result that takes
            groups into account.
    """

    p_value: float
    statistic: float
    degrees: int
    propensity: Floats
    standard_error: Floats


def class_test(
    log_p: Tensor, y: Tensor, labelled: NDArray[np.bool_], *, groups: Codes | None = None
) -> ClassTest | None:
    """Test whether the probability of a label depends on the class.

    Args:
        log_p: Out-of-fold log-probabilities (n, classes) of :func:`fold_answers`.
        y: (n_l,) classes of the labelled rows, in their order.
        labelled: (n,) which rows are labelled.
        groups: (n,) group of each row, for the standard errors; None if rows are independent.

    Returns:
        None if fewer than two classes have three labels each.
    """
    from scipy import special  # scipy.stats takes 0.3 s to import

    counts = np.bincount(y.numpy(), minlength=log_p.shape[1])
    used = np.flatnonzero(counts >= LEAST_LABELS)
    if len(used) < 2 or labelled.all():
        return None
    problem = _Likelihood.of(log_p, y, labelled, used)
    null = problem.null()
    full = problem.full(null.parameters)
    statistic = max(0.0, 2 * (null.value - full.value))
    degrees = len(used) - 1
    if groups is not None:
        kept = np.isin(y.numpy(), used)
        groups = np.concatenate([groups[labelled][kept], groups[~labelled]])
    phi, error = problem.propensity(full.parameters, groups)
    found = np.full((2, log_p.shape[1]), np.nan)
    found[:, used] = phi, error
    p_value = float(special.chdtrc(degrees, statistic))  # of χ² above the statistic
    return ClassTest(p_value, statistic, degrees, found[0], found[1])


class _Optimum(NamedTuple):
    parameters: Floats
    value: float  # negative log-likelihood


class _Likelihood(NamedTuple):
    """Scores of labelled (n_l, K) and unlabelled rows (n_u, K), and labelled classes one-hot."""

    known: Floats
    unknown: Floats
    hot: Floats

    @classmethod
    def of(
        cls, log_p: Tensor, y: Tensor, labelled: NDArray[np.bool_], used: NDArray[np.int64]
    ) -> "_Likelihood":
        scores = log_p.double().numpy()[:, used]
        known, classes = scores[labelled], y.numpy()
        kept = np.isin(classes, used)
        hot = (classes[kept, None] == used).astype(np.float64)
        return cls(known[kept], scores[~labelled], hot)

    @property
    def n_classes(self) -> int:
        return int(self.hot.shape[1])

    def null(self) -> _Optimum:
        """With one φ: the model uses the labelled rows alone, and φ is their share."""
        from scipy.optimize import minimize

        def value(parameters: Floats) -> tuple[float, Floats]:
            slope, shift = parameters[0], np.append(0.0, parameters[1:])
            log_q = _log_softmax(slope * self.known + shift)
            rest = self.hot - np.exp(log_q)
            gradient = np.append((rest * self.known).sum(), rest.sum(0)[1:])
            return -float((self.hot * log_q).sum()), -gradient

        start = np.append(1.0, np.zeros(self.n_classes - 1))
        found = minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-6})
        n_l, n_u = len(self.known), len(self.unknown)
        share = n_l / (n_l + n_u)
        fixed = n_l * np.log(share) + n_u * np.log1p(-share)
        return _Optimum(found.x, float(found.fun) - fixed)

    def full(self, model: Floats) -> _Optimum:
        """With a φ for each class, from the model with one φ."""
        from scipy.optimize import minimize

        share = len(self.known) / (len(self.known) + len(self.unknown))
        odds = np.log(share / (1 - share))
        start = np.concatenate([model, np.full(self.n_classes, odds)])
        found = minimize(
            self.value_and_gradient, start, jac=True, method="BFGS", options={"gtol": 1e-6}
        )
        return _Optimum(found.x, float(found.fun))

    def value_and_gradient(self, parameters: Floats) -> tuple[float, Floats]:
        """The negative log-likelihood at (slope, shifts but the first, log-odds of φ)."""
        value, scores = self.value_and_scores(parameters)
        return -value, -scores.sum(0)

    def value_and_scores(self, parameters: Floats) -> tuple[float, Floats]:
        """The log-likelihood, and each row's derivatives (n, parameters), labelled rows first."""
        k = self.n_classes
        slope, shift = parameters[0], np.append(0.0, parameters[1:k])
        odds = parameters[k:]
        log_phi, log_rest = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
        phi = np.exp(log_phi)
        log_known = _log_softmax(slope * self.known + shift)
        log_unknown = _log_softmax(slope * self.unknown + shift)
        joint = log_unknown + log_rest
        marginal = np.logaddexp.reduce(joint, axis=1)
        posterior = np.exp(joint - marginal[:, None])
        value = (self.hot * (log_known + log_phi)).sum() + marginal.sum()

        def by_model(rest: Floats, scores: Floats) -> Floats:
            found: Floats = np.column_stack([(rest * scores).sum(1), rest[:, 1:]])
            return found

        known = np.hstack(
            [by_model(self.hot - np.exp(log_known), self.known), self.hot * (1 - phi)]
        )
        unknown = np.hstack(
            [by_model(posterior - np.exp(log_unknown), self.unknown), -phi * posterior]
        )
        return float(value), np.vstack([known, unknown])

    def propensity(self, parameters: Floats, groups: Codes | None) -> tuple[Floats, Floats]:
        """φ and its standard error, from the curvature of the log-likelihood.

        With groups, rows of one are not independent: the error is then the sandwich estimate, in
        which the derivatives of a group's rows are added up before they are squared.
        """
        step, size = 1e-4, len(parameters)
        curvature = np.empty((size, size))
        for place in range(size):
            ahead = np.eye(size)[place] * step
            high, low = (self.value_and_gradient(parameters + sign * ahead)[1] for sign in (1, -1))
            curvature[place] = (high - low) / (2 * step)
        covariance = np.linalg.pinv((curvature + curvature.T) / 2)
        if groups is not None:
            _, number = np.unique(groups, return_inverse=True)
            sums = np.zeros((number.max() + 1, size))
            np.add.at(sums, number, self.value_and_scores(parameters)[1])
            covariance = covariance @ (sums.T @ sums) @ covariance
            covariance *= len(sums) / max(1, len(sums) - 1)
        phi = 1 / (1 + np.exp(-parameters[self.n_classes :]))
        spread = np.sqrt(np.clip(np.diag(covariance)[self.n_classes :], 0, None))
        return phi, phi * (1 - phi) * spread


def _log_softmax(logits: Floats) -> Floats:
    found: Floats = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    return found
