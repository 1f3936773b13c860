"""Shared code of methods that train the strong view of a row on targets from its weak view."""

from torch import Tensor

from dessl.surrogates.base import Model, Rows, Surrogate, View
from dessl.surrogates.views import joint_logits, strong_view, weak_view


class WeakToStrong(Surrogate):
    """A surrogate with a weak and a strong view of each row, in one pass through the model.

    Args:
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        seed: Seed of the views' draws.
    """

    def __init__(
        self, *, weak: View = weak_view, strong: View = strong_view, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        self.weak = weak
        self.strong = strong

    def view_logits(self, model: Model, rows: Rows) -> Tensor:
        """Return the logits of the weak and the strong view, (2, n, classes)."""
        generator = self.generator(rows.x.device)
        return joint_logits(model, [self.weak(rows.x, generator), self.strong(rows.x, generator)])
