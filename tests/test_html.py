"""Results in notebooks: HTML with everything escaped, and the verdict's colour."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from dessl import SemiData, recipe_for
from dessl._html import GREEN, RED, card
from dessl.evaluation.verdict import OUTCOMES, Verdict
from dessl.recipes import fit
from dessl.teachers import NetworkSetting, learn_from_answers

ODD = "<script>alert('x')</script>"


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def read(shown: str) -> Balanced:
    parser = Balanced()
    parser.feed(shown)
    assert not parser.open
    assert parser.seen <= {"div", "b", "table", "tr", "th", "td"}
    return parser


@pytest.fixture(scope="module")
def data() -> SemiData:
    x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    y = torch.where(torch.arange(80) < 30, (x[:, 0] > 0).long(), -1)
    return SemiData(x, y, class_names=[ODD, "yes"], name=ODD)


def test_text_is_escaped() -> None:
    parser = read(card(ODD, {ODD: ODD}, note=ODD, table=[(ODD,), (ODD,)]))
    assert parser.text.count(ODD) == 6


def test_data(data: SemiData) -> None:
    text = read(data._repr_html_()).text
    assert ODD in text
    assert re.search(r"rows\s+80 of shape \(2,\)", text)
    assert re.search(r"unlabelled\s+50", text)
    assert "test" not in text


def test_a_fit_its_runs_and_its_pool(data: SemiData) -> None:
    fitted = fit(data, recipe_for(data, steps=3, networks=2), progress=False)
    text = read(fitted._repr_html_()).text
    assert fitted.verdict.sentence in text
    for member in fitted.pool.members:
        assert member.shown_name in read(fitted.pool._repr_html_()).text
    run = read(fitted.results[0]._repr_html_()).text
    assert re.search(r"model\s+MLP", run)
    assert re.search(r"validation cross-entropy\s+0\.", run)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_verdict(outcome: str) -> None:
    shown = Verdict(outcome, ODD)._repr_html_()
    assert ODD in read(shown).text
    assert (GREEN in shown) == (outcome == "better")
    assert (RED in shown) == (outcome == "worse")


def test_a_student(data: SemiData) -> None:
    setting = NetworkSetting(steps=2, student_steps=2)
    answers = np.array(data.class_names, dtype=object)[(data.x[:, 0] > 0).long()]
    report = learn_from_answers(data, answers, setting=setting).report
    text = read(report._repr_html_()).text
    assert report.student.why in text
