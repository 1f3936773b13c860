"""A fixed teacher: H(x_i) = −Σ_k q_ik log p_θ(k|x_i), for soft labels q given in advance."""

from torch import Tensor, nn

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.state import checked_ids, device_of
from dessl.surrogates.views import checked_view, plain_view, row_logits


class Teacher(Surrogate):
    """Cross-entropy to given soft labels (Hinton et al., 2015), looked up by row id.

    The teacher may be anything that has not seen this row's label: a larger model trained
    elsewhere, a zero-shot classifier, a language model's answers. Debiasing requires that H is
    blind; with a teacher trained on these labels, H of a labelled row would depend on its y.
    Cross-fit such a teacher: label each row with a model trained without that row.

    L is computed on the same view of the row. Unless q is certain of the right class, L − λH
    decreases indefinitely as the model becomes confident in y, so no λ > 0 is safe: bound the risk
    (``bound="nonnegative"``) or H (:class:`~dessl.surrogates.smooth.Smooth`).

    Args:
        probabilities: q, shape (n_rows, classes), with row i for id i. Rows sum to one.
        hard: Whether to use the most likely class as a hard label.
        view: View of a row for the model.
        seed: Seed of the view's draws.

    >>> import torch
    >>> teacher = Teacher([[0.5, 0.5], [0.1, 0.9]])
    >>> rows = Rows(torch.tensor([[3.0, 0.0]]), torch.tensor([0]))
    >>> teacher(lambda x: x, rows).h
    tensor([1.5486])
    """

    bounded_up_to = 0.0
    probabilities: Tensor

    def __init__(
        self,
        probabilities: ArrayLike,
        *,
        hard: bool = False,
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        table = _checked(probabilities)
        self.hard = _checks.true_or_false("hard", hard)
        if self.hard:
            table = nn.functional.one_hot(table.argmax(-1), table.shape[-1]).to(table.dtype)
        self.view = checked_view("view", view)
        self.register_buffer("probabilities", table)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Reject a table with other rows or classes, and move it to the model's device."""
        rows, classes = self.probabilities.shape
        if rows < n_rows or classes != n_classes:
            short = (
                f" The last {n_rows - rows} row ids have none: rows of a separate validation part "
                "have the last ids, in their order."
            )
            raise ValueError(
                f"probabilities must hold a row for each of the {n_rows} row ids and a column for "
                f"each of the {n_classes} classes; got {(rows, classes)}. Order its rows by the "
                "data's ids and its columns by the data's class_names."
                + (short if rows < n_rows else "")
            )
        self.probabilities = self.probabilities.to(device_of(model))

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the cross-entropies (n,) and the logits (1, n, classes)."""
        logits = row_logits(model, self.view(rows.x, self.generator(rows.x.device)))
        log_p, (n_rows, classes) = log_probabilities(logits), self.probabilities.shape
        if log_p.shape[-1] != classes:
            raise ValueError(
                f"probabilities must hold a column for each of the model's {log_p.shape[-1]} "
                f"classes; got {classes}. Order its columns by the data's class_names; a model "
                "with one logit has 2."
            )
        ids = checked_ids(rows.ids, len(logits), n_rows)
        h = -(self.probabilities[ids] * log_p).sum(-1)
        return Scores(h, logits.unsqueeze(0))


def _checked(probabilities: ArrayLike) -> Tensor:
    table = _checks.float64("probabilities", probabilities, ndim=2)
    _checks.distributions("probabilities", table.cpu())  # on the CPU, where they are inspected
    return (table / table.sum(-1, keepdim=True)).float()
