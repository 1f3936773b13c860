from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
import torch

from dessl.evaluation import metrics_from_logits
from dessl.evaluation.verdict import OVER_SEEDS, Comparison, Verdict
from dessl.results.facts import DataFacts, Estimate, MethodFacts, RunFacts
from dessl.results.machine import machine_facts
from dessl.results.record import Record
from dessl.training import Event


def record(
    method: MethodFacts,
    seed: int,
    metrics: dict[str, Any],
    history: list[dict[str, Any]],
    lam: float | None = None,
) -> Record:
    lam = method.lam if lam is None else lam
    return Record(
        experiment="demo",
        profile="",
        key=f"{method.risk}-lam{lam:g}-seed{seed}",
        data="digits",
        labels=100,
        method=method.name,
        title=method.name,
        risk=method.risk,
        lam=lam,
        seed=seed,
        settings={},
        metrics=metrics,
        training={"selected_step": 20, "steps": 20},
        made_with={},
        history=history,
    )


@pytest.fixture
def small_facts() -> Callable[..., RunFacts]:
    """Facts of three methods and two seeds, with metrics of real (random) predictions."""

    def build(class_names: tuple[str, ...] = ("cat", "dog", "owl"), name: str = "pets") -> RunFacts:
        names = {
            "complete case": "complete_case",
            "PseudoLabel": "ssl",
            "DePseudoLabel": "debiased",
        }
        methods = tuple(
            MethodFacts(method, risk, "pseudo_label", 0.0 if risk == "complete_case" else 0.5)
            for method, risk in names.items()
        )
        generator = torch.Generator().manual_seed(0)

        def run(method: MethodFacts, seed: int) -> Record:
            y = torch.randint(3, (60,), generator=generator)
            logits = torch.randn(60, 3, generator=generator) + 2 * torch.eye(3)[y]
            metrics = metrics_from_logits(logits, y).as_dict()
            few = {key: metrics[key] for key in ("accuracy", "cross_entropy", "ece")}
            unlabelled = None if method.risk == "complete_case" else 0.9
            events = [
                Event(
                    step,
                    20,
                    step / 2,
                    0.9 / step,
                    1 / step,
                    0.4,
                    0.5,
                    1.0,
                    unlabelled,
                    1.0,
                    0.1,
                    0.5,
                    300.0,
                    few,
                )
                for step in (10, 20)
            ]
            return record(method, seed, metrics, [asdict(event) for event in events])

        return RunFacts(
            title=f"{name}: does unlabelled data help?",
            command="dessl demo --out runs/demo",
            data=DataFacts(name, 200, 30, 160, 10, 60, 0, class_names, (64,)),
            methods=methods,
            runs=tuple(run(method, seed) for method in methods for seed in (0, 1)),
            comparisons=tuple(
                Comparison(
                    metric,
                    method,
                    "complete case",
                    0.02,
                    -0.01,
                    0.05,
                    0.12,
                    0.95,
                    OVER_SEEDS,
                    2,
                )
                for method in list(names)[1:]
                for metric in ("accuracy", "cross_entropy", "ece")
            ),
            verdict=Verdict("cannot tell yet", "Cannot tell yet from 60 labels.", 0.01, 200),
            settings={"steps": 20, "learning_rate": 0.1},
            made_with=machine_facts(),
            seconds=1.5,
            estimates=(Estimate("DePseudoLabel", "accuracy", 0.8, 0.7, 0.9, 0.95, 60, 0),),
            warnings=("a warning",),
        )

    return build
