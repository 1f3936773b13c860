"""How a reproduction writes metrics, numbers and data sets."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest

from dessl.results.averages import Average
from dessl.results.record import Record
from dessl_paper.catalogue import load_experiment
from dessl_paper.results import Block, Results
from dessl_paper.targets import Printed
from dessl_paper.wording import (
    HEADINGS,
    amount,
    beside_paper,
    data_title,
    heading,
    lambda_text,
    listed,
    located,
    ours_text,
    p_text,
    paper_text,
    plain,
    title,
    written,
)


def test_every_heading_is_used_before_the_vocabulary_s() -> None:
    for metric, words in HEADINGS.items():
        assert heading(metric) == words
    assert heading("brier") == "Brier score"
    assert plain("accuracy") == "accuracy"


@pytest.mark.parametrize(
    ("metric", "value", "signed", "text"),
    [
        ("accuracy", 0.5, False, "50.00"),
        ("accuracy", 0.012349, True, "+1.23"),
        ("accuracy", -0.012349, True, "−1.23"),
        ("cross_entropy", 1.23456, False, "1.235"),
        ("accuracy", math.nan, False, "–"),
    ],
)
def test_numbers_of_tables(metric: str, value: float, text: str, *, signed: bool) -> None:
    assert written(metric, value, signed=signed) == text


def test_the_size_of_a_difference_has_no_sign() -> None:
    for sign in (-1, 1):
        assert amount("accuracy", sign * 0.1) == "10.00 points"
        assert amount("brier", sign * 0.1) == "0.100"


def test_ours_beside_the_paper_s() -> None:
    ours = Average(0.9, 0.011, 5)
    assert ours_text("accuracy", ours) == "90.00 ± 1.10 (5)"
    assert paper_text("accuracy", Printed(0.95)) == "95.00"
    assert paper_text("accuracy", Printed(0.95, 0.002)) == "95.00 ± 0.20"
    assert beside_paper("accuracy", ours, Printed(0.85)) == ("90.00 ± 1.10 (5)", "85.00", "+5.00")
    assert beside_paper("accuracy", ours, Printed(math.nan))[1:] == ("–", "–")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.001, "0.001"), (0.00099, "9.9e-04"), (0.0, "0"), (1.0, "1.000"), (math.nan, "–")],
)
def test_p_values(value: float, text: str) -> None:
    assert p_text(value) == text


@pytest.mark.parametrize(
    ("lam", "text"), [(0.0, "0"), (31.16, "31.2"), (1234.0, "1.23e+03"), (1e-4, "0.0001")]
)
def test_lambdas_have_three_digits(lam: float, text: str) -> None:
    assert lambda_text(lam) == text
    assert lambda_text(-1.5) == "−1.5"


def test_words_are_listed() -> None:
    assert listed(["a", "b"]) == "a and b"
    assert listed(word for word in "abcd") == "a, b, c and d"


@pytest.fixture
def record(record_of: Callable[..., Record]) -> Record:
    experiment = load_experiment("fixmatch-cifar10", "fast")
    return record_of(experiment, "fixmatch", 0.5, 0, {"accuracy": 0.9})


def changed(record: Record, **data: Any) -> Record:
    return dataclasses.replace(record, settings={"data": data})


def results(*records: Record) -> Results:
    return Results(load_experiment("fixmatch-cifar10", "fast"), records)


@pytest.mark.parametrize(
    ("data", "more"),
    [
        ({}, ""),
        ({"label_noise": 0.2}, ", 20 % of the labels redrawn"),
        ({"rows": 6000}, ", limited to 6,000 rows"),
    ],
)
def test_a_data_set_in_words(record: Record, data: dict[str, Any], more: str) -> None:
    found = results(changed(record, **data))
    (block,) = found.blocks
    assert data_title(found, block) == f"cifar10, {record.labels:,} labels{more}"


def test_a_sentence_names_its_data_set_if_there_are_several(record: Record) -> None:
    alone = results(record)
    assert located(alone, alone.blocks[0], "accuracy is lower") == "Accuracy is lower"
    both = results(record, dataclasses.replace(changed(record, name="svhn"), data="svhn"))
    assert located(both, Block("svhn", record.labels), "accuracy is lower") == (
        f"svhn, {record.labels:,} labels: accuracy is lower"
    )


def test_a_title_warns_of_data_that_are_not_the_publisher_s(record: Record) -> None:
    plain_title = results(record).experiment.title
    assert title(results(record)) == plain_title
    made_up = dataclasses.replace(record, data="cifar10 (generated)")
    assert title(results(made_up)) == f"{plain_title} [cifar10 (generated)]"
    assert title(results(changed(record, rows=60))) == f"{plain_title} [truncated]"
