"""StepLogits: a network's logits of its held-out rows at every evaluation during training.

The step that is kept is the one with the lowest loss on these rows, so its predictions of them are
optimistic. With the logits of all steps, each row's step can be chosen by the other rows instead
(:mod:`dessl.teachers.selection`).
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.evaluation.metrics import predicted_logits
from dessl.training import Event, TrainResult

FILE = "held_out.safetensors"


class StepLogits:
    """A callback of :func:`dessl.train` that stores the logits of one network's held-out rows.

    Args:
        build: Builds the network.
        data: Its validation part has the held-out rows.
        transform: Applied to rows before the network.
        folder: Of the run; the logits are stored there so that it can be resumed. None to keep
            them in memory.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        data: SemiData,
        transform: Callable[[Tensor], Tensor],
        folder: Path | None,
    ) -> None:
        if data.validation is None:
            raise ValueError("data must have held-out rows; got no validation part.")
        self._build = build
        self._x = data.validation.x
        self._transform = transform
        self._place = None if folder is None else folder / FILE
        self._model: nn.Module | None = None
        self._found: dict[int, Tensor] | None = None

    def build(self) -> nn.Module:
        """Build the network whose logits are stored from now on."""
        self._model = self._build()
        return self._model

    def __call__(self, event: Event) -> None:
        """Store the logits of this step; those of later steps, from a killed run, are dropped."""
        if self._model is None:
            raise RuntimeError("train with build= this object's .build.")
        logits = predicted_logits(self._model, self._x, transform=self._transform).float().cpu()
        earlier = {step: kept for step, kept in self._kept().items() if step < event.step}
        self._found = earlier | {event.step: logits}
        if self._place is not None:
            from safetensors.torch import save

            tensors = {str(step): kept.contiguous() for step, kept in self._found.items()}
            write_whole(self._place, save(tensors))

    def of(self, result: TrainResult) -> Tensor | None:
        """Return the logits (evaluations, n, classes) of a run; None where some are missing.

        Some are missing if the run was killed between a checkpoint and the callback after it. A
        run that selects no step by its held-out rows has one evaluation, that of its model.
        """
        if result.plan.select == "last" or result.plan.ema:
            logits = predicted_logits(result.model, self._x, transform=self._transform)
            return logits.float().cpu()[None]
        found = self._kept()
        steps = [event.step for event in result.history]
        if not steps or any(step not in found for step in steps):
            return None
        return torch.stack([found[step] for step in steps])

    def _kept(self) -> dict[int, Tensor]:
        if self._found is None:
            self._found = {} if self._place is None else _read(self._place, len(self._x))
        return self._found


def _read(place: Path, n: int) -> dict[int, Tensor]:
    """Logits by step; none if the file is missing or damaged, since they can be computed again."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = {int(step): logits for step, logits in load(place.read_bytes()).items()}
    except (OSError, ValueError, SafetensorError):
        return {}
    return found if all(len(logits) == n for logits in found.values()) else {}
