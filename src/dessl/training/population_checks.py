"""What a population refuses before it starts: surrogates that need a run of their own."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.surrogates.base import Rows, Scores, Surrogate
from dessl.training.guard import check_classes
from dessl.training.model_state import check_all_in_tensors, check_initialised
from dessl.training.stacked_model import StackedModel

PROBED = 6  # rows of each model
CONFIDENT = 20.0  # so that thresholds are passed by untrained models too
ALONE = "Train its runs one by one, with dessl.train."


def check_surrogate(
    surrogate: Surrogate, models: Sequence[nn.Module], data: SemiData, *, fast: bool
) -> None:
    """Refuse models that cannot be stacked, and a surrogate whose H would not be its H alone.

    State is refused by its signs. Random draws, rows that look at one another and passes that must
    leave no trace are found by trying: two models' rows together must give what each model's rows
    give alone.

    Args:
        surrogate: The term.
        models: Two at least, or one that is then taken twice; on the data's device.
        data: The first rows are tried.
        fast: As in :class:`~dessl.training.stacked_model.StackedModel`.
    """
    check_initialised(models[0])
    check_all_in_tensors(models[0])
    if reason := surrogate.needs_own_run():
        raise ValueError(f"{reason} {ALONE}")
    pair = [models[0], models[-1]]
    n = min(PROBED, len(data) // 2)
    both = Rows(data.x[: 2 * n], data.ids[: 2 * n])
    together = StackedModel(pair, fast=fast).on_rows_of_each(n, training=False)
    with torch.no_grad():
        h, logits = surrogate(lambda x: CONFIDENT * together(x), both)
        check_classes(logits, data.n_classes)
        for number, model in enumerate(pair):
            its = slice(number * n, (number + 1) * n)
            joint = Scores(h[its], logits[:, its])
            _check_alone(surrogate, model, Rows(both.x[its], both.ids[its]), joint)


def _check_alone(surrogate: Surrogate, model: nn.Module, rows: Rows, joint: Scores) -> None:
    name, probe = type(surrogate).__name__, Probe(model)
    alone = surrogate(probe, rows)
    if probe.passes != int(probe.traces) and any(True for _ in model.buffers()):
        raise ValueError(
            f"{name} makes passes that must leave no trace in a model's buffers, such as "
            f"BatchNorm's statistics; stacked models cannot do that. {ALONE}"
        )
    pairs = zip(joint, alone, strict=True)
    if not all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in pairs):
        raise ValueError(
            f"{name} gives other values for the rows of two models together than for each "
            "model's alone: it draws at random, or its rows look at one another, and a "
            f"population would not be its runs. {ALONE}"
        )


class Probe(nn.Module):
    """A model in evaluation mode, sure of itself, that counts its passes in two ways.

    A pass on copies of its buffers moves ``passes`` but not ``traces``.
    """

    traces: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval()
        self.passes = 0
        self.register_buffer("traces", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes)."""
        self.passes += 1
        self.traces += 1
        logits: Tensor = CONFIDENT * self.model(x)
        return logits
