"""Check that the complete case trained: a model that failed to is no baseline for a verdict.

On its held-out labels it is compared with two predictors that cannot fail to train:
the class frequencies, and a logistic regression, each fitted on the other labels. Training failed
if

- it predicts one class for all of them, although they have several and the regression predicts
  several, and its cross-entropy is not below that of the frequencies by more than one standard
  error: where a class is rare, a network may rank the rows well without ever predicting it, or
- its cross-entropy exceeds that of the frequencies by more than one standard error, or
  that of the regression by more than three.

A single network may be overconfident, which is not a failure to train, and which averaging the
networks corrects: it failed only if it fails with p^T too, with T fitted on the held-out labels.

If the regression is not better than the frequencies by more than one standard error either, the
labels tell too little, and longer training is no cure: on made-up tables of 16 to 64 labels no
restart helped then (``benchmarks/restarts.py``). Of a table, such a training is not restarted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.functional import cross_entropy
from dessl.recipes.held_out import HeldOutParts, held_out_check
from dessl.recipes.recipe import Recipe
from dessl.recipes.which_teachers import MOST_COLUMNS, MOST_LABELS
from dessl.teachers.crossfit import out_of_fold
from dessl.teachers.linear import STRENGTHS, Linear
from dessl.teachers.pool import exponent
from dessl.teachers.rows import as_columns

FEWEST_LABELS = 10  # held-out labels needed to tell a failure from chance
RESTARTS = 2
LONGER = 2  # times the steps, at each restart
SLOWER = 3.0  # divisor of the learning rate from the second restart on
OTHER_SEEDS = 1000  # difference of seeds between restarts
ERRORS = {
    "class frequencies": 1.0,
    "a logistic regression": 3.0,
}  # standard errors above which it is worse


@dataclass(frozen=True)
class Baseline:
    """The complete case on held-out labels.

    Attributes:
        n: Number of held-out labels; rows of one group count as one.
        cross_entropy: Cross-entropy of the complete case.
        frequencies: Cross-entropy of the class frequencies.
        regression: Cross-entropy of the logistic regression; None if not fitted.
        failures: What went wrong in each failed training, in order.
        trained: Whether the last training, which is kept, succeeded.
        learnable: Whether the logistic regression, if fitted, is clearly better than the class
            frequencies: if not, the labels may tell too little for any model.
    """

    n: int
    cross_entropy: float
    frequencies: float
    regression: float | None
    failures: tuple[str, ...]
    trained: bool
    learnable: bool = True

    @property
    def failure(self) -> str:
        """Why there is no verdict, in a clause; "" if there is one."""
        if self.trained:
            return ""
        return (
            "the complete case failed to train" if self.learnable else "the labels tell too little"
        )

    @property
    def account(self) -> str:
        """What went wrong and what was done about it, in one sentence; "" if nothing did."""
        if not self.failures:
            return ""
        if not (self.trained or self.learnable):
            return (
                f"Neither the complete case nor a logistic regression predicts {self.n} held-out "
                "labels clearly better than the class shares. Label more rows of each class. If "
                "you think that longer training would help, change the number of steps (--steps, "
                "steps= in Python)."
            )
        restarts = len(self.failures) - (not self.trained)
        times = f"{restarts} time{'s' if restarts > 1 else ''}"
        how = f"it was restarted {times} with more steps"
        if self.trained:
            return f"The first training of the complete case failed: {self.failures[0]}; {how}."
        last = self.failures[-1]
        return (
            f"{last[0].upper()}{last[1:]}, even though {how}. Label more rows of each class, or "
            "change the number of steps (--steps, steps= in Python)."
        )


@dataclass(frozen=True)
class References:
    """The held-out labels, and the losses of predictors that cannot fail to train.

    Attributes:
        y: The held-out labels (n,), in order of the parts.
        groups: Group numbers (n,); rows of one group count as one label.
        losses: Losses (n,) of each reference, by name.
        classes: Number of classes that the regression predicts; 2 if not fitted.
        names: Names of the classes.
    """

    y: Tensor
    groups: Tensor
    losses: dict[str, Tensor]
    classes: int
    names: Sequence[str]

    @classmethod
    def of(cls, data: SemiData, parts: HeldOutParts) -> "References | None":
        """Fit the references; None if labels are too few.

        Args:
            data: The data as given.
            parts: The data of each network, with its held-out rows.
        """
        held = [part.validation for part in parts.data]
        y = torch.cat([part.y.cpu() for part in held if part is not None] or [torch.empty(0)])
        if len(torch.unique(parts.groups)) < FEWEST_LABELS or len(torch.unique(y)) < 2:
            return None
        losses = {"class frequencies": _frequency_losses(parts)}
        classes = 2
        if data.x[0].numel() <= MOST_COLUMNS and data.n_labelled <= MOST_LABELS:
            log_p = min(
                (_regression(data, parts, strength) for strength in STRENGTHS),
                key=lambda found: float(cross_entropy(found, y).mean()),
            )
            losses["a logistic regression"] = cross_entropy(log_p, y)
            classes = len(torch.unique(log_p.argmax(1)))
        return cls(y, parts.groups, losses, classes, data.class_names)

    def baseline(self, logits: Tensor, failures: tuple[str, ...] = ()) -> Baseline:
        """Evaluate the complete case.

        Args:
            logits: Logits (n, classes) of the held-out rows, each by the network that held it out.
            failures: Failures of earlier trainings.
        """
        log_p = logits.double().cpu().log_softmax(1)
        own = cross_entropy(log_p, self.y)
        power = exponent(log_p, self.y, len(torch.unique(self.groups)))
        failure = self._failure(log_p.argmax(1), own) and self._failure(
            log_p.argmax(1), cross_entropy(power * log_p, self.y)
        )
        regression = self.losses.get("a logistic regression")
        return Baseline(
            n=len(torch.unique(self.groups)),
            cross_entropy=float(own.mean()),
            frequencies=float(self._frequencies.mean()),
            regression=None if regression is None else float(regression.mean()),
            failures=(*failures, failure) if failure else failures,
            trained=not failure,
            learnable=self._learnable,
        )

    @property
    def _learnable(self) -> bool:
        """Whether the regression, if fitted, is clearly better than the frequencies."""
        regression = self.losses.get("a logistic regression")
        if regression is None:
            return True
        return held_out_check(self._frequencies, regression, self.groups).helped

    @property
    def _frequencies(self) -> Tensor:
        return self.losses["class frequencies"]

    def _failure(self, predicted: Tensor, own: Tensor) -> str:
        n, chosen = len(self.y), int(predicted[0])
        others = int((self.y != chosen).sum())
        constant = bool((predicted == chosen).all()) and others and self.classes > 1
        if constant and not held_out_check(self._frequencies, own, self.groups).helped:
            return (
                f"it predicts {self.names[chosen]!r} for all {n} held-out rows, of which {others} "
                "have a different label"
            )
        for name, losses in self.losses.items():
            check = held_out_check(losses, own, self.groups)
            if check.difference > ERRORS[name] * check.standard_error:
                return (
                    f"its cross-entropy on {n} held-out rows, {float(own.mean()):.2f} even if "
                    f"calibrated, is higher than that of {name}, {float(losses.mean()):.2f}"
                )
        return ""


def restarted(recipe: Recipe, number: int) -> Recipe:
    """Return a recipe for a restart: longer, slower, without early stopping, with other seeds.

    Args:
        recipe: The recipe that failed first.
        number: Number of the restart, from 1.
    """
    plan, longer = recipe.plan, LONGER**number
    again = replace(
        plan,
        steps=longer * (plan.steps or 1),
        evaluate_every=None if plan.evaluate_every is None else longer * plan.evaluate_every,
        learning_rate=plan.learning_rate / SLOWER ** (number - 1),
        patience=None,
        patience_after=0,
        seed=(plan.seed + number * OTHER_SEEDS) % 2**63,
    )
    return replace(recipe, plan=again)


def _frequency_losses(parts: HeldOutParts) -> Tensor:
    """Each held-out label's loss under the training labels' frequencies, with one added to each."""
    found = []
    for part in parts.data:
        if part.validation is None:
            continue
        counts = part.y[part.labelled_rows].bincount(minlength=part.n_classes).cpu().double()
        log_p = ((counts + 1) / (counts + 1).sum()).log()
        found.append(-log_p[part.validation.y.cpu()])
    return torch.cat(found)


def _regression(data: SemiData, parts: HeldOutParts, strength: float) -> Tensor:
    """Log-probabilities (n, classes) of held-out rows from a regression on the other labels."""
    x, y = as_columns(data.x[data.labelled_rows]).cpu(), data.y[data.labelled_rows].cpu()
    if data.validation is not None:
        fitted = Linear(strength).fit(x, y, x[:0], data.n_classes)
        return fitted.predict_log_proba(as_columns(data.validation.x).cpu())
    log_p = out_of_fold(Linear(strength), x, y, x[:0], parts.folds, data.n_classes)
    return torch.cat([log_p[parts.folds == fold] for fold in range(len(parts.data))])
