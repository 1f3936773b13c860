"""recipe_for: a default model, surrogate and plan for a data set."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn

from dessl import _checks
from dessl.augment.symmetries import NO_SYMMETRIES
from dessl.data import SemiData
from dessl.objective import RiskKind
from dessl.recipes.architecture import (
    SMALL_WIDTH,
    Architecture,
    architecture_for,
    is_cheap,
    seen_shape,
)
from dessl.recipes.recipe import DEFAULT_SURROGATE, EVALUATIONS, Lam, Recipe
from dessl.recipes.scaling import Scaling, scaling_of, scaling_shown_by, standardising_views
from dessl.recipes.strong import strong_recipe, suits_strong
from dessl.recipes.which_teachers import Teachers, which_teachers, why_no_pool
from dessl.risk import COMPLETE_CASE, risk_named
from dessl.surrogates import FromFunction, Surrogate, as_surrogate, named_surrogate
from dessl.teachers import DEFAULT
from dessl.teachers.rows import LARGEST_SIDE
from dessl.training import TrainPlan

NETWORKS = 5  # networks, each with a fifth of the labels held out, if training is cheap
STEPS = 200  # with 100 labels or fewer
PATIENCE = 4  # evaluations without improvement
IMPATIENT_AFTER = 0.25  # share of the steps before stopping early


def recipe_for(
    data: SemiData,
    *,
    surrogate: str | Surrogate | Callable[..., Tensor] | None = None,
    risk: RiskKind = "debiased",
    lam: Lam = "auto",
    teachers: Teachers = "auto",
    steps: int | None = None,
    seed: int = 0,
    model: str | Callable[[], nn.Module] | None = None,
    networks: int | None = None,
    copies: int = 1,
    safe: bool = True,
) -> Recipe:
    """Return defaults for a data set, sized for two CPU cores and few labels.

    ============ ============================================ ==============================
    data         network                                      augmentation
    ============ ============================================ ==============================
    table        MLP, 512 hidden, dropout 0.3; five of them;  none
                 above 4,096 columns fewer hidden units
    grey ≤ 32    LeNet; five of them, trained longer          shifts up to 12.5 %
    other images FastCifar, width 16 (64 on CUDA); up to 16   shifts up to 12.5 %
                 pixels a side five of them, trained longer;
                 on a CPU larger ones are reduced to 32
    on a GPU     FastCifar, width 64, 8,000 steps of          weak and strong views
                 SoftMatch
    ============ ============================================ ==============================

    Unlabelled rows are used in one of two ways. By default, for tables, embeddings and images, the
    networks are trained on the labelled rows and pooled with teachers, of which the graph and the
    Gaussians use all rows. Teachers see patches of images reduced to 32 pixels a side; networks on
    a CPU see images reduced likewise, unless you pass a ``model`` or your own surrogate. For images
    on a GPU (``data.to("cuda")``), the gains come from strong views, which are affordable there:
    one network is trained with debiased SoftMatch, compared with its complete case, and pooled with
    teachers on the features of its last layer. If it does not help, images of up to 32 pixels get
    the same small networks and teachers as on a CPU. With a ``surrogate``, a number for ``lam`` or
    ``teachers=None``, the networks are trained on the debiased risk, and there is no pool unless
    you pass ``teachers`` as well: then those networks are pooled.

    Images are also flipped and turned if a short probe on held-out labels finds this safe
    (:mod:`dessl.recipes.symmetries`), since it changes the class of digits, writing and some
    organs; not if you pass a surrogate with your own views.

    Args:
        data: The data with the labels to use; :func:`fit` holds some of them out. If it has
            propensities π, networks and teachers weight labels by 1/π.
        surrogate: A name in ``dessl.SURROGATES``, a surrogate, or a function as accepted by
            :func:`dessl.as_surrogate`; ``"pseudo_label"`` if one is needed and none is given. Your
            own surrogate shows uint8 images through its own views, ``dessl.augment.Weak`` or
            levels / 255, and the network predicts from the same.
        risk: A key of ``dessl.risk.RISKS`` that needs no propensities.
        lam: λ; ``"auto"`` tries the λ of least variance and falls back to the complete case.
        teachers: Names in ``dessl.teachers.KINDS``, teachers and scikit-learn classifiers to pool
            with the networks; ``"auto"`` for :func:`dessl.teachers.default_teachers` if nothing
            else is requested (up to 10,000 labels and 4,096 columns), None for no pool.
        steps: Optimiser steps of each network.
        seed: Seed of weights, batches, dropout and held-out labels.
        model: A name in ``dessl.MODELS``, or a function that builds a network from standardised
            rows to logits.
        networks: Number of networks; only one is trained if :func:`fit` holds no labels out.
        copies: If rows are repeated by weight, the average count: steps and batches are sized
            for the distinct rows.
        safe: Never be knowingly worse than the complete case: networks trained with your λ are
            dropped if the 95 % interval of the held-out cross-entropy shows them to be worse, and a
            pool if the 99.9 % interval does.

    >>> import torch
    >>> data = SemiData(torch.rand(200, 4), torch.arange(200) % 2)
    >>> recipe = recipe_for(data, lam=0.5)
    >>> recipe.plan.steps, recipe.networks, type(recipe.model()).__name__
    (246, 5, 'MLP')
    >>> recipe.teachers, recipe_for(data).teachers
    ((), ('graph', 'linear', 'trees', 'kernel', 'gaussians'))
    """
    risk_named(risk, propensity=False)  # folds change the labelling probability
    if isinstance(lam, str):
        if lam != "auto":
            raise ValueError(f"lam must be a number or 'auto'; got {lam!r}.")
    else:
        lam = _checks.number("lam", lam, low=0, open_high=True)
    if steps is not None:
        steps = _checks.whole_number("steps", steps, low=1)
    _checks.whole_number("copies", copies, low=1)
    _checks.true_or_false("safe", safe)
    if networks is not None:
        _checks.whole_number("networks", networks, low=1, high=NETWORKS)
    customised = surrogate is not None or lam != "auto" or risk != "debiased"
    if not customised and teachers == "auto" and suits_strong(data):
        found = strong_recipe(data, steps=steps, seed=seed, model=model, networks=networks)
        return replace(found, safe=safe, otherwise=_otherwise(data, found, steps, seed, safe))
    pool = which_teachers(data, teachers, customised=customised)
    if pool and not customised:
        if data.propensity is None:
            risk = COMPLETE_CASE
        else:  # the debiased risk at λ = 0 is the complete case with weighted labels
            lam = 0.0
    surrogate = DEFAULT_SURROGATE if surrogate is None else surrogate
    own_views = not isinstance(surrogate, str)
    shape = seen_shape(data, whole=model is not None or own_views)
    reduced_to = None if shape == tuple(data.x.shape[1:]) else LARGEST_SIDE
    scaling = scaling_of(data.x, reduced_to)
    term = _surrogate(surrogate, scaling, images=data.is_image, seed=seed)
    if data.is_image and term is surrogate:
        scaling = Scaling(*(part.to(data.device) for part in scaling_shown_by(term)))
    cheap = is_cheap(shape)
    return Recipe(
        model=architecture_for(data, model, shape),
        surrogate=term,
        plan=_plan(data, risk, 1.0 if lam == "auto" else lam, steps, seed, copies, cheap=cheap),
        scaling=scaling,
        lam=lam,
        networks=networks or (NETWORKS if data.x.ndim == 2 or cheap else 1),
        teachers=pool,
        safe=safe,
        reduced_to=reduced_to,
        symmetries=None if data.is_image and term is not surrogate else NO_SYMMETRIES,
        no_pool=why_no_pool(data) if teachers == "auto" and not customised else "",
    )


def _otherwise(
    data: SemiData, strong: Recipe, steps: int | None, seed: int, safe: bool
) -> Recipe | None:
    """The default on a CPU; None if it reduces the images, or the user chose networks."""
    if not strong.teachers or max(data.x.shape[2:]) > LARGEST_SIDE:
        return None
    found = recipe_for(
        data, teachers=DEFAULT, risk=COMPLETE_CASE, steps=steps, seed=seed, safe=safe
    )
    model = found.model
    if isinstance(model, Architecture) and "width" in model.options:
        model = replace(model, options={**model.options, "width": SMALL_WIDTH})
    # A few hundred steps take less time than compiling.
    return replace(found, model=model, plan=replace(found.plan, compile="off"))


def _surrogate(
    surrogate: str | Surrogate | Callable[..., Tensor],
    scaling: Scaling,
    *,
    images: bool,
    seed: int,
) -> Surrogate:
    if isinstance(surrogate, Surrogate):
        return surrogate
    views = standardising_views(scaling) if images else {}
    if isinstance(surrogate, str):
        return named_surrogate(surrogate, views=views, seed=seed)
    plain = as_surrogate(surrogate)
    return FromFunction(surrogate, view=views["view"], seed=seed) if views else plain


def _plan(
    data: SemiData,
    risk: RiskKind,
    lam: float,
    steps: int | None,
    seed: int,
    copies: int,
    *,
    cheap: bool,
) -> TrainPlan:
    n = data.n_labelled // copies
    longer = 3 if cheap else 1  # convolutions on shifted images learn more slowly
    length = round(longer * STEPS * max(1.0, n / 100) ** 0.3) if steps is None else steps
    return TrainPlan(
        steps=length,
        labelled_batch=min(64, max(1, n // 2)),
        unlabelled_batch=min(192, max(1, data.n_unlabelled // copies)),
        optimiser="adamw",
        learning_rate=3e-3,
        schedule="cosine",
        weight_decay=0.5 if data.x.ndim == 2 else 0.01,
        lam=lam,
        ramp="linear_ramp",
        risk=risk if data.n_unlabelled else COMPLETE_CASE,
        evaluate_every=max(1, length // EVALUATIONS),
        select="cross_entropy",
        patience=PATIENCE * (2 if cheap else 1),
        patience_after=int(IMPATIENT_AFTER * length),
        # Compiling takes longer than training on a table.
        compile="off" if data.x.ndim == 2 else "auto",
        seed=seed,
    )
