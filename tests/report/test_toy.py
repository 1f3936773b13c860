"""The toy example's figure and facts."""

import io
import json

import pytest
from PIL import Image

from dessl.experiments.toy import ToyPlan, ToyResult, run_toy
from dessl.report.toy import toy_facts, toy_figure, toy_table


@pytest.fixture(scope="module")
def result() -> ToyResult:
    return run_toy(ToyPlan(n_labelled=300, n_unlabelled=300, warm_steps=10, steps=20))


def test_the_figure_is_a_picture_with_something_in_it(result: ToyResult) -> None:
    picture = Image.open(io.BytesIO(toy_figure(result)))
    assert picture.format == "PNG"
    assert picture.width > 1000
    assert len(picture.convert("L").getcolors(256) or []) > 20


def test_facts_survive_json_and_say_what_made_them(result: ToyResult) -> None:
    facts = json.loads(json.dumps(toy_facts(result, seconds=1.25)))
    assert facts["plan"]["seed"] == 0
    assert facts["made_with"]["torch"]
    assert facts["methods"]["DeEntMin"]["overlap_posterior_paper"] == 0.23
    assert len(facts["grid"]) == len(facts["methods"]["EntMin"]["posterior"])


def test_the_table_holds_the_difference_from_the_truth(result: ToyResult) -> None:
    for name, ours, _, off in toy_table(result):
        assert ours == result.runs[name].overlap_posterior
        assert off == pytest.approx(ours - 0.25)
