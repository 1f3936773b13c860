"""The methods that benchmarks/gains.py compares, each from labelled and unlabelled rows to p(y|x).

Methods of scikit-learn see columns scaled as ours are (dessl.teachers.space): per-column
standardising of pixels would handicap them.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dessl.data import SemiData
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import predicted_log_proba
from dessl.teachers.space import column_scale

Array = NDArray[np.float64]
CLIP = 1e-3  # least probability of any method that can give 0


class Task(NamedTuple):
    """One draw of labels: class numbers of every class are in ``y``."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    x_unlabelled: NDArray[np.float32]
    x_test: NDArray[np.float32]
    n_classes: int
    seed: int

    def semi_data(self) -> SemiData:
        """Labelled rows first."""
        x = np.concatenate([self.x, self.x_unlabelled])
        y = np.concatenate([self.y, np.full(len(self.x_unlabelled), -1)])
        return SemiData(x, y, class_names=[str(k) for k in range(self.n_classes)])

    def scaled(self) -> "Task":
        """The same with columns of one scale."""
        rows = torch.from_numpy(np.concatenate([self.x, self.x_unlabelled])).double()
        mean, scale = rows.mean(0).numpy(), column_scale(rows).numpy()
        x, u, t = ((part - mean) / scale for part in (self.x, self.x_unlabelled, self.x_test))
        return self._replace(x=x, x_unlabelled=u, x_test=t)


class Answer(NamedTuple):
    """Probabilities of the test rows, seconds, and what else a method has to say."""

    p: Array
    seconds: float
    details: dict[str, Any]


def dessl_default(task: Task) -> dict[str, Answer]:
    """The default, as DeSSLClassifier and dessl fit train it, and its own complete case."""
    began, data = time.perf_counter(), task.semi_data()
    fitted = fit(data, recipe_for(data, seed=task.seed), progress=False)
    seconds = time.perf_counter() - began
    test = torch.from_numpy(task.x_test)
    p, complete = (
        predicted_log_proba(model, test).exp().numpy()
        for model in (fitted.model, fitted.complete_case)
    )
    pool = getattr(fitted.model, "pool", None)
    report = None if pool is None or pool.report is None else pool.report.as_dict()
    return {
        "dessl": Answer(p, seconds, {"report": report}),
        "complete case": Answer(complete, seconds, {}),
    }


def classifier(make: Callable[[Task], Any], *, unlabelled: bool) -> Callable[[Task], Answer]:
    """A method that fits a scikit-learn classifier to scaled columns, its odds clipped."""

    def run(task: Task) -> Answer:
        began = time.perf_counter()
        scaled = task.scaled()
        x, y = scaled.x, task.y
        if unlabelled:
            x = np.concatenate([x, scaled.x_unlabelled])
            y = np.concatenate([y, np.full(len(scaled.x_unlabelled), -1)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(task).fit(x, y)
            found = model.predict_proba(scaled.x_test)
        p = np.zeros((len(found), task.n_classes))
        p[:, np.asarray(model.classes_, dtype=int)] = np.nan_to_num(found)
        p = np.where(p.sum(1, keepdims=True) > 0, p, 1.0)
        p = np.clip(p / p.sum(1, keepdims=True), CLIP, None)
        return Answer(p / p.sum(1, keepdims=True), time.perf_counter() - began, {})

    return run


def _spreading(_: Task) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.2, max_iter=50)


def _self_training(_: Task) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(LogisticRegression(C=1.0, max_iter=500), threshold=0.9)


def _logistic(task: Task) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    folds = StratifiedKFold(max(2, min(5, int(np.bincount(task.y).min()))), shuffle=True,
                            random_state=task.seed)  # fmt: skip
    grid = {"C": np.logspace(-3, 2, 8)}
    model = LogisticRegression(max_iter=500)
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds)


def _extra_trees(task: Task) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(300, min_samples_leaf=2, random_state=task.seed)


def _lightgbm(task: Task) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=100, learning_rate=0.05, num_leaves=15, min_child_samples=5,
        random_state=task.seed, n_jobs=1, verbose=-1,
    )  # fmt: skip


PEERS: dict[str, Callable[[Task], Answer]] = {
    "LabelSpreading": classifier(_spreading, unlabelled=True),
    "SelfTraining": classifier(_self_training, unlabelled=True),
    "logistic CV": classifier(_logistic, unlabelled=False),
    "ExtraTrees": classifier(_extra_trees, unlabelled=False),
    "LightGBM": classifier(_lightgbm, unlabelled=False),
}
METHODS = ("dessl", "complete case", *PEERS)


def answers(task: Task) -> dict[str, Answer]:
    """Every method's answer; LightGBM's where it is installed."""
    found = dessl_default(task)
    for name, run in PEERS.items():
        try:
            found[name] = run(task)
        except ImportError:
            continue
    return found
