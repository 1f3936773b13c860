"""Class by class: names, benefit ratios and their spread."""

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest

from dessl.results.record import Record
from dessl_paper.catalogue import load_experiment
from dessl_paper.findings import Finding
from dessl_paper.kinds.per_class import classes_figure
from dessl_paper.results import Results
from dessl_paper.writing import findings_of


def texts(pictures: dict[str, bytes] | None) -> list[str]:
    """Every text of a figure: its SVG names each before drawing it."""
    assert pictures is not None
    return re.findall(r"<!-- (.*?) -->", pictures["svg"].decode())


def test_names_of_classes_are_whole(results_of: Callable[..., Results]) -> None:
    accuracies = {"per_class_accuracy": [0.1 * k for k in range(7)]}
    results = results_of(load_experiment("medmnist", "fast"), {("pl", 1.0): [accuracies]})
    said = texts(classes_figure(results))
    assert [said.index(line) for line in ("actinic", "keratoses and", "intraepithelial")]
    assert "carcinoma" in said[said.index("intraepithelial") :][:2]


def about(findings: list[Finding], *words: str) -> Finding:
    (found,) = [one for one in findings if all(word in one.text for word in words)]
    return found


@pytest.mark.parametrize(
    ("evener", "splits", "outcome"),
    [("de_fixmatch", 2, "agrees"), ("fixmatch", 2, "differs"), ("de_fixmatch", 1, "open")],
)
def test_the_evenness_of_benefits_is_the_papers_or_not(
    results_of: Callable[..., Results], evener: str, splits: int, outcome: str
) -> None:
    low, high = [0.5] * 10, [0.9] * 10
    even, uneven = [0.8] * 9 + [0.7], [0.8] * 5 + [0.6] * 5
    rows = {("complete_case", 0.0): low, ("supervised", 0.0): high}
    rows |= {(m, 0.5): even if m == evener else uneven for m in ("fixmatch", "de_fixmatch")}
    cells = {cell: [{"per_class_accuracy": row}] * splits for cell, row in rows.items()}
    results = results_of(load_experiment("fixmatch-cifar10", "fast"), cells)
    found = about(findings_of(results), "benefit ratio over classes")
    assert found.outcome == outcome
    ratios = [(np.array(row) - 0.5) / 0.4 for row in (even, uneven)]
    for ratio in ratios:
        assert f"{ratio.std(ddof=1):.3f}" in found.text


def test_classes_without_a_ratio_have_no_spread(fixmatch: Results) -> None:
    def hurt(record: Record) -> Record:
        rows = record.metrics["per_class_accuracy"]
        rows = [0.1] * len(rows) if record.method == "supervised" else rows
        return dataclasses.replace(record, metrics=record.metrics | {"per_class_accuracy": rows})

    results = Results(fixmatch.experiment, tuple(map(hurt, fixmatch.records)))
    found = about(findings_of(results), "benefit ratio")
    assert found.outcome == "open"
    assert "in fewer than two classes" in found.text
    assert classes_figure(results)
