"""A trial's facts are those of its two models on its test rows."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
from scipy import stats

from dessl.data import SemiData
from dessl.evaluation import compare_models, estimate_metric, metrics_from_probabilities
from dessl.evaluation.metrics.vocabulary import interval_text, with_error
from dessl.evaluation.verdict import OUTCOMES
from dessl.recipes import recipe_for
from dessl.recipes.baseline import Baseline
from dessl.recipes.held_out import held_out_check
from dessl.recipes.split import RowDesign, split
from dessl.recipes.trial import Trial, run_trial
from dessl.report.page import report_html
from dessl.results.facts import ModelFacts, RunFacts, read_facts, write_facts
from dessl.results.trial import trial_facts


def trial(lam: float, n_unlabelled: int = 200) -> Trial:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120 + n_unlabelled, 3, generator=generator)
    y = (x[:, 0] + 0.5 * torch.randn(len(x), generator=generator) > 0).long()
    y[120:] = -1
    data, test, _ = split(SemiData(x, y, name="made"), share=0.5)
    return run_trial(data, test, recipe_for(data, lam=lam, steps=20, networks=2), progress=False)


def test_a_verdict_that_asks_for_more_labels_than_rows_names_the_rows() -> None:
    facts = trial_facts(
        trial(0.5),
        surrogate="pseudo_label",
        command="dessl fit",
        seconds=1.0,
        margin=0.0,
        share=0.5,
    )
    assert facts.verdict.outcome == "cannot tell yet"
    assert facts.verdict.needed is not None
    assert 120 + facts.verdict.needed > 320
    assert "The data has only 320 rows: collect more." in facts.verdict.sentence


def test_held_out_labels_are_weighed_by_their_propensities() -> None:
    plain = trial(0.5)
    known, y = plain.test.labelled, plain.test.y
    chances = torch.where(y[known] == 0, 0.6, 0.1)
    weighed = dataclasses.replace(plain, design=RowDesign(propensity=chances))
    facts, without = (
        trial_facts(one, surrogate="pseudo_label", command="dessl fit", seconds=1.0)
        for one in (weighed, plain)
    )
    both = [one for one in facts.estimates if one.metric == "brier"]
    assert [one.method for one in both] == ["complete case", "DePseudoLabel"]
    wanted = [
        estimate_metric("brier", p[known], y[known], p[~known], propensity=chances)
        for p in (plain.twin_logits.softmax(1), plain.logits.softmax(1))
    ]
    assert [(one.low, one.high) for one in both] == [(one.low, one.high) for one in wanted]
    changed = [one.difference for one in facts.comparisons]
    assert changed != [one.difference for one in without.comparisons]


def test_estimates_differ_by_the_paired_difference_and_keep_their_mean() -> None:
    done = trial(0.5)
    facts = trial_facts(done, surrogate="pseudo_label", command="dessl fit", seconds=1.0)
    known, y = done.test.labelled, done.test.y
    p = [logits.softmax(1) for logits in (done.twin_logits, done.logits)]
    for change in facts.comparisons:
        own = [estimate_metric(change.metric, q[known], y[known], q[~known]) for q in p]
        twin, ours = (one for one in facts.estimates if one.metric == change.metric)
        assert own[1].value - own[0].value != pytest.approx(change.difference, abs=1e-6)
        assert ours.value - twin.value == pytest.approx(change.difference)
        assert ours.value + twin.value == pytest.approx(own[0].value + own[1].value)
        for found, before in zip((twin, ours), own, strict=True):
            assert found.low <= before.low <= before.high <= found.high
    assert "Up to rounding, the values in brackets differ by the difference above." in report_html(
        [facts]
    )


def test_metrics_and_comparisons_are_of_the_two_models() -> None:
    done = trial(0.5)
    facts = trial_facts(done, surrogate="pseudo_label", command="dessl fit", seconds=1.0)
    assert all(one.low <= one.value <= one.high for one in facts.estimates)
    assert [(one.name, one.lam) for one in facts.methods] == [
        ("complete case", 0.0),
        ("DePseudoLabel", 0.5),
    ]
    known, y = done.test.labelled, done.test.y
    models = (done.fitted.complete_case, done.fitted.model)
    with torch.no_grad():
        twin, ours = (model(done.test.x).exp().double() for model in models)
    twin, ours = (p / p.sum(1, keepdim=True) for p in (twin, ours))
    for p, run in zip((twin, ours), facts.runs, strict=True):
        assert run.metrics["brier"] == pytest.approx(
            metrics_from_probabilities(p[known], y[known]).brier
        )
    wanted = compare_models("brier", ours[known], twin[known], y[known], ours[~known], twin[~known])
    (found,) = (one for one in facts.comparisons if one.metric == "brier")
    assert found.difference == pytest.approx(wanted.difference, abs=1e-6)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-6)
    assert (found.n, facts.data.test, facts.data.test_unlabelled) == (60, 60, 100)
    ends = interval_text("brier", found.low, found.high, 0.0, 0.01, -0.01, signed=True)
    assert " to ".join(ends) in facts.verdict.sentence
    assert {(one.method, one.metric) for one in facts.estimates} == {
        (method, metric)
        for method in ("complete case", "DePseudoLabel")
        for metric in ("accuracy", "brier")
    }


def test_a_cross_entropy_that_may_be_infinite_is_left_out() -> None:
    done = trial(0.5)
    many = done.test.labelled.nonzero().flatten().repeat(4)  # labels enough for a cross-entropy
    test = done.test._replace(x=done.test.x[many], y=done.test.y[many])
    done = dataclasses.replace(
        done, test=test, logits=done.logits[many], twin_logits=done.twin_logits[many]
    )

    def compared(one: Trial) -> list[str]:
        facts = trial_facts(one, surrogate="pseudo_label", command="", seconds=1.0)
        return [comparison.metric for comparison in facts.comparisons]

    assert compared(done) == ["accuracy", "brier", "cross_entropy"]
    sure = done.logits.clone()
    sure[0] = torch.tensor([0.0, 1e4]) if test.y[0] == 0 else torch.tensor([1e4, 0.0])
    assert compared(dataclasses.replace(done, logits=sure)) == ["accuracy", "brier"]


def test_the_settings_have_the_lambda_that_was_trained_with() -> None:
    done = trial(0.5)
    auto = dataclasses.replace(done.fitted, recipe=recipe_for(done.data), lam=0.25)
    facts = trial_facts(
        dataclasses.replace(done, fitted=auto), surrogate="pseudo_label", command="", seconds=1.0
    )
    assert facts.settings["lam"] == 0.25


def test_networks_are_counted_as_trained() -> None:
    done = trial(0.5)
    facts = trial_facts(done, surrogate="pseudo_label", command="", seconds=1.0)
    assert facts.settings["networks"] == len(done.fitted.model.members) == 2
    few, test, _ = split(SemiData(done.data.x[:40], torch.arange(40) % 2), share=0.3, labels=12)
    done = run_trial(few, test, recipe_for(few, lam=0.5, steps=5), progress=False)
    facts = trial_facts(done, surrogate="pseudo_label", command="", seconds=1.0)
    assert facts.settings["networks"] == len(done.fitted.model.members) == 1


def test_where_the_complete_case_is_kept_there_is_nothing_to_compare() -> None:
    kept = trial_facts(trial(0.0), surrogate="pseudo_label", command="", seconds=1.0)
    assert (len(kept.methods), kept.comparisons) == (1, ())
    assert kept.verdict.outcome == "not used"
    assert "this model is the complete case" in kept.verdict.sentence
    assert kept.model == ModelFacts("complete case", kept.data.labelled, refitted=False)
    whole = trial_facts(trial(0.5, 0), surrogate="pseudo_label", command="", seconds=1.0)
    assert "All rows are labelled" in whole.verdict.sentence
    (accuracy,) = (one for one in whole.estimates if one.metric == "accuracy")
    right = round(whole.runs[0].metrics["accuracy"] * whole.data.test)
    wilson = stats.binomtest(right, whole.data.test).proportion_ci(method="wilson")
    assert (accuracy.low, accuracy.high) == pytest.approx(tuple(wilson), abs=0.02)


@pytest.mark.parametrize("added", [[0.4, 0.6, 0.5, 0.7], [0.9, -0.6, 0.5, -0.1]])
def test_what_was_tried_and_left_out_has_hurt_nobody(added: list[float]) -> None:
    losses = torch.tensor([0.2, 0.9, 0.4, 0.1])
    done = trial(0.0)
    check = held_out_check(losses, losses + torch.tensor(added))
    recipe = recipe_for(done.data, surrogate="entropy", steps=5, networks=2)
    fitted = dataclasses.replace(done.fitted, check=check, recipe=recipe)
    facts = trial_facts(
        dataclasses.replace(done, fitted=fitted), surrogate="entropy", command="", seconds=1.0
    )
    assert facts.verdict.outcome == "not used"
    change = with_error("cross_entropy", check.difference, check.standard_error)
    assert change in facts.verdict.sentence


def test_what_is_worse_is_given_only_to_who_asked_for_it() -> None:
    done = trial(0.5)
    wrong = -5.0 * done.twin_logits  # sure of the other class
    asked = dataclasses.replace(done, logits=wrong)
    facts = trial_facts(asked, surrogate="pseudo_label", command="", seconds=1.0)
    assert (facts.verdict.outcome, facts.model.method) == ("not used", "complete case")
    assert "changed the Brier score by +" in facts.verdict.sentence
    recipe = dataclasses.replace(done.fitted.recipe, safe=False)
    bold = dataclasses.replace(asked, fitted=dataclasses.replace(done.fitted, recipe=recipe))
    facts = trial_facts(bold, surrogate="pseudo_label", command="", seconds=1.0)
    assert (facts.verdict.outcome, facts.model.method) == ("worse", "DePseudoLabel")


def test_the_margin_is_the_users() -> None:
    done = trial(0.5)
    one, two = (
        trial_facts(done, surrogate="pseudo_label", command="", seconds=1.0, margin=margin)
        for margin in (0.0, 2.0)
    )
    assert one.verdict.outcome != two.verdict.outcome == "no practical difference"
    assert (one.settings["margin"], two.verdict.margin) == (0.0, 2.0)


def test_a_rare_class_is_judged_and_no_number_hides_its_digits() -> None:
    """Of 200 labels three are of one class: a verdict once said "+0.000 ± 0.000"."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(400) % 200 >= 197).long()
    x = torch.randn(400, 3, generator=generator) + 3 * y[:, None]
    data, test, _ = split(SemiData(x, torch.where(torch.arange(400) < 200, y, -1)))
    assert test.y[test.labelled].bincount().tolist() in ([39, 1], [40, 1])
    done = run_trial(data, test, recipe_for(data, lam=0.01, steps=20, networks=1), progress=False)
    facts = trial_facts(done, surrogate="pseudo_label", command="", seconds=1.0)
    assert facts.verdict.outcome in OUTCOMES
    assert not re.search(r"[+−]?0\.0+ (±|to) [+−]?0\.0+\b", facts.verdict.sentence)


def test_without_a_baseline_that_trained_there_is_no_verdict() -> None:
    done = trial(0.5)
    bad = Baseline(30, 0.9, 0.7, 0.4, ("it predicts 'a' for all 30 rows",) * 3, trained=False)
    fitted = dataclasses.replace(done.fitted, baseline=bad)
    facts = trial_facts(
        dataclasses.replace(done, fitted=fitted), surrogate="pseudo_label", command="", seconds=1.0
    )
    assert facts.verdict.outcome == "no verdict"
    assert "the complete case failed to train. It predicts 'a'" in facts.verdict.sentence
    assert facts.baseline == bad
    assert RunFacts.from_dict(json.loads(json.dumps(facts.as_dict()))).baseline == bad


@pytest.fixture(scope="module")
def pooled() -> Trial:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 2
    x = torch.randn(400, 3, generator=generator) + 1.5 * y[:, None]
    data = SemiData(x, torch.where(torch.arange(400) < 120, y, -1), name="made")
    data, test, _ = split(data, share=0.5)
    return run_trial(data, test, recipe_for(data, steps=5, networks=5), progress=False)


def test_a_pool_is_compared_with_the_complete_case(pooled: Trial) -> None:
    facts = trial_facts(pooled, surrogate="pseudo_label", command="", seconds=1.0)
    assert [(one.name, one.risk, one.surrogate) for one in facts.methods] == [
        ("complete case", "complete_case", "none"),
        ("pool", "pool", "none"),
    ]
    assert facts.pool == pooled.fitted.pool
    assert {one.method for one in facts.comparisons} == {"pool"}
    assert facts.settings["teachers"] == ["graph", "linear", "trees", "kernel", "gaussians"]
    assert facts.runs[0].history
    assert not facts.runs[1].history
    known, y = pooled.test.labelled, pooled.test.y
    p = pooled.fitted.model(pooled.test.x[known]).exp()
    wanted = metrics_from_probabilities(p, y[known])
    assert facts.runs[1].metrics["brier"] == pytest.approx(wanted.brier)


def test_the_verdict_of_a_pool_tells_apart_what_brought_what(pooled: Trial) -> None:
    facts = trial_facts(pooled, surrogate="pseudo_label", command="", seconds=1.0)
    assert "Unlabelled data helped" not in facts.verdict.sentence
    pool = pooled.fitted.pool
    assert f"The unlabelled rows changed it by {pool.unlabelled.change}" in facts.verdict.sentence
    assert f"trained on the labelled rows by {pool.ensembling.change}" in facts.verdict.sentence


def test_a_pool_goes_through_facts_json(pooled: Trial, tmp_path: Path) -> None:
    facts = trial_facts(pooled, surrogate="pseudo_label", command="", seconds=1.0)
    write_facts(tmp_path, facts)
    assert read_facts(tmp_path).pool == facts.pool
