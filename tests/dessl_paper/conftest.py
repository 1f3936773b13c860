from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from dessl_paper.specification import Experiment, experiment_from, laid_over

DATA = {
    "name": "mnist",
    "labels": 30,
    "validation": 10,
    "draw": "balanced",
    "rows": 60,
    "generated": True,
}


@pytest.fixture(autouse=True, scope="module")
def _made_up_rows(no_public_sets: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    with no_public_sets():
        yield


@pytest.fixture
def tiny() -> Callable[..., Experiment]:
    """An experiment of four runs in a second; what is given is laid over its entries."""

    def build(**other: Any) -> Experiment:
        entries: dict[str, Any] = {
            "title": "tiny",
            "paper": "nowhere",
            "metrics": ["accuracy"],
            "data": [DATA],
            "seeds": 2,
            "lams": [0.5],
            "model": {"name": "lenet"},
            "views": {"mean": 0.5, "std": 1.0, "view": {"flip": False, "shift": 0}},
            "surrogate": {"name": "entropy"},
            "plan": {
                "steps": 6,
                "labelled_batch": 10,
                "unlabelled_batch": 10,
                "evaluate_every": 2,
                "learning_rate": 0.01,
                "select": "accuracy",
            },
            "methods": {
                "complete_case": {"title": "complete case", "risk": "complete_case"},
                "de_entropy": {"title": "DeEntMin", "risk": "debiased"},
            },
        }
        return experiment_from("tiny", "smoke", laid_over(entries, other))

    return build
