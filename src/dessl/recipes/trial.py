"""A trial: a method and its complete-case twin on one data set, evaluated on held-out rows."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from dessl.data import Part, SemiData
from dessl.recipes import Fitted, Recipe, fit
from dessl.recipes.predictor import predicted_log_proba
from dessl.recipes.split import RowDesign, label_groups
from dessl.recipes.symmetries import with_symmetries
from dessl.risk import RISKS
from dessl.teachers.pooling import POOL_PARTS
from dessl.training.progress import whole_bar

NO_DESIGN = RowDesign()  # independent rows, all equally likely to be labelled


@dataclass(frozen=True)
class Trial:
    """The trained models, their data, the logits of both on the test rows, (n, classes).

    ``design`` has the propensities and groups of the test rows.
    """

    data: SemiData
    test: Part
    fitted: Fitted
    logits: Tensor
    twin_logits: Tensor
    design: RowDesign = NO_DESIGN


def run_trial(
    data: SemiData,
    test: Part,
    recipe: Recipe,
    *,
    design: RowDesign = NO_DESIGN,
    out: Path | None = None,
    progress: bool = True,
) -> Trial:
    """Train a recipe and its complete-case twin, and predict the test rows once.

    Args:
        data: Training data.
        test: Rows held out of it, or from elsewhere.
        recipe: From :func:`dessl.recipes.recipe_for`.
        design: Propensities and groups of the test rows, from
            :func:`dessl.recipes.split.split`, for the intervals.
        out: Folder for checkpoints, used to resume training.
        progress: Whether to show a progress bar on a terminal.
    """
    fitted = _fitted(data, recipe, out, progress)
    x = test.x.to(data.device)
    logits = {  # the model may be its own twin: then one pass is enough
        model: predicted_log_proba(model, x) for model in {fitted.model, fitted.complete_case}
    }
    own, twin = logits[fitted.model], logits[fitted.complete_case]
    return Trial(data, test, fitted, own, twin, design)


def parts(recipe: Recipe) -> float:
    """Expected length of a fit, in networks: some may be skipped or stop early."""
    teachers = len(recipe.teachers) + 2 if recipe.teachers else 0  # one twice, then all together
    own = recipe.networks * (2 if recipe.trains_unlabelled else 1) + POOL_PARTS * teachers
    return own + (parts(recipe.otherwise) if recipe.otherwise else 0.0)


def refitted(
    trial: Trial,
    whole: SemiData,
    recipe: Recipe,
    *,
    complete_case: bool = False,
    out: Path | None = None,
    progress: bool = True,
) -> Fitted:
    """Retrain the winner of a trial on all labels, including those that evaluated it.

    The recipe is the same: networks with other folds of all labels held out, and a pool weighted on
    them. Decisions stay: the λ and symmetries of the trial, the recipe that it fell back to, and no
    method that it dropped. No label
    is left to evaluate the result; the trial's metrics are for the model before.

    Args:
        trial: Result of :func:`run_trial`.
        whole: Result of :func:`dessl.recipes.split.every_label`.
        recipe: Recipe for ``whole``, with the options of the trial's recipe.
        complete_case: Whether the complete case won.
        out: Folder for checkpoints, used to resume training.
        progress: Whether to show progress bars on a terminal.
    """
    fell_back = trial.fitted.tried is not None and recipe.otherwise
    recipe = fell_back or dataclasses.replace(recipe, otherwise=None)
    if RISKS[recipe.plan.risk].unlabelled:
        plan = dataclasses.replace(recipe.plan, lam=0.0 if complete_case else trial.fitted.lam)
        recipe = dataclasses.replace(recipe, lam=plan.lam, plan=plan)
    if trial.fitted.symmetries is not None:
        recipe = with_symmetries(recipe, trial.fitted.symmetries.safe)
    teachers = () if complete_case or not trial.fitted.pool else recipe.teachers
    recipe = dataclasses.replace(recipe, teachers=teachers, safe=False)  # as in the trial
    return _fitted(whole, recipe, out, progress)


def refit_failure(trial: Trial, found: Fitted) -> str:
    """Why a refit failed although the trial did not, in words; "" if it did not fail."""
    before, after = trial.fitted.baseline, found.baseline
    failed = after and not after.trained and not (before and not before.trained)
    return f"{after.failure}. {after.account}" if after and failed else ""


def _fitted(data: SemiData, recipe: Recipe, out: Path | None, progress: bool) -> Fitted:
    with whole_bar(parts(recipe), shown=progress):
        return fit(data, recipe, groups=label_groups(data), out=out, progress=progress)
