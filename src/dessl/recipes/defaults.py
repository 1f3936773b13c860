"""recipe_for: a default model, surrogate and plan for a data set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.augment import Strong, Symmetries, Weak
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
from dessl.recipes.scaling import Scaling, scaling_of, scaling_shown_by
from dessl.risk import COMPLETE_CASE, RISKS, risk_named
from dessl.surrogates import FromFunction, Surrogate, View, as_surrogate, named_surrogate
from dessl.teachers import DEFAULT
from dessl.teachers.families import check_teachers
from dessl.teachers.rows import LARGEST_SIDE, columns_of
from dessl.training import TrainPlan

Lam = float | Literal["auto"]
Teachers = Sequence[object] | Literal["auto"] | None

NETWORKS = 5  # networks, each with a fifth of the labels held out, if training is cheap
STEPS = 200  # with 100 labels or fewer
EVALUATIONS = 20
PATIENCE = 4  # evaluations without improvement
IMPATIENT_AFTER = 0.25  # share of the steps before stopping early
DEFAULT_SURROGATE = "pseudo_label"

# Images on a GPU: debiased SoftMatch, about a minute on an H200 for 32 × 32 pixels.
STRONG_SURROGATE, STRONG_LAM = "softmatch", 0.5  # largest λ with a debiased risk bounded below
STRONG_STEPS, STRONG_ROWS = 8_000, 448  # unlabelled rows per step, for 32 × 32 pixels
STRONG_WIDTH, STRONG_SIDE = 64, 32
STRONG_MOMENTUM = 0.99  # of SoftMatch's running means: 8,000 steps are few for the published 0.999
LEAST_STRONG_SIDE = 8

# Limits for teachers by default: above them, teachers cost more than the networks.
MOST_COLUMNS = 4096
MOST_LABELS = 10_000


@dataclass(frozen=True)
class Recipe:
    """All that :func:`dessl.recipes.fit` needs besides the data.

    Attributes:
        model: Builds one network from standardised rows to logits.
        surrogate: The unlabelled term H; its views standardise images.
        plan: Training plan of each network. Its λ is the one tried if ``lam`` is ``"auto"``.
        scaling: Mean and deviation used to standardise the inputs of ``model``.
        lam: λ as a number, or ``"auto"``: estimated on held-out labels, 0 if it does not help.
        networks: Number of networks, each with a different fifth of the labels held out; one if
            :func:`fit` holds none out.
        teachers: Teachers to pool with the networks, see :func:`dessl.teachers.pooled`; () for no
            pool.
        strong: Whether this is the recipe for images on a GPU: λ is tried as given in the plan.
        safe: Whether to drop whatever held-out labels show to be worse than the complete case.
        reduced_to: Longest side of the images that networks and teachers see; None for all pixels.
        symmetries: Flips and turns of images that networks and patches of the pool see; None for
            those that a probe finds safe (:mod:`dessl.recipes.symmetries`).
        otherwise: What to fit instead if held-out labels do not show that the unlabelled term
            helps; None for the complete case.
        no_pool: Why there are no teachers although none were ruled out; "" otherwise.
    """

    model: Callable[[], nn.Module]
    surrogate: Surrogate
    plan: TrainPlan
    scaling: Scaling
    lam: Lam
    networks: int
    teachers: tuple[object, ...] = ()
    strong: bool = False
    safe: bool = True
    reduced_to: int | None = None
    symmetries: Symmetries | None = NO_SYMMETRIES
    otherwise: "Recipe | None" = None
    no_pool: str = ""

    @property
    def default_surrogate(self) -> str:
        """The name of its surrogate, if the user gave none."""
        return STRONG_SURROGATE if self.strong else DEFAULT_SURROGATE

    @property
    def trains_unlabelled(self) -> bool:
        """Whether to train networks with unlabelled rows, unless held-out labels are against it."""
        return RISKS[self.plan.risk].unlabelled and self.lam != 0

    @property
    def transform(self) -> Callable[[Tensor], Tensor]:
        """Applied to rows in evaluation: uint8 images are standardised, floats stay unchanged."""
        return lambda x: self.scaling.standardised(x) if x.dtype == torch.uint8 else x


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
            with the networks; ``"auto"`` for ``dessl.teachers.DEFAULT`` if nothing else is
            requested (up to 10,000 labels and 4,096 columns), None for no pool.
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
    if not customised and teachers == "auto" and _suits_strong(data):
        found = strong_recipe(data, steps=steps, seed=seed, model=model, networks=networks)
        return replace(found, safe=safe, otherwise=_otherwise(data, found, steps, seed, safe))
    pool = _teachers(data, teachers, customised=customised)
    if pool and not customised:
        if data.propensity is None:
            risk = COMPLETE_CASE
        else:  # the debiased risk at λ = 0 is the complete case with weighted labels
            lam = 0.0
    surrogate = DEFAULT_SURROGATE if surrogate is None else surrogate
    own_views = surrogate is not None and not isinstance(surrogate, str)
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
        no_pool=_no_pool(data) if teachers == "auto" and not customised else "",
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


def _suits_strong(data: SemiData) -> bool:
    """Whether images are on a GPU, have strong views, and some have no label to use them on.

    Strong views are not used with propensities.
    """
    shape = data.x.shape[1:]
    return (
        data.device.type == "cuda"
        and data.propensity is None
        and data.is_image
        and data.n_unlabelled > 0
        and shape[0] in (1, 3)
        and min(shape[1:]) >= LEAST_STRONG_SIDE
    )


def strong_recipe(
    data: SemiData,
    *,
    term: str = STRONG_SURROGATE,
    steps: int | None = None,
    seed: int = 0,
    model: str | Callable[[], nn.Module] | None = None,
    networks: int | None = None,
) -> Recipe:
    """Return debiased SoftMatch for images on a GPU; works on any device, but slowly.

    λ = ½ is the largest for which the risk is bounded below. No step is selected: the averaged
    weights of the last step are kept, so that held-out labels give an unbiased evaluation. Teachers
    use the features of the network's last layer, and are pooled with it.

    Args:
        data: uint8 images with one or three channels, with unlabelled rows.
        term: ``"softmatch"``, aligned to the class frequencies of the labels, or ``"fixmatch"``.
        steps: Training steps; 8,000 by default.
        seed: Same as in :func:`recipe_for`.
        model: Same as in :func:`recipe_for`; FastCifar of width 64 by default.
        networks: Same as in :func:`recipe_for`; one by default.
    """
    length = STRONG_STEPS if steps is None else steps
    area = data.x.shape[2] * data.x.shape[3] / STRONG_SIDE**2
    rows = max(64, round(STRONG_ROWS / max(1.0, area)))  # fewer larger images fit
    rows = min(rows, data.n_unlabelled)
    cuda, pooled = data.device.type == "cuda", model is None and networks in (None, 1)
    no_pool = _no_pool(data) if pooled else ""
    scaling = scaling_of(data.x)
    options = {"n_classes": data.n_classes, "in_channels": data.x.shape[1], "width": STRONG_WIDTH}
    own = Architecture("fast_cifar", options)
    return Recipe(
        model=own if model is None else architecture_for(data, model, tuple(data.x.shape[1:])),
        surrogate=named_surrogate(
            term,
            views=_views(scaling),
            seed=seed,
            targets="apart",
            **(_aligned(data) if term == "softmatch" else {}),
        ),
        plan=TrainPlan(
            steps=length,
            labelled_batch=64,
            unlabelled_batch=rows,
            include_labelled=True,
            optimiser="muon",
            learning_rate=5e-3,
            weight_decay=0.2,
            schedule={
                "name": "warm_up",
                "warm_up": min(500, max(1, length // 16)),
                "then": "cosine",
            },
            ema=0.999 if length >= STRONG_STEPS // 4 else 0.9,
            precision="bf16" if cuda and torch.cuda.is_bf16_supported() else "float32",
            lam=STRONG_LAM,
            risk="debiased",
            evaluate_every=max(1, length // EVALUATIONS),
            seed=seed,
        ),
        scaling=scaling,
        lam="auto",
        networks=networks or 1,
        # With several networks, features depend on labels that another network is evaluated on.
        teachers=DEFAULT if pooled and not no_pool else (),
        strong=True,
        symmetries=None,
        no_pool=no_pool,
    )


def _aligned(data: SemiData) -> dict[str, Any]:
    """Settings of SoftMatch: class frequencies of the labels, plus one label for each class."""
    counts = torch.bincount(data.y[data.labelled_rows].cpu(), minlength=data.n_classes) + 1.0
    return {"prior": (counts / counts.sum()).tolist(), "momentum": STRONG_MOMENTUM}


def _teachers(data: SemiData, teachers: Teachers, *, customised: bool) -> tuple[object, ...]:
    """The teachers to pool; the default ones unless the user chose another use of the rows."""
    if teachers is None:
        return ()
    if isinstance(teachers, str):
        if teachers != "auto":
            raise ValueError(
                "teachers must be 'auto', None or a list such as ['graph', 'linear']; got "
                f"{teachers!r}. Put a single one in a list: teachers=[{teachers!r}]."
            )
        return () if customised or _no_pool(data) else DEFAULT
    check_teachers(teachers, propensity=data.propensity is not None)
    return tuple(teachers)


def _no_pool(data: SemiData) -> str:
    """Why teachers are not trained by default, and what to do; "" if they are."""
    shape, reduce = tuple(data.x.shape[1:]), ""
    if data.x.ndim not in (2, 4):
        why = f"its teachers read columns or images, and these rows have shape {shape}"
        return f"No pool was made, because {why}. Flatten the rows to make one."
    if columns_of(shape) > MOST_COLUMNS:
        why = f"the rows have {columns_of(shape):,} columns, more than {MOST_COLUMNS:,}"
        reduce = ", or reduce the columns first, for example with PCA"
    elif data.n_labelled > MOST_LABELS:
        why = f"there are {data.n_labelled:,} labels, more than {MOST_LABELS:,}"
    else:
        return ""
    return (
        f"No pool was made, because {why}, and its teachers may take long to train. Pass --pool "
        f"(teachers=dessl.teachers.DEFAULT in Python) to make one anyway{reduce}."
    )


def _surrogate(
    surrogate: str | Surrogate | Callable[..., Tensor],
    scaling: Scaling,
    *,
    images: bool,
    seed: int,
) -> Surrogate:
    if isinstance(surrogate, Surrogate):
        return surrogate
    views = _views(scaling) if images else {}
    if isinstance(surrogate, str):
        return named_surrogate(surrogate, views=views, seed=seed)
    plain = as_surrogate(surrogate)
    return FromFunction(surrogate, view=views["view"], seed=seed) if views else plain


def _views(scaling: Scaling) -> dict[str, View]:
    mean, std = scaling.mean.flatten().tolist(), scaling.std.flatten().tolist()
    weak = Weak(flip=False, mean=mean, std=std)
    return {"view": weak, "weak": weak, "strong": Strong(flip=False, mean=mean, std=std)}


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
