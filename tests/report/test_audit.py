"""The audit of a page: what is shown, and what is left out where there is nothing."""

import dataclasses
import math
from typing import Any

import pytest
from tests.report.reader import Reader

from dessl.cli.audit import _show as show_audit
from dessl.report.audit import COPIES, OUTCOMES, SIGNS, audit_article, audit_section
from dessl.safety import Audit
from dessl.safety.audit import Missingness
from dessl.safety.gain import GainFacts
from dessl.safety.giveaways import Giveaway
from dessl.safety.labels import LabelFacts
from dessl.safety.leaks import CopyFacts
from dessl.safety.two_samples import ColumnShift

CLEAN = CopyFacts(0, 0, 0, 0, 0, 0, 0, 0, expected=False, examples=())
BARE = Audit(
    name="<people>",
    outcome="use it",
    reasons=(),
    labelled=1200,
    unlabelled=34_000,
    test=0,
    tests=(),
    columns=(),
    auc=math.nan,
    class_propensity=(),
    copies=CLEAN,
    labels=LabelFacts((600, 600), (), (), 0, 0, ()),
    gains=(),
    least_correlation=0.13,
    seconds=0.5,
)


def texts(found: Any) -> list[str]:
    return Reader(found).texts


def made(**other: Any) -> list[str]:
    return texts(audit_section(dataclasses.replace(BARE, **other)))


def test_nothing_found_is_said_in_two_sentences() -> None:
    assert made() == [
        "Audit",
        "Verdict on the unlabelled data: use it.",
        "There are too few rows to test whether labels are missing at random.",
        "No duplicates found, and every class has at least five labels.",
    ]
    assert made(copies=None) == made()
    assert audit_section(None) is None


def test_fully_labelled_rows_have_no_missing_labels_to_test() -> None:
    none = {"unlabelled": 0, "outcome": "no unlabelled rows"}
    assert made(**none) == [
        "Audit",
        "No unlabelled rows to audit: all rows are labelled.",
        "No duplicates found, and every class has at least five labels.",
    ]
    leaky = made(unlabelled=0, outcome="use it with care", reasons=("A leak.",))
    assert leaky[1:3] == ["Verdict on the data, all labelled: use it with care.", "A leak."]


def test_tests_columns_and_reasons_are_shown_as_text() -> None:
    found = made(
        reasons=("Column <b>age</b> differs.",),
        tests=(Missingness("classifier", 0.0124, 0.0248, "Rows <i>differ</i>."),),
        columns=(
            ColumnShift("<age>", 0.0011, 0.734, spread=False),
            ColumnShift("pulse", 0.2, 0.5, spread=True),
        ),
    )
    assert "Column <b>age</b> differs." in found
    at = found.index("classifier")
    assert found[at : at + 4] == ["classifier", "0.012", "0.025", "Rows <i>differ</i>."]
    at = found.index("<age>")
    assert found[at : at + 8] == [
        "<age>", "0.73", "0.001", "location", "pulse", "0.50", "0.200", "spread",
    ]  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_each_kind_of_copy_is_counted(name: str) -> None:
    found = made(copies=dataclasses.replace(CLEAN, **{name: 1234}))
    assert found[-4:] == ["duplicates and labels", "count", COPIES[name], "1,234"]


def test_every_count_of_copies_has_words() -> None:
    counts = {one.name for one in dataclasses.fields(CopyFacts)} - {"expected", "examples"}
    assert COPIES.keys() == counts


def test_labels_are_counted() -> None:
    labels = LabelFacts((9, 0, 3, 2), ("b",), ("c", "d"), 4, 1500, ())
    assert made(labels=labels)[-8:] == [
        "labels that look wrong", "1,500", "classes without a label", "1",
        "classes with fewer than five labels", "2", "folds of five with one class", "4",
    ]  # fmt: skip


def test_columns_that_give_the_label_away_are_counted() -> None:
    leak = Giveaway("outcome_code", empty=False, rows=1200, exceptions=0)
    assert made(giveaways=(leak,))[-2:] == ["columns that match the classes one to one", "1"]


def test_gains_have_their_interval_and_the_bar() -> None:
    gain = GainFacts("entropy", 0.456, 0.301, 0.602, 0.789, 1520.4, worth_it=True)
    found = made(gains=(gain, dataclasses.replace(gain, term="other", worth_it=False)))
    at = found.index("entropy")
    assert found[at : at + 5] == ["entropy", "0.46 (0.30 to 0.60)", "79%", "1,520", "yes"]
    assert found[-1] == "no"
    assert "ρ above 0.13" in found


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_page_begins_with_the_verdict(outcome: Any) -> None:
    page = Reader(audit_article(dataclasses.replace(BARE, outcome=outcome)))
    advice = outcome.replace("it", "the unlabelled rows", 1).capitalize()
    if outcome == "no unlabelled rows":
        advice = "No unlabelled rows to audit: all rows are labelled"
    assert page.texts[:2] == [SIGNS[outcome], f" {advice}"]
    assert ("class", f"verdict {OUTCOMES[outcome]}") in page.attributes
    assert "<people>" in page.texts
    assert ": 1,200 labelled and 34,000 unlabelled rows." in page.texts
    assert "the data" in texts(audit_article(dataclasses.replace(BARE, name="")))


def test_tiny_p_values_are_not_shown_as_zero(capsys: pytest.CaptureFixture[str]) -> None:
    tests = (Missingness("two samples", 1e-9, 3e-9, "They differ."),)
    columns = (ColumnShift("age", 1e-9, 0.9, spread=False),)
    found = dataclasses.replace(BARE, tests=tests, columns=columns)
    shown = texts(audit_section(found))
    assert shown.count("< 0.001") == 3
    assert "two samples: p < 0.001. They differ." in str(found)
    show_audit(found)
    assert capsys.readouterr().out.count("< 0.001") == 2
