"""Virtual adversarial training: H(x) = Div(p_θ̂(·|x), p_θ(·|x + r)), r the worst perturbation.

r = ε·g/‖g‖ with g the gradient of Div at x + ξ·d, where d is a random unit vector at first and
g/‖g‖ after each power step: the direction of the Hessian's largest eigenvalue.
"""

from typing import Literal

import torch
from torch import Tensor

from dessl import _checks
from dessl.functional import entropy, kl_divergence
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.passes import side_pass
from dessl.surrogates.views import check_rows, checked_view, plain_view, row_logits

Divergence = Literal["kl", "cross_entropy"]


class VAT(Surrogate):
    """Divergence under the virtual adversarial perturbation of x (Miyato et al., 2018).

    The clean prediction is the target and has no gradient; neither does r. With a fixed target, the
    cross-entropy is the Kullback-Leibler divergence plus the target's entropy, so that both
    divergences have the same gradient and differ only in the value of H. Only the clean pass
    updates BatchNorm's running statistics (:func:`~dessl.surrogates.passes.side_pass`).

    The original's ξ is 1e-6. In float32 that is mostly rounding error: x + ξ·d equals x in most
    entries of an image. The default is 1e-2; a model in half precision needs ξ near 1.

    L is computed on the clean pass. If a prediction changes within ε of a row, H grows indefinitely
    as the model becomes more confident, so no λ > 0 is safe: bound the risk
    (``bound="nonnegative"``) or H (:class:`~dessl.surrogates.smooth.Smooth`).

    Args:
        epsilon: ε, the length of r over all entries of a row, in the units of the view's output.
        xi: ξ, the length at which the gradient is computed.
        power_steps: Number of power iterations for the direction, at least 1.
        divergence: ``"kl"`` KL(p_θ̂ ‖ p_θ), or ``"cross_entropy"``.
        view: View of a row for the model, as floats; r is added to it.
        seed: Seed of the view's draws and of the random direction.

    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0]))
    >>> bool(VAT(epsilon=0.5)(lambda x: x, rows).h > 0)
    True
    """

    bounded_up_to = 0.0
    adds_to_rows = True
    rarely_zero = True

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        xi: float = 1e-2,
        power_steps: int = 1,
        divergence: Divergence = "kl",
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.epsilon = _checks.number("epsilon", epsilon, low=0.0, open_low=True)
        self.xi = _checks.number("xi", xi, low=0.0, open_low=True)
        self.power_steps = _checks.whole_number("power_steps", power_steps, low=1)
        _checks.one_of("divergence", divergence, ("kl", "cross_entropy"))
        self.divergence = divergence
        self.view = checked_view("view", view)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the divergences (n,) and the clean pass's logits (1, n, classes)."""
        generator = self.generator(rows.x.device)
        x = self.view(rows.x, generator)
        check_rows(x)
        if not x.is_floating_point():
            raise TypeError(
                f"VAT adds a perturbation to the model's input, which must be floats; got "
                f"{x.dtype}. Pass a view that returns floats, such as dessl.augment.Weak()."
            )
        # All draws before the first pass: Dynamo's graph breaks at a draw, and is whole after it.
        direction = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        logits = row_logits(model, x)
        quiet = side_pass(model)
        adversarial = quiet(x + self.perturbation(quiet, x, logits.detach(), direction))
        return Scores(self._divergence(adversarial, logits.detach()), logits.unsqueeze(0))

    def perturbation(self, model: Model, x: Tensor, logits: Tensor, direction: Tensor) -> Tensor:
        """Return r, shaped as x.

        Args:
            model: The model.
            x: What it sees of the rows, (n, ...).
            logits: The clean logits (n, classes).
            direction: Where the power iteration begins, of any length, shaped as x.
        """

        def total(step: Tensor) -> Tensor:
            return kl_divergence(model(x + step), logits).sum()

        # Within no_grad, func.grad still differentiates by the step, but by no parameter.
        try:
            with torch.no_grad():
                for _ in range(self.power_steps):
                    direction = torch.func.grad(total)(self.xi * _unit(direction))
        except (RuntimeError, AssertionError) as error:  # the latter from torch.compile
            error.add_note(
                "VAT differentiates the model by its input with torch.func.grad, which supports "
                "neither a compiled model, nor a plain function around a model with BatchNorm, nor "
                "activation checkpointing. Pass the nn.Module itself, without checkpointing. To "
                "compile, compile the function that calls the surrogate, not the model."
            )
            raise
        return self.epsilon * _unit(direction)

    def _divergence(self, logits: Tensor, target_logits: Tensor) -> Tensor:
        if self.divergence == "kl":
            return kl_divergence(logits, target_logits)
        return kl_divergence(logits, target_logits) + entropy(target_logits)


class VATEntropy(VAT):
    """VAT plus entropy minimisation: H(x) = VAT(x) + w·Ent(p_θ(·|x)) (Miyato et al., 2018).

    The entropy is that of the clean pass, with its gradient. Everything else is as in :class:`VAT`.

    Args:
        entropy_weight: w; 1 in the original, 1/3 in Oliver et al. (2018).
        epsilon: ε, the length of r.
        xi: ξ, the length at which the gradient is computed.
        power_steps: Number of power iterations for the direction, at least 1.
        divergence: ``"kl"`` or ``"cross_entropy"``.
        view: View of a row for the model, as floats.
        seed: Seed of the view's draws and of the random direction.

    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0]))
    >>> both, vat = VATEntropy(entropy_weight=2.0), VAT()
    >>> both(lambda x: x, rows).h - vat(lambda x: x, rows).h
    tensor([1.6648])
    """

    def __init__(
        self,
        *,
        entropy_weight: float = 1.0,
        epsilon: float = 1.0,
        xi: float = 1e-2,
        power_steps: int = 1,
        divergence: Divergence = "kl",
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            xi=xi,
            power_steps=power_steps,
            divergence=divergence,
            view=view,
            seed=seed,
        )
        self.entropy_weight = _checks.number("entropy_weight", entropy_weight, low=0.0)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return VAT's term plus the weighted entropy (n,) and the logits (1, n, classes)."""
        h, logits = super().forward(model, rows)
        return Scores(h + self.entropy_weight * entropy(logits[0]), logits)


def _unit(direction: Tensor) -> Tensor:
    """Scale each row to length one; a row of zeros stays zero."""
    rows = direction.flatten(1)
    tiny = torch.finfo(rows.dtype).tiny
    # By the largest entry first, so that no square under- or overflows.
    rows = rows / rows.abs().amax(1, keepdim=True).clamp(min=tiny)
    rows = rows / rows.square().sum(1, keepdim=True).sqrt().clamp(min=tiny)
    return rows.view_as(direction)
