import dataclasses
import math
import re

import numpy as np
import pytest

from dessl.report.axis import Axis
from dessl.report.facts import MethodFacts, RunFacts
from dessl.report.page import report_html
from dessl.report.sections.learning_curves import risk_parts
from dessl.report.sections.per_class import benefit_ratios, class_accuracies
from dessl.report.sections.reliability import pooled
from dessl.report.sections.sweep import over_lambda


def test_pooled_bins_are_those_of_all_predictions_together(facts: RunFacts) -> None:
    runs = [run for run in facts.runs if run.method == "PseudoLabel"]
    bins = pooled(runs)
    assert sum(b.rows for b in bins) == sum(run.metrics["n"] for run in runs)
    right = sum(b.rows * b.accuracy for b in bins)
    assert right == pytest.approx(sum(r.metrics["n"] * r.metrics["accuracy"] for r in runs))


def test_the_parts_add_up_to_the_risk(facts: RunFacts) -> None:
    method = facts.methods[2]
    runs = [run for run in facts.runs if run.method == method.name]
    parts = risk_parts(method, runs)
    assert len(parts) == 4
    *terms, risk = ([value for _, value in line] for line in parts.values())
    assert np.sum(terms, axis=0) == pytest.approx(risk, abs=1e-6)
    assert len(risk_parts(facts.methods[0], runs[:1])) == 1


def test_sweep_means_are_over_seeds(facts: RunFacts) -> None:
    curves = over_lambda(facts.sweep, "accuracy")
    at = [p.metrics["accuracy"] for p in facts.sweep if p.risk == "ssl" and p.lam == 3.0]
    assert len(at) == 2
    assert curves["ssl"][3.0].mean == pytest.approx(np.mean(at))


def test_a_plot_of_shares_ends_at_100_per_cent(facts: RunFacts) -> None:
    assert Axis.of([96.0, 96.0], within=(0, 100)).high == 100
    assert Axis.of([0.0, 0.0], within=(0, math.inf)).low == 0
    page = report_html([facts])
    over = re.search(r"<svg[^>]*><title>accuracy over λ</title><desc>(.*?)</desc>", page)
    assert over
    at = np.mean([p.metrics["accuracy"] for p in facts.sweep if p.risk == "ssl" and p.lam == 3])
    assert f"{100 * at:.1f} at λ = 3" in over[1]


def test_benefit_ratios_need_a_run_with_all_labels(facts: RunFacts) -> None:
    found = {m.name: class_accuracies(facts, m.name) for m in facts.methods}
    assert benefit_ratios(facts, found) == {}
    full = MethodFacts("all labels", "supervised", "pseudo_label", 0.0)
    perfect = [
        dataclasses.replace(
            run, method="all labels", metrics={"per_class_accuracy": [1.0] * 10}, history=[]
        )
        for run in facts.runs
        if run.method == "complete case"
    ]
    more = dataclasses.replace(facts, methods=(*facts.methods, full), runs=(*facts.runs, *perfect))
    found = {m.name: class_accuracies(more, m.name) for m in more.methods}
    ratios = benefit_ratios(more, found)
    assert list(ratios) == ["PseudoLabel", "DePseudoLabel"]
    for number, ratio in enumerate(ratios["PseudoLabel"]):
        room = 1 - found["complete case"][number]
        gain = found["PseudoLabel"][number] - found["complete case"][number]
        assert ratio == pytest.approx(gain / room, nan_ok=True) if room else math.isnan(ratio)
    page = report_html([more])
    assert page.count("<title>benefit ratio of each class</title>") == 2
    assert "Parts of the risk of PseudoLabel" in page
    assert "Parts of the risk of all labels" not in page  # it has no history
    assert "<title>benefit ratio" not in report_html([facts])
    hurt = [0.0] * 10
    runs = tuple(
        dataclasses.replace(run, metrics={"per_class_accuracy": hurt})
        if run.method == "all labels"
        else run
        for run in more.runs
    )
    page = report_html([dataclasses.replace(more, runs=runs)])
    assert "PseudoLabel –, DePseudoLabel –" in page
    assert not re.search(r"\bnan\b", page)


def test_of_many_classes_those_that_differ_most_are_drawn_and_all_are_listed(
    facts: RunFacts,
) -> None:
    names = tuple(f"kind {number}" for number in range(60))
    best = {"complete case": 0.5, "PseudoLabel": 0.5, "DePseudoLabel": 0.9}

    def accuracies(method: str) -> list[float | None]:
        return [best[method] if number >= 40 else None if number == 7 else 0.5
                for number in range(60)]  # fmt: skip

    many = dataclasses.replace(
        facts,
        data=dataclasses.replace(facts.data, class_names=names),
        runs=tuple(
            dataclasses.replace(run, metrics={"per_class_accuracy": accuracies(run.method)})
            for run in facts.runs
        ),
        sweep=(),
    )
    page = report_html([many])
    assert "The 24 classes with the largest differences of 59." in page
    drawn = re.findall(r"<text[^>]*><title>(kind \d+)</title>", page)
    assert len(drawn) == 24
    assert set(drawn) >= {f"kind {number}" for number in range(40, 60)}
    listed = re.findall(r'<th scope="row"><bdi>(kind \d+)</bdi></th>', page)
    assert listed == [name for name in names if name != "kind 7"]


def test_of_many_classes_of_one_method_the_worst_are_drawn(facts: RunFacts) -> None:
    method = facts.methods[0]
    accuracies = [0.9] * 40 + [0.1] * 20
    alone = dataclasses.replace(
        facts,
        data=dataclasses.replace(facts.data, class_names=tuple(f"kind {k}" for k in range(60))),
        methods=(method,),
        runs=tuple(
            dataclasses.replace(run, metrics={"per_class_accuracy": accuracies})
            for run in facts.runs
            if run.method == method.name
        ),
        comparisons=(),
        sweep=(),
    )
    page = report_html([alone])
    assert "The 24 classes with the lowest accuracies of 60." in page
    drawn = re.findall(r"<text[^>]*><title>(kind \d+)</title>", page)
    assert set(drawn) >= {f"kind {number}" for number in range(40, 60)}


@pytest.mark.parametrize("values", [[0.0], [3.0, 3.0], [math.nan], [-1e-9, 1e-9], [1e6, 2e6]])
def test_an_axis_holds_its_values_between_round_ends(values: list[float]) -> None:
    axis = Axis.of(values)
    assert axis.low < axis.high
    assert all(0 <= axis.share(value) <= 1 for value in values if math.isfinite(value))
    assert len({text for _, text in axis.ticks}) == len(axis.ticks) <= 12
