"""What every unlabelled term H is: a blind function of rows, one value for each of them.

Three rules keep the debiased risk unbiased. H is blind: it gets rows of x and their ids, never y,
nor which rows have one. H is per sample: nothing is averaged here. H is one frozen function within
a step: teachers, memories and thresholds are buffers, and move only in
:meth:`Surrogate.after_step`.

Whatever trains with a term asks it through this contract alone: the scores of a step, its draws,
and whether several runs can share it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from dessl import _checks

Model: TypeAlias = Callable[[Tensor], Tensor]
"""From x (n, ...) to logits (n, classes); an ``nn.Module`` or any other function."""

View: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""From rows of x to what the model sees of them, with draws of its own for each row."""


class Rows(NamedTuple):
    """Rows of the data: x, shape (n, ...), and their ids in the data set, shape (n,)."""

    x: Tensor
    ids: Tensor


class Scores(NamedTuple):
    """H of each row, shape (n,), and the logits that L is computed on, (views, n, classes).

    L of a row is the mean of its loss over the views.
    """

    h: Tensor
    logits: Tensor


def as_is(x: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001 (a View)
    """Show the model a row as it is: the view of tables and of images that are floats already.

    >>> as_is(torch.ones(2), torch.Generator())
    tensor([1., 1.])
    """
    return x


def forked(device: torch.device) -> AbstractContextManager[None]:
    """Restore PyTorch's own generators, of the CPU and of this device, after the block.

    >>> before = torch.get_rng_state()
    >>> with forked(torch.device("cpu")):
    ...     _ = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


class Surrogate(nn.Module, ABC):
    """An unlabelled term H, with whatever state it needs.

    Args:
        seed: Seed of the term's own random draws (augmentation, noise, partners).

    Attributes:
        bounded_up_to: The largest λ ≥ 0 for which the debiased risk is bounded below, with the
            cross-entropy as L: infinite where H itself is bounded, 0 where no λ > 0 is safe. Past
            it, bound the risk (``bound="nonnegative"``) or H (:class:`dessl.surrogates.Smooth`).
    """

    bounded_up_to: float = math.inf

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self._seed = _checks.whole_number("seed", seed, low=0)
        self._generator: torch.Generator | None = None

    @abstractmethod
    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H and the logits for L of each row; changes no state but the draws' own."""

    def step_scores(self, model: Model, rows: Rows, n_labelled: int) -> Scores:  # noqa: ARG002
        """Return :meth:`forward`'s scores for a step, where L is computed on the first rows alone.

        Override it to leave out work that only L of the other rows would need. H must stay one
        function of all rows, whatever ``n_labelled``.

        Args:
            model: The model that is trained.
            rows: The labelled rows of the step, then the unlabelled ones.
            n_labelled: How many of them are labelled.
        """
        scores: Scores = self(model, rows)
        return scores

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Make the state that depends on the model or the data, before the first step.

        Args:
            model: The model that is going to be trained.
            n_rows: One more than the largest row id.
            n_classes: Number of classes.
        """

    @property
    def counts_rows(self) -> bool:
        """Whether this term, or one inside it, wants to know which row ids may be drawn."""
        return any(type(part).draws_from is not Surrogate.draws_from for part in self.parts())

    def draws_from(self, ids: Tensor) -> None:
        """Take note, once prepared, of the row ids that steps may draw; others are only evaluated.

        A surrogate that counts rows counts these; one made of others passes them on.

        Args:
            ids: On the device of the state.
        """
        for part in self.parts():
            if part is not self:
                part.draws_from(ids)

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        """Update teachers, memories and thresholds after the optimiser's step.

        Args:
            model: The model after the step.
            rows: The rows of the step, labelled and unlabelled alike.
            scores: What :meth:`forward` returned for them.
        """

    def parts(self) -> list["Surrogate"]:
        """Return this term and every term inside it."""
        return [part for part in self.modules() if isinstance(part, Surrogate)]

    @property
    def moves(self) -> bool:
        """Whether this term, apart from those inside it, changes its state after a step."""
        return type(self).after_step is not Surrogate.after_step

    def needs_own_run(self) -> str:
        """Return why several runs cannot share this term in one computation; "" where they can.

        By default a term cannot be shared that has state of its own, or a term inside it has.
        """
        held = (*self.parameters(), *self.buffers())
        if self.moves or type(self).prepare is not Surrogate.prepare or held:
            return f"{type(self).__name__} has state of its own, which runs cannot share."
        inside = (part.needs_own_run() for part in self.parts() if part is not self)
        return next(filter(None, inside), "")

    @property
    def seed(self) -> int:
        """Seed of the term's own draws."""
        return self._seed

    def restart_draws(self) -> None:
        """Start the draws of this term and of all terms inside it from their seeds again."""
        for part in self.parts():
            part._generator = None

    @contextmanager
    def draws_apart(self, device: torch.device) -> Iterator[None]:
        """Draw from fresh generators inside the block, so that a look at the term changes no run.

        PyTorch's own generators, which a plain function may draw from, are restored as well.

        Args:
            device: Where the rows are.
        """
        own = [(part, part._generator) for part in self.parts()]
        self.restart_draws()
        try:
            with forked(device):
                yield
        finally:
            for part, generator in own:
                part._generator = generator

    def generator(self, device: torch.device) -> torch.Generator:
        """Return the generator of the term's draws, on the device where the rows are."""
        if self._generator is None or self._generator.device != device:
            self._generator = torch.Generator(device).manual_seed(self._seed)
        return self._generator

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state of the draws, so that ``state_dict`` carries all there is."""
        if self._generator is None:
            return {"seed": self._seed}
        return {
            "seed": self._seed,
            "device": str(self._generator.device),
            "generator": self._generator.get_state(),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Resume the draws of a saved state; on another machine's GPU they start from the seed."""
        self._seed = state["seed"]
        self._generator = None
        device = torch.device(state.get("device", "cpu"))
        if "generator" in state and (device.type != "cuda" or torch.cuda.is_available()):
            self._generator = torch.Generator(device)
            self._generator.set_state(state["generator"].cpu())
