"""Weights to start from, learnt from images without labels as in SimCLR (Chen et al., 2020).

A network learns to tell each image, seen in two crops, from all others of its batch:

    H(x) = -log(exp(z·z' / τ) / Σ exp(z·v / τ)),   v: the other views in the batch,

averaged over its two views z and z', which are vectors of length 1 from two layers in the place of
the network's last one. The weights before these layers are what a training with labels starts from.
Labels have no influence: the term is trained alone, L has no gradient.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dessl import Rows, Scores, Surrogate
from dessl.augment.images import checked_normalisation, normalised
from dessl.data import SemiData
from dessl.surrogates.views import joint_logits
from dessl.training import TrainPlan, train
from dessl.training.plan import Precision

# Set in advance: a search would need labels that a run with few does not have. The temperature is
# the published one for CIFAR-10; the rate and decay are those of the training with labels.
BATCH, VECTOR, TEMPERATURE = 512, 128, 0.5
LEARNING_RATE, DECAY = 5e-3, 0.2
SMALLEST, RATIO, COLOUR, GREY = 0.2, 4 / 3, 0.4, 0.2  # of the crops
LABELLED = 8  # rows of each batch besides; their labels are not used
LUMA = (0.299, 0.587, 0.114)
DRAWS = 10  # random numbers for each crop
Normalise = Callable[[Tensor], Tensor]


class Contrastive(Surrogate):
    """How hard it is to find an image's other crop in the batch. L is constant."""

    def __init__(self, normalise: Normalise, n_classes: int, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.normalise = normalise
        self.n_classes = n_classes

    def forward(self, model: Callable[[Tensor], Tensor], rows: Rows) -> Scores:
        """Return H (n,), and logits (1, n, classes) that are all 0."""
        generator = self.generator(rows.x.device)
        views = [self.normalise(crops(rows.x, generator)) for _ in range(2)]
        vectors = joint_logits(model, views).float()
        return Scores(found_again(vectors), 0 * vectors[:1, :, : self.n_classes])


def found_again(vectors: Tensor) -> Tensor:
    """H (n,) of two views' vectors (2, n, size).

    >>> found_again(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]))  # one image: no others
    tensor([0.])
    """
    unit = F.normalize(vectors, dim=-1)
    first, second = unit
    every = unit.flatten(0, 1)
    itself = torch.eye(len(every), dtype=torch.bool, device=every.device)
    among = (every @ every.T / TEMPERATURE).masked_fill(itself, -math.inf).logsumexp(1)
    found: Tensor = (first * second).sum(-1) / TEMPERATURE
    return among.view(2, -1).mean(0) - found


def crops(images: Tensor, generator: torch.Generator) -> Tensor:
    """One view of uint8 images: a crop in their size, flipped or not, in other colours, uint8."""
    n = len(images)
    # In one call: the compiler starts a new graph after each draw from a generator.
    drawn = torch.rand(DRAWS, n, generator=generator, device=images.device)
    area, ratio, across, down, mirror, jittered, without_colour = drawn[:7]
    area = SMALLEST + (1 - SMALLEST) * area
    ratio = RATIO ** (2 * ratio - 1)
    width, height = ((area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1))
    left, top = (2 * across - 1) * (1 - width), (2 * down - 1) * (1 - height)
    width = torch.where(mirror < 0.5, -width, width)
    zero = torch.zeros_like(width)
    maps = torch.stack([width, zero, left, zero, height, top], 1).view(n, 2, 3)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    seen: Tensor = F.grid_sample(
        images.float(), grid, padding_mode="reflection", align_corners=False
    )
    factors = torch.where(jittered < 0.8, 1 + COLOUR * (2 * drawn[7:] - 1), 1.0)
    light, contrast, colour = factors.view(3, n, 1, 1, 1)
    seen = seen * light
    middle = seen.mean((1, 2, 3), keepdim=True)
    seen = middle + contrast * (seen - middle)
    if images.shape[1] == len(LUMA):
        # No tensor of constants: it would need a copy from the host in every step.
        grey = torch.stack([share * seen[:, k] for k, share in enumerate(LUMA)]).sum(0)[:, None]
        colour = torch.where((without_colour < GREY).view(n, 1, 1, 1), 0.0, colour)
        seen = grey + colour * (seen - grey)
    return seen.clamp(0, 255).round().to(torch.uint8)


def started(
    build: Callable[[], nn.Module],
    data: SemiData,
    steps: int,
    *,
    mean: Sequence[float],
    std: Sequence[float],
    precision: Precision = "bf16",
    batch: int = BATCH,
    seed: int = 0,
) -> Callable[[], nn.Module]:
    """A function that builds a network with weights learnt from the data's images alone.

    Args:
        build: Builds the network; its last layer is ``head``.
        data: Rows; the labels are not used.
        steps: Steps of learning.
        mean: Mean of each channel, of levels in [0, 1].
        std: Standard deviation of each channel.
        precision: As of a plan.
        batch: Images per step, each seen twice.
        seed: Seed of the weights, the batches and the crops.
    """
    few = torch.arange(len(data)) < LABELLED
    levels = checked_normalisation(mean, std, torch.float32)

    def normalise(images: Tensor) -> Tensor:
        return normalised(images, *levels, torch.float32)

    def learner() -> nn.Module:
        network: Any = build()
        size = network.head.in_features
        network.head = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, VECTOR))
        return cast("nn.Module", network)

    plan = TrainPlan(
        steps=steps,
        labelled_batch=LABELLED,
        unlabelled_batch=batch,
        include_labelled=True,
        optimiser="muon",
        learning_rate=LEARNING_RATE,
        weight_decay=DECAY,
        schedule={"name": "warm_up", "warm_up": max(1, steps // 16), "then": "cosine"},
        risk="ssl",
        precision=precision,
        evaluate_every=steps,
        seed=seed,
    )
    term = Contrastive(normalise, data.n_classes, seed=seed)
    learnt = train(learner, term, data.with_labels(few), plan, transform=normalise, progress=False)
    body = {
        name: value.detach().cpu()
        for name, value in learnt.model.state_dict().items()
        if not name.startswith("head.")
    }

    def starts() -> nn.Module:
        network = build()
        network.load_state_dict(body, strict=False)  # the head's own weights stay
        return network

    return starts
