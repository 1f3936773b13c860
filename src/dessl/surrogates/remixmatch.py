"""ReMixMatch: H(x) = 1/(A+1) Σ_a −Σ_y q̃_a(y) log p(y|x̃_a) + c · −Σ_y q(y) log p(y|x₁)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.mixmatch import mostly_own
from dessl.surrogates.passes import side_pass
from dessl.surrogates.state import device_of, move_towards, prepared
from dessl.surrogates.targets import aligned, checked_prior, prior_of_classes, sharpened
from dessl.surrogates.views import checked_view, joint_logits, strong_view, weak_view


class ReMixMatch(Surrogate):
    """Aligned guesses from a weak view as targets of strong, mixed views (Berthelot et al., 2020).

    With a weak view x₀, A strong views x₁ … x_A, the classes' distribution π and the running mean
    p̃ of predictions,

        q ∝ (p(·|x₀) · π / p̃)^(1/T),
        H(x) = 1/(A+1) Σ_{a=0..A} −Σ_y q̃_a(y) log p(y|x̃_a)  +  c · −Σ_y q(y) log p(y|x₁),

    where x̃_a and q̃_a are mixed as in :class:`MixMatch`, partners are drawn blindly from all views
    of all rows, and no gradient flows through the guesses. State: p̃, initially uniform, updated
    after the step from all its rows: p̃ ← m p̃ + (1 − m) mean p(·|x₀). The original averages the
    last 128 batches.

    L is computed on x₀ and x₁, unmixed, ½ + ½. What a per-row, blind H cannot include: the rotation
    loss (a second head of the model), labelled rows mixed with their labels, and π estimated from
    labels: π is passed in, or uniform. λ corresponds to the original's 1.5, and c to its 0.5/1.5.

    The debiased risk is unbounded below for every λ > 0: on mixed rows, which L does not constrain,
    p(y|x̃) → 0 makes H → ∞. Bound it, or smooth H.

    Args:
        prior: π, one probability for each class; uniform if not given.
        augmentations: A, strong views. The original has 8; each needs another pass with gradients,
            so that 8 cost about 2.2 times as much as 2.
        temperature: T.
        alpha: α of the mixing weights.
        unmixed: c, weight of the unmixed strong view.
        momentum: m.
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        seed: Seed of the views', weights' and partners' draws.

    >>> remixmatch = ReMixMatch()
    >>> remixmatch.prepare(nn.Linear(2, 2), n_rows=2, n_classes=2)
    >>> rows = Rows(torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.arange(2))
    >>> scores = remixmatch(lambda x: x, rows)
    >>> scores.h.shape, scores.logits.shape
    (torch.Size([2]), torch.Size([2, 2, 2]))
    """

    bounded_up_to = 0.0
    adds_to_rows = True
    mean: Tensor | None
    class_prior: Tensor | None

    def __init__(
        self,
        prior: Sequence[float] | None = None,
        *,
        augmentations: int = 2,
        temperature: float = 0.5,
        alpha: float = 0.75,
        unmixed: float = 1 / 3,
        momentum: float = 1 - 1 / 128,
        weak: View = weak_view,
        strong: View = strong_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.weak = checked_view("weak", weak)
        self.strong = checked_view("strong", strong)
        self.prior = checked_prior(prior)
        self.augmentations = _checks.whole_number("augmentations", augmentations, low=1)
        self.temperature = _checks.number("temperature", temperature, low=0.0, open_low=True)
        self.alpha = _checks.number("alpha", alpha, low=0.0, open_low=True)
        self.unmixed = _checks.number("unmixed", unmixed, low=0.0)
        self.momentum = _checks.number("momentum", momentum, low=0.0, high=1.0)
        self.register_buffer("mean", None)
        self.register_buffer("class_prior", None)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:  # noqa: ARG002
        """Start with a uniform running mean."""
        device = device_of(model)
        self.class_prior = prior_of_classes(self.prior, n_classes, device)
        self.mean = prior_of_classes(None, n_classes, device)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H (n,) and the logits of the weak and the first strong view, (2, n, classes)."""
        generator = self.generator(rows.x.device)
        views = [self.weak(rows.x, generator)]
        views += [self.strong(rows.x, generator) for _ in range(self.augmentations)]
        logits = joint_logits(model, views[:2])
        log_weak, log_strong = log_probabilities(logits)
        guess = sharpened(self._aligned(log_weak), self.temperature)
        mixed = mostly_own(torch.cat(views), self.alpha, generator)
        target = mixed.mix(guess.repeat(len(views), 1))
        log_mixed = log_probabilities(side_pass(model)(mixed.x))
        h = -(target * log_mixed).sum(-1).view(len(views), -1).mean(0)
        return Scores(h + self.unmixed * -(guess * log_strong).sum(-1), logits)

    @torch.no_grad()
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Update the running mean with the step's mean prediction."""
        p = log_probabilities(scores.logits[0]).exp()
        move_towards(prepared(self, "mean", p), p.mean(0), 1 - self.momentum)

    def _aligned(self, log_p: Tensor) -> Tensor:
        mean = prepared(self, "mean", log_p)
        return aligned(log_p, mean, prepared(self, "class_prior", log_p))
