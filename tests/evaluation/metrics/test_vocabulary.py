"""One vocabulary: every score of Metrics is in it, and no other module has a list of its own."""

import ast
import math
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dessl
from dessl.evaluation import Metrics, metrics_from_logits, metrics_from_probabilities
from dessl.evaluation.metrics.vocabulary import (
    MAIN,
    METRICS,
    amount,
    interval_text,
    metric_named,
    metric_text,
    with_error,
    written,
)

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


def test_an_interval_of_nothing_is_zero() -> None:
    assert interval_text("brier", -7e-11, 7e-11, 0.0) == ("0.000", "0.000")


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**9), st.sampled_from(["accuracy", "brier"]))
def test_an_interval_has_the_digits_that_it_needs(start: int, width: int, name: str) -> None:
    low, high = start / 1e9, (start + width) / 1e9
    unit = metric_named(name).unit
    texts = interval_text(name, low, high, 0.0, signed=True)
    shown = [float(text.replace("−", "-")) / unit for text in texts]
    for end, seen in zip((low, high), shown, strict=True):
        assert abs(end - seen) <= (high - low) / 18  # two digits of the width
        assert (end > 0, end < 0) == (seen > 0, seen < 0)
    assert len(texts[0].partition(".")[2]) == len(texts[1].partition(".")[2])


@given(st.floats(-1, 1), st.floats(1e-6, 1))
def test_a_standard_error_is_never_shown_as_zero(value: float, error: float) -> None:
    shown, spread = with_error("cross_entropy", value, error).split(" ± ")
    assert float(spread) == pytest.approx(error, rel=0.06)
    assert float(shown.replace("−", "-")) == pytest.approx(value, abs=0.06 * error)


@given(st.floats(-9e-7, 9e-7), st.floats(0, 9e-7))
def test_rounding_errors_are_shown_as_no_change(value: float, error: float) -> None:
    assert with_error("cross_entropy", value, error) == "0.000 ± 0.000"


def test_intervals_of_few_rows_are_wide() -> None:
    assert interval_text("accuracy", 0.7719, 1.0) == ("77", "100")
    assert interval_text("brier", math.nan, math.nan) == ("–", "–")
    assert interval_text("brier", 0.002, 0.002, 0.0) == ("0.0020", "0.0020")
