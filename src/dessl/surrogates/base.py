"""The contract of an unlabelled term H: a blind function of rows, with one value per row.

Three rules keep the debiased risk unbiased. H is blind: it gets rows of x and their ids, but
neither y nor which rows have a label. H is per sample: nothing is averaged here. H is a fixed
function within a step: teachers, memories and thresholds are buffers, updated only in
:meth:`Surrogate.after_step`.

Training code uses a term only through this contract: the scores of a step, its random draws, and
whether several runs can share it.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from dessl import _checks

Model: TypeAlias = Callable[[Tensor], Tensor]
"""Maps x (n, ...) to logits (n, classes); an ``nn.Module`` or any other function."""

View: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""Maps rows of x to the model's input, with independent random draws for each row."""


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


def checked_scores(name: str, found: object, n: int) -> Scores:
    """Refuse what a surrogate returns if it is not H (n,) and logits (views, n, classes).

    >>> checked_scores("Own", torch.zeros(3), 3)
    Traceback (most recent call last):
    TypeError: Own.forward must return dessl.Scores(h, logits), with h (n,) and logits (views, n, \
classes); it returned Tensor. For one view: dessl.Scores(h, logits.unsqueeze(0)).
    """
    if isinstance(found, tuple) and [isinstance(part, Tensor) for part in found] == [True, True]:
        h, logits = found
        if h.shape == (n,) and logits.ndim == 3 and logits.shape[1] == n:
            return Scores(h, logits)
        raise ValueError(
            f"{name}.forward must return h ({n},) and logits (views, {n}, classes) for {n} rows; "
            f"it returned {tuple(h.shape)} and {tuple(logits.shape)}. Do not average over rows; "
            "for one view: dessl.Scores(h, logits.unsqueeze(0))."
        )
    parts = found if isinstance(found, tuple) else ()
    inside = f" of {', '.join(type(part).__name__ for part in parts)}" if parts else ""
    raise TypeError(
        f"{name}.forward must return dessl.Scores(h, logits), with h (n,) and logits (views, n, "
        f"classes); it returned {type(found).__name__}{inside}. For one view: "
        "dessl.Scores(h, logits.unsqueeze(0))."
    )


def as_is(x: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001 (a View)
    """Return rows unchanged: the view of tables, and of images that are already floats.

    >>> as_is(torch.ones(2), torch.Generator())
    tensor([1., 1.])
    """
    return x


def forked(device: torch.device) -> AbstractContextManager[None]:
    """Restore PyTorch's global generators, of the CPU and of this device, after the block.

    >>> before = torch.get_rng_state()
    >>> with forked(torch.device("cpu")):
    ...     _ = torch.rand(3)
    >>> torch.equal(before, torch.get_rng_state())
    True
    """
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed PyTorch's global generators, of the CPU and of this device: those that a fork restores.

    ``torch.manual_seed`` would also seed every other GPU, whose draws are the caller's; it is used
    for devices of other kinds.
    """
    if device.type not in ("cpu", "cuda"):
        torch.manual_seed(seed)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


class Surrogate(nn.Module, ABC):
    """An unlabelled term H, with its state.

    Args:
        seed: Seed of the term's own random draws (augmentation, noise, partners).

    Attributes:
        bounded_up_to: The largest λ ≥ 0 for which the debiased risk is bounded below, with the
            cross-entropy as L: infinite if H itself is bounded, 0 if no λ > 0 is safe. For a larger
            λ, bound the risk (``bound="nonnegative"``) or H (:class:`dessl.surrogates.Smooth`).
            The default, infinite, is not checked: set it in your own subclass.
        adds_to_rows: Whether H adds to rows or mixes them, so that their entries must be
            quantities and not codes such as tokens.
        rarely_zero: Whether H is above 0 for almost every row; :func:`dessl.train` warns if it is 0
            for all.
    """

    bounded_up_to: float = math.inf
    adds_to_rows: bool = False
    rarely_zero: bool = False

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self._seed = _checks.whole_number("seed", seed, low=0)
        self._generator: torch.Generator | None = None

    @property
    def evaluates_targets(self) -> bool:
        """Whether targets are predicted in evaluation mode, where BatchNorm uses its running mean.

        :func:`dessl.train` warns if the running statistics lag behind the weights.
        """
        return False

    @property
    def separate_bounds(self) -> tuple[float, ...]:
        """``bounded_up_to`` of each part of H that can have a λ of its own."""
        return (self.bounded_up_to,)

    def separate_scores(self, model: Model, rows: Rows) -> list[Scores]:
        """Return the scores of each part of H that can have a λ of its own."""
        return [self(model, rows)]

    def set_shares(self, shares: Sequence[float]) -> None:
        """Multiply each part of H by a share of λ; a term of one part has all of it."""

    @property
    def bound_is_stated(self) -> bool:
        """Whether ``bounded_up_to`` was set for this term, rather than left at its default."""
        own = itertools.takewhile(lambda kind: kind is not Surrogate, type(self).__mro__)
        return any("bounded_up_to" in vars(holder) for holder in (self, *own))

    def __call__(self, model: Model, rows: Rows) -> Scores:
        """Return :meth:`forward`'s scores; anything but :class:`Rows` is refused.

        >>> from dessl.surrogates import Entropy
        >>> Entropy()(nn.Identity(), torch.zeros(3, 2))
        Traceback (most recent call last):
        TypeError: rows must be dessl.Rows(x, ids); got Tensor. Pass Rows(x, ids) with the number \
of each row in the data as its id: torch.arange(len(x)) if x is all of it.
        """
        if not isinstance(rows, Rows):
            raise TypeError(
                f"rows must be dessl.Rows(x, ids); got {type(rows).__name__}. Pass Rows(x, ids) "
                "with the number of each row in the data as its id: torch.arange(len(x)) if x is "
                "all of it."
            )
        scores: Scores = super().__call__(model, rows)
        return scores

    @abstractmethod
    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H and the logits for L of each row; changes no state except its generator's."""

    def step_scores(self, model: Model, rows: Rows, n_labelled: int) -> Scores:  # noqa: ARG002
        """Return :meth:`forward`'s scores for a step in which only the first rows need L.

        Override it to skip work that only L of the other rows would need. H must remain the same
        function of all rows, whatever ``n_labelled`` is.

        Args:
            model: The model being trained.
            rows: The labelled rows of the step, then the unlabelled ones.
            n_labelled: How many of them are labelled.
        """
        return checked_scores(type(self).__name__, self(model, rows), len(rows.x))

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Create the state that depends on the model or the data, before the first step.

        Args:
            model: The model to train.
            n_rows: One more than the largest row id.
            n_classes: Number of classes.
        """

    @property
    def counts_rows(self) -> bool:
        """Whether this term, or one inside it, needs to know which row ids may be drawn."""
        return any(type(part).draws_from is not Surrogate.draws_from for part in self.parts())

    def draws_from(self, ids: Tensor) -> None:
        """Register, after ``prepare``, the row ids that steps may draw; others are only evaluated.

        A surrogate that counts rows counts only these; one made of others passes them on.

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
            rows: All rows of the step, labelled and unlabelled.
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
        """Return why several runs cannot share this term in one computation; "" if they can.

        By default a term cannot be shared if it, or a term inside it, has state.
        """
        held = (*self.parameters(), *self.buffers())
        if self.moves or type(self).prepare is not Surrogate.prepare or held:
            return f"{type(self).__name__} has state, which several runs cannot share."
        inside = (part.needs_own_run() for part in self.parts() if part is not self)
        return next(filter(None, inside), "")

    @property
    def seed(self) -> int:
        """Seed of the term's random draws."""
        return self._seed

    def restart_draws(self) -> None:
        """Restart the random draws of this term and of all terms inside it from their seeds."""
        for part in self.parts():
            part._generator = None

    @contextmanager
    def draws_apart(self, device: torch.device) -> Iterator[None]:
        """Use fresh generators inside the block, so that evaluating the term does not affect a run.

        PyTorch's global generators, which a plain function may use, are restored as well.

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
        """Return the generator of the term's draws, on the device of the rows."""
        if self._generator is None or self._generator.device != device:
            self._generator = torch.Generator(device).manual_seed(self._seed)
        return self._generator

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state of the generators, so that ``state_dict`` is complete."""
        if self._generator is None:
            return {"seed": self._seed}
        return {
            "seed": self._seed,
            "device": str(self._generator.device),
            "generator": self._generator.get_state(),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore saved generators; those of a GPU that is not here restart from the seed."""
        self._seed = state["seed"]
        self._generator = None
        device = torch.device(state.get("device", "cpu"))
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if "generator" in state and (device.type != "cuda" or (device.index or 0) < gpus):
            self._generator = torch.Generator(device)
            self._generator.set_state(state["generator"].cpu())
