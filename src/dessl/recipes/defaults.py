"""recipe_for: a default model, surrogate and plan for a data set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.augment import Strong, Weak
from dessl.data import SemiData
from dessl.models import MODELS
from dessl.objective import RiskKind
from dessl.recipes.scaling import Scaling, scaling_of, scaling_shown_by
from dessl.risk import COMPLETE_CASE, RISKS, risk_named
from dessl.surrogates import FromFunction, Surrogate, View, as_surrogate, named_surrogate
from dessl.teachers import DEFAULT
from dessl.teachers.families import check_teachers
from dessl.training import TrainPlan

Lam = float | Literal["auto"]
Teachers = Sequence[object] | Literal["auto"] | None

NETWORKS = 5  # networks, each with a fifth of the labels held out, where training is cheap
LARGEST_TINY = 16  # side of images for which training is cheap, in any colours
LARGEST_LENET = 32  # side of grey images for which training is cheap
HIDDEN, LEAST_HIDDEN = 512, 16  # units of a table's network
MOST_WEIGHTS = 512 * 4096  # of its first layer: of more columns, it has fewer units
STEPS = 200  # with 100 labels or fewer
EVALUATIONS = 20
PATIENCE = 4  # evaluations without a better one
IMPATIENT_AFTER = 0.25  # of the steps, at the earliest
DEFAULT_SURROGATE = "pseudo_label"

# Images on a GPU: FixMatch, debiased, about a minute of an H200 for 32 × 32 pixels.
STRONG_SURROGATE, STRONG_LAM = "fixmatch", 0.5  # up to which its debiased risk is bounded below
STRONG_STEPS, STRONG_ROWS = 8_000, 448  # unlabelled rows in a step, of 32 × 32 pixels
STRONG_WIDTH, STRONG_SIDE = 64, 32
LEAST_STRONG_SIDE = 8

# Teachers by default: above these, they cost more than the networks.
LARGEST_POOLED = 32  # side of images
MOST_COLUMNS = 4096
MOST_LABELS = 10_000


@dataclass(frozen=True)
class Architecture:
    """A network of ``dessl.MODELS`` by name and options, as a saved model holds it."""

    name: str
    options: dict[str, Any]

    def __call__(self) -> nn.Module:
        """Build the network; its weights come from PyTorch's global generator."""
        return MODELS[self.name](**self.options)


@dataclass(frozen=True)
class Recipe:
    """Everything that :func:`dessl.recipes.fit` needs in addition to the data.

    Attributes:
        model: Builds one network from standardised rows to logits.
        surrogate: The unlabelled term H; its views standardise images.
        plan: How each network is trained. Its λ is the one to try where ``lam`` is ``"auto"``.
        scaling: Of the inputs, which are standardised with it for ``model``.
        lam: A number, or ``"auto"``: estimated on held-out labels, 0 if it does not help.
        networks: Networks to train, each with a different fifth of the labels held out; one if
            :func:`fit` holds none out.
        teachers: To pool with the networks, as in :func:`dessl.teachers.pooled`; () for no pool.
        strong: Whether it is the recipe of images on a GPU: λ is tried as it is in the plan, and
            mirror images are shown if a probe finds them safe (:mod:`dessl.recipes.mirrors`).
        safe: Whether what held-out labels show to be worse than the complete case is left out.
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

    @property
    def default_surrogate(self) -> str:
        """The name of its term, where the user named none."""
        return STRONG_SURROGATE if self.strong else DEFAULT_SURROGATE

    @property
    def trains_unlabelled(self) -> bool:
        """Whether networks are trained with unlabelled rows, unless held-out labels prefer none."""
        return RISKS[self.plan.risk].unlabelled and self.lam != 0

    @property
    def transform(self) -> Callable[[Tensor], Tensor]:
        """Applied to rows in evaluation: uint8 images are standardised, floats stay as they are."""
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
    grey ≤ 32    LeNet; five of them, trained longer          shifts up to 12.5 %, no flips
    other images FastCifar, width 16 (64 on CUDA); up to 16   shifts up to 12.5 %, no flips
                 pixels a side five of them, trained longer
    on a GPU     FastCifar, width 64, 8,000 steps of FixMatch weak and strong views; mirror images
                                                              if a probe finds them safe
    ============ ============================================ ==============================

    Unlabelled rows are used in one of two ways. By default, for tables, embeddings and images of up
    to 32 pixels a side, the networks learn from the labelled rows and are pooled with teachers, of
    which the graph uses all rows. Images on a GPU (``data.to("cuda")``) are different: strong views
    are where the gains are, and there they are affordable, so that one network learns by FixMatch,
    debiased, beside its complete case. With a ``surrogate``, a number for ``lam`` or
    ``teachers=None``, the networks are trained on the debiased risk, and there is no pool unless
    you pass ``teachers`` as well: then it is made around those networks.

    On a CPU there are no flips because they change the class of digits, writing and some organs;
    where they are safe, pass a surrogate with views of your own.

    Args:
        data: With the labels to use; :func:`fit` holds some of them out. If it has propensities,
            the debiased risk weighs labels by them, and there is no pool.
        surrogate: A name in ``dessl.SURROGATES``, a surrogate, or a function as
            :func:`dessl.as_surrogate` takes; ``"pseudo_label"`` if one is needed and none given. A
            surrogate of yours shows uint8 images by its own
            views, ``dessl.augment.Weak`` or levels / 255, and the network predicts from the same.
        risk: A key of ``dessl.risk.RISKS`` that needs no propensities.
        lam: λ; ``"auto"`` tries the λ of least variance and falls back to the complete case.
        teachers: Names in ``dessl.teachers.KINDS``, teachers and scikit-learn classifiers to pool
            with the networks; ``"auto"`` for ``dessl.teachers.DEFAULT`` where nothing else is
            asked for (up to 10,000 labels and 4,096 columns), None for no pool.
        steps: Optimiser steps of each network.
        seed: Of weights, streams, dropout and held-out labels.
        model: A name in ``dessl.MODELS``, or a function that builds a network from standardised
            rows to logits.
        networks: Networks to train; one alone where :func:`fit` holds no fifth of the labels out.
        copies: If rows are repeated by weight, how often on average: steps and batches are sized
            for the distinct rows.
        safe: Never knowingly worse than the complete case: networks of a λ of yours, and a pool,
            are left out if the held-out cross-entropy shows them to be worse (95 % interval).

    >>> data = SemiData(torch.rand(200, 4), torch.arange(200) % 2)
    >>> recipe = recipe_for(data, lam=0.5)
    >>> recipe.plan.steps, recipe.networks, type(recipe.model()).__name__
    (246, 5, 'MLP')
    >>> recipe.teachers, recipe_for(data).teachers
    ((), ('graph', 'linear', 'trees', 'kernel'))
    """
    risk_named(risk, propensity=False)  # folds change the probability of a label
    if lam != "auto":
        lam = _lam(lam)
    if steps is not None:
        steps = _checks.whole_number("steps", steps, low=1)
    _checks.whole_number("copies", copies, low=1)
    _checks.true_or_false("safe", safe)
    if networks is not None:
        _checks.whole_number("networks", networks, low=1, high=NETWORKS)
    asked = surrogate is not None or lam != "auto" or risk != "debiased"
    asked = asked or data.propensity is not None  # teachers learn from labels as they come
    if not asked and teachers == "auto" and data.device.type == "cuda" and _suits_strong(data):
        found = strong_recipe(data, steps=steps, seed=seed, model=model, networks=networks)
        return replace(found, safe=safe)
    pool = _teachers(data, teachers, asked=asked)
    if pool and not asked:
        risk = COMPLETE_CASE
    surrogate = DEFAULT_SURROGATE if surrogate is None else surrogate
    scaling = scaling_of(data.x)
    term = _surrogate(surrogate, scaling, images=data.is_image, seed=seed)
    if data.is_image and term is surrogate:
        scaling = Scaling(*(part.to(data.device) for part in scaling_shown_by(term)))
    return Recipe(
        model=_architecture(data, model),
        surrogate=term,
        plan=_plan(data, risk, 1.0 if lam == "auto" else lam, steps, seed, copies),
        scaling=scaling,
        lam=lam,
        networks=networks or (NETWORKS if data.x.ndim == 2 or _small_images(data) else 1),
        teachers=pool,
        safe=safe,
    )


def _suits_strong(data: SemiData) -> bool:
    """Whether strong views can be made of the rows, and there are rows to teach by them."""
    shape = data.x.shape[1:]
    return (
        data.is_image
        and data.n_unlabelled > 0
        and shape[0] in (1, 3)
        and min(shape[1:]) >= LEAST_STRONG_SIDE
    )


def strong_recipe(
    data: SemiData,
    *,
    steps: int | None = None,
    seed: int = 0,
    model: str | Callable[[], nn.Module] | None = None,
    networks: int | None = None,
) -> Recipe:
    """Return FixMatch, debiased, for images on a GPU; works, slowly, on any device.

    The λ of ½ is the largest for which the risk is bounded below. Nothing is selected: averaged
    weights of the last step are kept, so that held-out labels judge without optimism. Teachers look
    at what the network's last layer sees of a row, and are pooled with it.

    Args:
        data: uint8 images with one or three channels, with unlabelled rows.
        steps: Of the network; 8,000 if not given.
        seed: As in :func:`recipe_for`.
        model: Likewise; by default FastCifar of width 64.
        networks: Likewise; one if not given.
    """
    length = STRONG_STEPS if steps is None else steps
    area = data.x.shape[2] * data.x.shape[3] / STRONG_SIDE**2
    rows = max(64, round(STRONG_ROWS / max(1.0, area)))  # of larger images, fewer fit
    rows = min(rows, data.n_unlabelled)
    cuda, few = data.device.type == "cuda", data.n_labelled <= MOST_LABELS
    scaling = scaling_of(data.x)
    options = {"n_classes": data.n_classes, "in_channels": data.x.shape[1], "width": STRONG_WIDTH}
    return Recipe(
        model=Architecture("fast_cifar", options) if model is None else _architecture(data, model),
        surrogate=named_surrogate(
            STRONG_SURROGATE, views=_views(scaling), seed=seed, targets="apart"
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
        # Of several networks each has seen labels that another is judged by, and so have features.
        teachers=DEFAULT if model is None and networks in (None, 1) and few else (),
        strong=True,
    )


def _teachers(data: SemiData, teachers: Teachers, *, asked: bool) -> tuple[object, ...]:
    """The teachers to pool; by default where the user asked for no other use of the rows."""
    if teachers is None:
        return ()
    if isinstance(teachers, str):
        if teachers != "auto":
            raise ValueError(
                "teachers must be 'auto', None or a list such as ['graph', 'linear']; got "
                f"{teachers!r}. Put a single one in a list: teachers=[{teachers!r}]."
            )
        side = max(data.x.shape[2:]) if data.x.ndim == 4 else 0
        small = data.x.ndim in (2, 4) and side <= LARGEST_POOLED
        small = small and data.x[0].numel() <= MOST_COLUMNS and data.n_labelled <= MOST_LABELS
        return DEFAULT if small and not asked else ()
    check_teachers(teachers)
    return tuple(teachers)


def _lam(lam: object) -> float:
    if isinstance(lam, str):
        raise ValueError(f"lam must be a number or 'auto'; got {lam!r}.")
    return _checks.number("lam", lam, low=0, open_high=True)


def _architecture(
    data: SemiData, model: str | Callable[[], nn.Module] | None
) -> Callable[[], nn.Module]:
    if model is not None and not isinstance(model, str):
        if isinstance(model, nn.Module) or not callable(model):
            raise TypeError(
                "model must be a name or a function that builds a network, since several are "
                f"trained; got {type(model).__name__}. Pass lambda: copy.deepcopy(model)."
            )
        return model
    _checks.one_of("model", model, (None, *MODELS))
    name = model or _network_name(data)
    options: dict[str, Any] = {"n_classes": data.n_classes}
    if data.x.ndim == 4:
        options["in_channels"] = data.x.shape[1]
    if name == "mlp":
        columns = data.x.shape[1]
        width = min(HIDDEN, max(LEAST_HIDDEN, MOST_WEIGHTS // columns))
        options |= {"n_features": columns, "hidden": [width], "dropout": 0.3}
    elif name == "lenet":
        options["size"] = tuple(data.x.shape[2:])
    elif name == "fast_cifar":
        options["width"] = 64 if data.device.type == "cuda" else 16
    return Architecture(name, options)


def _network_name(data: SemiData) -> str:
    if data.x.ndim == 2:
        return "mlp"
    if data.x.ndim != 4 or min(data.x.shape[2:]) < 4:
        images = (
            " Grey images of 0 to 255 are converted with .astype('uint8'), and those of floats get "
            "a channel axis with x[:, None]."
        )
        raise ValueError(
            f"there are defaults for tables (n, features) and for images (n, channels, height, "
            f"width) with sides of at least 4; got rows of shape {tuple(data.x.shape[1:])}. "
            "Pass model= (in DeSSLClassifier module=), a function that builds your network."
            + (images if data.x.ndim == 3 else "")
        )
    small = max(data.x.shape[2:]) <= LARGEST_LENET and data.x.shape[1] == 1
    return "lenet" if small or min(data.x.shape[2:]) < 8 else "fast_cifar"


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
    data: SemiData, risk: RiskKind, lam: float, steps: int | None, seed: int, copies: int
) -> TrainPlan:
    n = data.n_labelled // copies
    longer = (
        3 if _small_images(data) else 1
    )  # convolutions on shifted images learn slower than columns
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
        patience=PATIENCE * (2 if _small_images(data) else 1),
        patience_after=int(IMPATIENT_AFTER * length),
        compile="off" if data.x.ndim == 2 else "auto",  # it takes longer than a table's steps
        seed=seed,
    )


def _small_images(data: SemiData) -> bool:
    """Whether a network for the images costs little."""
    if data.x.ndim != 4:
        return False
    return max(data.x.shape[2:]) <= (LARGEST_LENET if data.x.shape[1] == 1 else LARGEST_TINY)
