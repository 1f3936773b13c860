"""fit: train a recipe and its complete case, and keep what held-out labels prefer."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.evaluation.debiased.compare import held_out_comparison
from dessl.evaluation.metrics import predicted_logits
from dessl.functional import cross_entropy
from dessl.recipes.architecture import Architecture
from dessl.recipes.baseline import RESTARTS, Baseline, References, restarted
from dessl.recipes.fitted import Fitted, largest_lam, pool_comparison
from dessl.recipes.held_out import (
    LEAST_LABELS,
    METHOD,
    HeldOutCheck,
    HeldOutParts,
    held_out_check,
    held_out_lambda,
    held_out_parts,
    held_out_propensity,
    losses_and_h,
    weighted_lambda,
)
from dessl.recipes.networks import Networks, Training, with_teachers
from dessl.recipes.predictor import PooledPredictor, Predictor
from dessl.recipes.rare_classes import doubt_towards_shares
from dessl.recipes.recipe import Recipe
from dessl.recipes.scaling import reduced_data, standardised_data
from dessl.recipes.symmetries import probed, with_symmetries
from dessl.risk import COMPLETE_CASE
from dessl.teachers.crossfit import first_of_groups
from dessl.teachers.neighbours import EXACT_UP_TO
from dessl.theory import LambdaEstimate
from dessl.training import Event, TrainResult
from dessl.training.identity import data_identity
from dessl.training.ranks import check_same_on_ranks, from_first, rank, ranks
from dessl.training.threads import one_thread

LAM_TO_TRY = 0.5  # used if held-out labels give no slope of L on H


def fit(
    data: SemiData,
    recipe: Recipe,
    *,
    groups: Tensor | None = None,
    callbacks: Sequence[Callable[[Event], None]] = (),
    out: str | Path | None = None,
    progress: bool = True,
) -> Fitted:
    """Train a recipe and its complete-case twin on the same labels, folds, seeds and draws.

    Under ``torchrun`` the networks are spread over the ranks, rank 0 fits the teachers, and every
    rank gets the same result.

    By default the model is a pool of the twin's networks and teachers (:mod:`dessl.teachers`), some
    of which use the unlabelled rows, with weights from held-out labels. With a surrogate or a λ of
    your own and no ``teachers``, the model is trained on the debiased risk.

    Each network holds out a different fifth of the labels, which select its step. With fewer
    than ten labels, or fewer than five that share their class with another, one network is trained
    on all of them and no step is selected. A validation part of the data replaces the folds. If λ
    is ``"auto"``, the twin's held-out L and H give the λ to try; the result is kept if it lowers
    the held-out cross-entropy by more than one standard error, otherwise the twin is kept, or
    ``recipe.otherwise`` is fitted. A twin that failed to train is restarted
    (:mod:`dessl.recipes.baseline`). Images are also flipped and turned if held-out labels find this
    safe (:mod:`dessl.recipes.symmetries`). Test rows are never used.

    Args:
        data: The data with its labels, not yet scaled: the recipe's scaling is applied here.
        recipe: A recipe from :func:`recipe_for` for this data.
        groups: Group numbers (n_labelled,). Rows of one group, such as copies of one row, are held
            out together and count as one held-out label.
        callbacks: Same as in :func:`dessl.train`, called for each network.
        out: Folder for resumable runs, one subfolder for each network and restart.
        progress: Whether to show progress on a terminal: a bar for each network, or
            one for all within :func:`dessl.training.progress.whole_bar`.

    >>> from dessl.recipes import recipe_for
    >>> x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    >>> data = SemiData(x, torch.where(torch.arange(80) < 20, (x[:, 0] > 0).long(), -1))
    >>> fitted = fit(data, recipe_for(data, lam=0.5, steps=20))
    >>> fitted.model(x).exp().sum(1).allclose(torch.ones(80)), fitted.lam
    (True, 0.5)
    """
    if ranks() > 1:
        check_same_on_ranks(data_identity(data), "the data")
    if recipe.reduced_to is not None:
        data = reduced_data(data, recipe.reduced_to)
    seen = data
    if not data.is_image:  # floats are standardised once, here; uint8 images by their views
        alone = data.propensity is None and not recipe.trains_unlabelled
        seen = standardised_data(data.labelled_alone() if alone else data, recipe.scaling)
    _check_logits(seen, recipe)
    symmetries = None
    if recipe.symmetries is None:
        place = None if out is None else Path(out)
        symmetries = from_first(partial(probed, data, recipe.plan.seed, place, groups=groups))
        recipe = with_symmetries(recipe, symmetries.safe)
    parts = held_out_parts(seen, groups, members=recipe.networks, seed=recipe.plan.seed)
    training = Training(recipe, parts.data, tuple(callbacks), out, progress and rank() == 0)
    table = data.x.ndim == 2
    with one_thread(when=table):
        training, complete, baseline = _complete_case(training, data, parts)
        fitted, networks = _networks(training, complete, parts)
    rows = len(data) + data.n_stored
    fitted = dataclasses.replace(fitted, baseline=baseline, symmetries=symmetries, rows=rows)
    if recipe.otherwise is not None and not fitted.lam:
        other = recipe.otherwise
        if other.symmetries is None and recipe.symmetries is not None:  # found by the probe
            other = with_symmetries(other, recipe.symmetries)
        place = None if out is None else Path(out) / "otherwise"
        found = fit(data, other, groups=groups, callbacks=callbacks, out=place, progress=progress)
        return dataclasses.replace(found, symmetries=symmetries, tried=fitted)
    if not networks.logits:
        return fitted
    parts = parts._replace(data=())
    del seen, training  # the networks' copy of the rows, which may be large
    predictor = _predictor(networks.results, recipe, parts)
    with one_thread(when=table and len(data) <= EXACT_UP_TO):
        pool = with_teachers(predictor, networks.logits, data, parts, recipe)
    if not isinstance(pool, PooledPredictor) or (report := pool.pool.report) is None:
        return fitted
    if recipe.safe and pool_comparison(report).outcome(margin=0) == "worse":
        return dataclasses.replace(fitted, refused=report)
    return dataclasses.replace(fitted, model=pool)


def _complete_case(
    training: Training, data: SemiData, parts: HeldOutParts
) -> tuple[Training, Networks, Baseline | None]:
    """Train the complete case and restart it if it failed; later models train the same way."""
    references, first = from_first(partial(References.of, data, parts)), training
    complete = training.members(COMPLETE_CASE, 0.0)
    if references is None:
        return training, complete, None
    logits = _held_out_logits(complete.results, parts, training.recipe)
    found = from_first(partial(references.baseline, logits))
    table = data.x.ndim == 2  # of images, a regression on pixels may miss what networks find
    for number in range(1, RESTARTS + 1):
        if found.trained or (table and not found.learnable):
            break
        place = None if first.out is None else Path(first.out) / f"restart-{number}"
        recipe = restarted(first.recipe, number)
        training = dataclasses.replace(first, recipe=recipe, out=place)
        complete = training.members(COMPLETE_CASE, 0.0)
        logits = _held_out_logits(complete.results, parts, training.recipe)
        found = from_first(partial(references.baseline, logits, found.failures))
    return training, complete, found


def _networks(training: Training, twins: Networks, parts: HeldOutParts) -> tuple[Fitted, Networks]:
    """Train on the recipe's risk, compare with the complete case, and keep the better one."""
    recipe, complete = training.recipe, twins.results
    twin = _predictor(complete, recipe, parts, shrunk=True)
    kept = Fitted(twin, twin, 0.0, None, None, complete, complete, recipe)
    if not recipe.trains_unlabelled:
        return kept, twins
    held_out = parts.data[0].validation is not None
    lam = recipe.plan.lam
    if recipe.lam == "auto":
        if not held_out:
            return kept, twins  # no labels to choose λ with: the complete case is the safe choice
        if not recipe.strong:  # the slope over labelled rows ignores what strong views add
            estimate = _estimated(complete, parts, recipe)
            lam = (estimate.lam if estimate else 0.0) or min(LAM_TO_TRY, largest_lam(recipe))
            kept = dataclasses.replace(kept, estimate=estimate)
        if lam == 0:
            return kept, twins
    ours = training.members(recipe.plan.risk, lam)
    check = None
    if held_out:
        check = from_first(partial(_check, complete, ours.results, parts, recipe))
    kept = dataclasses.replace(kept, check=check)
    if recipe.lam == "auto" and not (check and check.helped):
        return kept, twins
    if recipe.safe and check and check.comparison.outcome(margin=0) == "worse":
        return kept, twins
    model = _predictor(ours.results, recipe, parts, shrunk=True)
    return dataclasses.replace(kept, model=model, lam=lam, results=ours.results), ours


def _estimated(
    complete: Sequence[TrainResult], parts: HeldOutParts, recipe: Recipe
) -> LambdaEstimate | None:
    """The λ estimated from the complete case's held-out L and H."""
    loss, h = losses_and_h([r.model for r in complete], recipe.surrogate, parts.data)
    propensity = held_out_propensity(parts.data)
    return from_first(
        partial(held_out_lambda, loss, h, parts.data[0], largest_lam(recipe), parts.groups)
        if propensity is None
        else partial(weighted_lambda, loss, h, propensity, largest_lam(recipe))
    )


def _check_logits(data: SemiData, recipe: Recipe) -> None:
    """Refuse a user's network that does not map these rows to these classes."""
    if isinstance(recipe.model, Architecture):
        return
    rows = recipe.transform(data.x[:2])
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # this network is discarded
        network = recipe.model()
        try:
            logits = (
                network.to(data.device).eval()(rows) if isinstance(network, nn.Module) else None
            )
        except RuntimeError as error:
            first = str(error).partition("\n")[0].rstrip(".")
            raise ValueError(
                f"the network must accept {rows.dtype} rows of shape {tuple(rows.shape[1:])}; "
                f"given {len(rows)} of them, it failed: {first}. Change its first layer, or "
                "convert its weights with .float()."
            ) from error
    if logits is not None and logits.shape != (len(rows), data.n_classes):
        raise ValueError(
            f"the network must return one logit for each of the {data.n_classes} classes, shape "
            f"(n, {data.n_classes}); got {tuple(logits.shape)} for {len(rows)} rows. Change its "
            "last layer."
        )


def _predictor(
    results: Sequence[TrainResult], recipe: Recipe, parts: HeldOutParts, *, shrunk: bool = False
) -> Predictor:
    """The networks as one predictor; last-step weights get doubt from few held-out labels.

    ``shrunk`` is for networks on their own: a pool decides itself how far to trust them.
    """
    n = len(torch.unique(parts.groups)) if recipe.strong else 0
    doubt: float | Tensor = 1 / (n + 2) if n else 0.0
    if shrunk and not recipe.strong and parts.data[0].validation is not None:
        logits, y = _held_out_logits(results, parts, recipe), _held_out_labels(parts)
        chances = held_out_propensity(parts.data)
        doubt = from_first(partial(doubt_towards_shares, logits, y, chances))
    members = [result.model for result in results]
    return Predictor(members, *recipe.scaling, doubt, recipe.reduced_to)


def _check(
    complete: Sequence[TrainResult],
    ours: Sequence[TrainResult],
    parts: HeldOutParts,
    recipe: Recipe,
) -> HeldOutCheck:
    y = _held_out_labels(parts)
    logits = [_held_out_logits(results, parts, recipe) for results in (complete, ours)]
    propensity = held_out_propensity(parts.data)
    first, second = (cross_entropy(one, y) for one in logits)
    check = held_out_check(first, second, parts.groups, propensity=propensity)
    rows = first_of_groups(parts.groups.to(y.device))
    if len(rows) < LEAST_LABELS:
        return check
    before, after = (one[rows].softmax(-1) for one in logits)
    chances = None if propensity is None else propensity[rows]
    compared = held_out_comparison(
        METHOD, after, before, y[rows], splits=len(parts.data), propensity=chances
    )
    return dataclasses.replace(check, compared=compared)


def _held_out_labels(parts: HeldOutParts) -> Tensor:
    return torch.cat([part.validation.y for part in parts.data if part.validation is not None])


def _held_out_logits(results: Sequence[TrainResult], parts: HeldOutParts, recipe: Recipe) -> Tensor:
    """Logits (n, classes) of the held-out rows in the order of parts, each by its own network."""
    return torch.cat(
        [
            predicted_logits(result.model, part.validation.x, transform=recipe.transform).float()
            for result, part in zip(results, parts.data, strict=True)
            if part.validation is not None
        ]
    )
