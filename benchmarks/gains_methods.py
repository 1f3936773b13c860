"""The methods that benchmarks/gains.py compares, each from labelled and unlabelled rows to p(y|x).

Methods of scikit-learn see columns scaled as ours are (dessl.teachers.space): per-column
standardising of pixels would handicap them.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dessl.data import SemiData
from dessl.recipes import fit, recipe_for
from dessl.recipes.held_out import fold_numbers
from dessl.teachers import PoolReport, pooled, selected_by_others
from dessl.teachers.space import column_scale
from dessl.training import Event

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


class Recorded:
    """Networks that are looked at during training: their logits of some rows at each evaluation."""

    def __init__(self, build: Callable[[], torch.nn.Module], x: torch.Tensor) -> None:
        self._build = build
        self._x = x
        self._models: list[torch.nn.Module] = []
        self._seen: list[list[torch.Tensor]] = []

    def build(self) -> torch.nn.Module:
        """Build one more network."""
        self._models.append(self._build())
        self._seen.append([])
        return self._models[-1]

    def look(self, _: Event) -> None:
        """Keep what the network in training says."""
        model = self._models[-1]
        was_training = model.training
        with torch.no_grad():
            self._seen[-1].append(model.eval()(self._x))
        model.train(was_training)

    @property
    def histories(self) -> list[list[torch.Tensor]]:
        """Logits (rows, classes) of each network that was trained, evaluation by evaluation."""
        return [seen for seen in self._seen if seen]


def dessl_pool(task: Task) -> dict[str, Answer]:
    """The pool and its own complete case, which is part of it."""
    began = time.perf_counter()
    data = task.semi_data()
    recipe = recipe_for(data, risk="complete_case", seed=task.seed)
    y = data.y[data.labelled_rows]
    seen = Recorded(recipe.model, recipe.scaling.standardised(data.x[data.labelled_rows]))
    recorded = dataclasses.replace(recipe, model=seen.build)
    networks = fit(data, recorded, callbacks=[seen.look], progress=False)
    seconds = time.perf_counter() - began
    folds = fold_numbers(y, torch.arange(len(y)), task.seed)
    out = torch.full((len(y), task.n_classes), torch.nan, dtype=torch.float64)
    for number, history in enumerate(seen.histories[-len(networks.results) :]):  # not restarted
        held = folds == number
        out[held] = selected_by_others(torch.stack(history)[:, held], y[held])

    def predict(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return networks.complete_case(rows).double().log_softmax(1)

    pool = pooled(data, folds, out, predict, seed=task.seed)
    test = torch.from_numpy(task.x_test)
    complete = predict(test).exp().numpy()
    p = pool.predict_log_proba(test).exp().numpy()
    report = pool.report.as_dict() if isinstance(pool.report, PoolReport) else None
    whole = time.perf_counter() - began
    return {
        "dessl": Answer(p, whole, {"report": report}),
        "complete case": Answer(complete, seconds, {}),
    }


def _classifier(make: Callable[[Task], Any], *, unlabelled: bool) -> Callable[[Task], Answer]:
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
    "LabelSpreading": _classifier(_spreading, unlabelled=True),
    "SelfTraining": _classifier(_self_training, unlabelled=True),
    "logistic CV": _classifier(_logistic, unlabelled=False),
    "ExtraTrees": _classifier(_extra_trees, unlabelled=False),
    "LightGBM": _classifier(_lightgbm, unlabelled=False),
}
METHODS = ("dessl", "complete case", *PEERS)


def answers(task: Task) -> dict[str, Answer]:
    """Every method's answer; LightGBM's where it is installed."""
    found = dessl_pool(task)
    for name, run in PEERS.items():
        try:
            found[name] = run(task)
        except ImportError:
            continue
    return found
