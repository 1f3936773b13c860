"""Boosting: gradient-boosted trees of LightGBM or XGBoost, for few labels; kept as text."""

import importlib
from importlib.util import find_spec
from typing import Any, Literal, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl.teachers.base import (
    Classes,
    State,
    checked_columns,
    checked_rows,
    not_fitted,
    taken_from,
    under,
)

Library = Literal["lightgbm", "xgboost"]
LIBRARIES: tuple[Library, ...] = ("lightgbm", "xgboost")
ROUNDS = 100
LEARNING_RATE = 0.05
LEAVES, LEAST_LEAF = 15, 5  # LightGBM
DEPTH = 4  # XGBoost


class Boosting:
    """Gradient-boosted trees on the raw columns; needs lightgbm or xgboost.

    Args:
        rounds: Number of trees per class.
        seed: Seed of the library.
        library: The library; by default LightGBM if it is installed, otherwise XGBoost.
    """

    uses_unlabelled = False
    ignores_x_u = True

    def __init__(
        self, rounds: int = ROUNDS, *, seed: int = 0, library: Library | None = None
    ) -> None:
        installed = next((one for one in LIBRARIES if find_spec(one)), LIBRARIES[0])
        self.rounds = rounds
        self.seed = seed
        self.library: Library = installed if library is None else library
        _checks.one_of("library", self.library, LIBRARIES)
        self.name = "boosting" if self.library == "lightgbm" else f"boosting {self.library}"
        self._classes: Classes | None = None
        self._booster: Any = None  # None if there is only one class

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Grow the trees on labelled rows."""
        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        self._booster = None
        if len(self._classes.present) > 1:
            grown = _grown_by_xgboost if self.library == "xgboost" else _grown_by_lightgbm
            numbers = torch.bucketize(rows.y_l, self._classes.present).numpy()
            counts = None if rows.weights is None else rows.weights.numpy()
            x = rows.x_l.double().numpy()
            self._booster = grown(x, numbers, counts, self.rounds, self.seed)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._classes is None:
            raise not_fitted(self)
        columns = checked_columns("x", x)
        if self._booster is None:
            return self._classes.among_all(torch.zeros(len(columns), 1))
        rows = columns.double().numpy()
        if self.library == "xgboost":
            table = _imported("xgboost").DMatrix(rows, nthread=1)
            scores = self._booster.predict(table, output_margin=True)
        else:
            scores = self._booster.predict(rows, raw_score=True)
        return self._classes.among_all(torch.from_numpy(scores).double().log_softmax(1))

    def state(self) -> State:
        """Return the trees as the library's own text; XGBoost's is JSON."""
        if self._classes is None:
            raise not_fitted(self)
        text = None
        if self._booster is not None and self.library == "xgboost":
            text = self._booster.save_raw("json").decode()
        elif self._booster is not None:
            text = self._booster.model_to_string()
        own = {"rounds": self.rounds, "seed": self.seed, "library": self.library, "model": text}
        return State(under("classes", self._classes), own)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild fitted trees; needs the library that grew them."""
        own = state.settings
        library = own.get("library", "lightgbm")  # older files have no other
        new = cls(int(own["rounds"]), seed=int(own["seed"]), library=library)
        new._classes = taken_from(state.tensors, "classes", Classes)
        if (text := own["model"]) and library == "xgboost":
            new._booster = _imported("xgboost").Booster({"nthread": 1})
            new._booster.load_model(bytearray(text, "utf-8"))
        elif text:
            new._booster = _imported("lightgbm").Booster(model_str=text)
        return new


def _grown_by_lightgbm(
    x: NDArray[Any], y: NDArray[Any], counts: NDArray[Any] | None, rounds: int, seed: int
) -> Any:
    lightgbm = _imported("lightgbm")
    settings = {
        "objective": "multiclass", "num_class": int(y.max()) + 1, "learning_rate": LEARNING_RATE,
        "num_leaves": LEAVES, "min_data_in_leaf": LEAST_LEAF, "seed": seed,
        "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbose": -1,
    }  # fmt: skip
    return lightgbm.train(settings, lightgbm.Dataset(x, y, weight=counts), rounds)


def _grown_by_xgboost(
    x: NDArray[Any], y: NDArray[Any], counts: NDArray[Any] | None, rounds: int, seed: int
) -> Any:
    xgboost = _imported("xgboost")
    settings = {
        "objective": "multi:softprob", "num_class": int(y.max()) + 1, "seed": seed,
        "learning_rate": LEARNING_RATE, "max_depth": DEPTH, "nthread": 1, "verbosity": 0,
    }  # fmt: skip
    table = xgboost.DMatrix(x, y, weight=counts, nthread=1)
    return xgboost.train(settings, table, rounds)


def _imported(library: Library) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError as error:
        other = " or xgboost" if library == "lightgbm" else ""
        raise ImportError(
            f"the teacher 'boosting' needs {library}{other}: pip install {library}. Or pass your "
            "own classifier, such as sklearn.ensemble.HistGradientBoostingClassifier()."
        ) from error
