"""One vocabulary: every score of Metrics is in it, and no other module has a list of its own."""

import ast
from dataclasses import fields
from pathlib import Path

import pytest
import torch

import dessl
from dessl.evaluation import Metrics, metrics_from_logits, metrics_from_probabilities
from dessl.evaluation.metrics.vocabulary import MAIN, METRICS, amount, metric_text, written

SOURCE = Path(dessl.__file__).parent.parent
NO_SCORES = {"n", "auc_error", "temperature"}  # numbers that say how, not how well


def test_every_score_has_an_entry_and_every_entry_is_a_score() -> None:
    metrics = metrics_from_probabilities([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    numbers = {
        one.name for one in fields(Metrics) if isinstance(getattr(metrics, one.name), float | int)
    }
    assert numbers - NO_SCORES == set(METRICS)
    assert set(MAIN) <= set(METRICS)


def test_values_are_within_the_range_that_is_said() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (200,), generator=generator)
    metrics = metrics_from_logits(torch.randn(200, 3, generator=generator), y)
    for name, metric in METRICS.items():
        low, high = metric.range
        assert low <= metric.unit * getattr(metrics, name) <= high
        assert metric.unit == (100 if "%" in metric_text(name) else 1)


def test_no_other_module_words_the_metrics_again() -> None:
    texts = {text for name in METRICS for text in (METRICS[name].words, metric_text(name))}
    found = [
        f"{path.relative_to(SOURCE)}: {node.value}"
        for package in ("dessl", "dessl_paper")
        for path in sorted((SOURCE / package).rglob("*.py"))
        if path.name != "vocabulary.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in texts - set(METRICS)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [("ece", 0.233, "23.3"), ("brier", 0.233, "0.233"), ("unknown_loss", 0.5, "0.500")],
)
def test_a_metric_has_one_unit(metric: str, value: float, text: str) -> None:
    assert written(metric, value) == text
    assert amount(metric, value).startswith(text)
