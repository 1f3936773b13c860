"""What a population refuses before it starts: surrogates that need a run of their own."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.surrogates.base import Model, Rows, Surrogate
from dessl.training.stacked_model import StackedModel

PROBED = 6  # rows of each model
CONFIDENT = 20.0  # so that thresholds are passed by untrained models too
ALONE = "Train its runs one by one, with dessl.train."


def check_surrogate(
    surrogate: Surrogate, models: Sequence[nn.Module], data: SemiData, *, fast: bool
) -> None:
    """Refuse a surrogate whose H in a population would not be its H in a run alone.

    State is refused by its signs. Random draws and rows that look at one another are found by
    trying: two models' rows together must give what each model's rows give alone.

    Args:
        surrogate: The term.
        models: Two at least, or one that is then taken twice; on the data's device.
        data: The first rows are tried.
        fast: As in :class:`~dessl.training.stacked_model.StackedModel`.
    """
    name = type(surrogate).__name__
    for part in surrogate.modules():
        moves = isinstance(part, Surrogate) and (
            type(part).after_step is not Surrogate.after_step
            or type(part).prepare is not Surrogate.prepare
        )
        if moves or any(True for _ in (*part.parameters(), *part.buffers())):
            raise ValueError(f"{name} has state of its own, which runs cannot share. {ALONE}")
    pair = [models[0], models[-1]]
    n = min(PROBED, len(data) // 2)
    batches = [Rows(data.x[part], data.ids[part]) for part in (slice(n), slice(n, 2 * n))]
    both = Rows(data.x[: 2 * n], data.ids[: 2 * n])
    together = StackedModel(pair, fast=fast).on_rows_of_each(n, training=False)
    with torch.no_grad():
        joint = surrogate(lambda x: CONFIDENT * together(x), both)
        for number, (model, batch) in enumerate(zip(pair, batches, strict=True)):
            alone = surrogate(_confident(model), batch)
            its = slice(number * n, (number + 1) * n)
            h_agrees = torch.allclose(joint.h[its], alone.h, rtol=1e-3, atol=1e-3)
            if not (h_agrees and torch.allclose(joint.logits[:, its], alone.logits, 1e-3, 1e-3)):
                raise ValueError(
                    f"{name} gives other values for the rows of two models together than for each "
                    "model's alone: it draws at random, or its rows look at one another, and a "
                    f"population would not be its runs. {ALONE}"
                )


def _confident(model: nn.Module) -> Model:
    quiet = copy.deepcopy(model).eval()

    def logits(x: Tensor) -> Tensor:
        scaled: Tensor = CONFIDENT * quiet(x)
        return scaled

    return logits
