import dataclasses
import math
import re

import pytest

from dessl.report.classes import benefit_ratios, class_accuracies, class_counts
from dessl.report.page import report_html
from dessl.results.facts import MethodFacts, RunFacts


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
    assert "Terms of the risk of PseudoLabel" in page
    assert "Terms of the risk of all labels" not in page  # it has no history
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
    )
    page = report_html([many])
    assert "Shown: the 24 of 59 classes with the largest differences." in page
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
    )
    page = report_html([alone])
    assert "Shown: the 24 of 60 classes with the lowest accuracies." in page
    drawn = re.findall(r"<text[^>]*><title>(kind \d+)</title>", page)
    assert set(drawn) >= {f"kind {number}" for number in range(40, 60)}


def test_the_legend_of_bars_has_no_dashes(facts: RunFacts) -> None:
    page = report_html([facts])
    start = page.index(">Classes<")
    legend = page[page.index('class="legend"', start) :].partition("</ul>")[0]
    assert "complete case" in legend
    assert "dasharray" not in legend


def test_the_rows_of_each_class_are_listed_and_few_are_warned_of(facts: RunFacts) -> None:
    def page(counts: list[int]) -> str:
        runs = tuple(
            dataclasses.replace(run, metrics={**run.metrics, "class_counts": counts})
            for run in facts.runs
        )
        return report_html([dataclasses.replace(facts, runs=runs)])

    n = len(facts.data.class_names)
    few = page([7] + [1234] * (n - 1))
    assert "The rarest class has only 7 of these rows: even if all are right" in few
    assert "as low as 59 % (95 % interval)" in few
    assert "test rows</th>" in few
    assert "<td>1,234</td>" in few.replace(' class="number"', "")
    assert "The rarest class" not in page([1234] * n)
    assert class_counts(facts) == [] or len(class_counts(facts)) == n
