"""StepLogits: what a network in training says of its held-out rows, evaluation by evaluation.

The network is stopped where these rows are best, so that its last word on them is too good; from
all of its words each row's can be chosen by the others (:mod:`dessl.teachers.selection`).
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
    """A callback of :func:`dessl.train` that keeps the logits of one network's held-out rows.

    Args:
        build: Builds the network.
        data: With the rows held out of its training.
        transform: What the network sees of a row.
        folder: Of the run, where the logits are kept for a resumed run; None to keep them here.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        data: SemiData,
        transform: Callable[[Tensor], Tensor],
        folder: Path | None,
    ) -> None:
        if data.validation is None:
            raise ValueError("data must hold rows out; got no validation part.")
        self._build = build
        self._x = data.validation.x
        self._transform = transform
        self._place = None if folder is None else folder / FILE
        self._model: nn.Module | None = None
        self._found: dict[int, Tensor] | None = None

    def build(self) -> nn.Module:
        """Build the network, which is looked at from now on."""
        self._model = self._build()
        return self._model

    def __call__(self, event: Event) -> None:
        """Keep what the network says; words of a killed run after this step are forgotten."""
        if self._model is None:
            raise RuntimeError("train with build= this object's .build.")
        logits = predicted_logits(self._model, self._x, transform=self._transform).float().cpu()
        earlier = {step: kept for step, kept in self._kept().items() if step < event.step}
        self._found = earlier | {event.step: logits}
        if self._place is not None:
            write_whole(self._place, _as_bytes(self._found))

    def of(self, result: TrainResult) -> Tensor | None:
        """Return the logits (evaluations, n, classes) of a run; None where some are missing.

        They are if the run was killed between a checkpoint and the callback after it. A run whose
        step no held-out row chose has one evaluation, that of its model.
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


def _as_bytes(found: dict[int, Tensor]) -> bytes:
    from safetensors.torch import save

    return save({str(step): logits.contiguous() for step, logits in found.items()})


def _read(place: Path, n: int) -> dict[int, Tensor]:
    """Logits by step; nothing from a file that is missing or damaged, as they can be had again."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = {int(step): logits for step, logits in load(place.read_bytes()).items()}
    except (OSError, ValueError, SafetensorError):
        return {}
    return found if all(len(logits) == n for logits in found.values()) else {}
