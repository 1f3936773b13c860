"""Boosting: LightGBM's gradient-boosted trees, with settings for few labels; kept as text."""

from typing import Any, Self

import torch
from torch import Tensor

from dessl.teachers.base import (
    Classes,
    State,
    checked_columns,
    checked_rows,
    not_fitted,
    taken_from,
    under,
)

ROUNDS = 100
LEARNING_RATE = 0.05
LEAVES = 15
LEAST_LEAF = 5


class Boosting:
    """Gradient-boosted trees on the raw columns; needs lightgbm.

    Args:
        rounds: Number of trees per class.
        seed: Seed of LightGBM.
    """

    uses_unlabelled = False
    ignores_x_u = True

    def __init__(self, rounds: int = ROUNDS, *, seed: int = 0) -> None:
        self.rounds = rounds
        self.seed = seed
        self.name = "boosting"
        self._classes: Classes | None = None
        self._booster: Any = None  # None if there is only one class

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Grow the trees on labelled rows."""
        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        self._booster = None
        n_present = len(self._classes.present)
        if n_present > 1:
            lightgbm = _lightgbm()
            numbers = torch.bucketize(rows.y_l, self._classes.present)
            settings = {
                "objective": "multiclass", "num_class": n_present, "learning_rate": LEARNING_RATE,
                "num_leaves": LEAVES, "min_data_in_leaf": LEAST_LEAF, "seed": self.seed,
                "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbose": -1,
            }  # fmt: skip
            counts = None if rows.weights is None else rows.weights.numpy()
            table = lightgbm.Dataset(rows.x_l.double().numpy(), numbers.numpy(), weight=counts)
            self._booster = lightgbm.train(settings, table, self.rounds)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._classes is None:
            raise not_fitted(self)
        columns = checked_columns("x", x)
        if self._booster is None:
            return self._classes.among_all(torch.zeros(len(columns), 1))
        scores = self._booster.predict(columns.double().numpy(), raw_score=True)
        return self._classes.among_all(torch.from_numpy(scores).log_softmax(1))

    def state(self) -> State:
        """Return the trees as LightGBM's own text."""
        if self._classes is None:
            raise not_fitted(self)
        text = self._booster and self._booster.model_to_string()
        own = {"rounds": self.rounds, "seed": self.seed, "model": text}
        return State(under("classes", self._classes), own)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild fitted trees; needs lightgbm too."""
        new = cls(int(state.settings["rounds"]), seed=int(state.settings["seed"]))
        new._classes = taken_from(state.tensors, "classes", Classes)
        text = state.settings["model"]
        new._booster = text and _lightgbm().Booster(model_str=text)
        return new


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError(
            "the teacher 'boosting' needs lightgbm: pip install lightgbm. Or pass your own "
            "classifier, such as sklearn.ensemble.HistGradientBoostingClassifier()."
        ) from error
    return lightgbm
