"""What is said of large λ: one sentence on the largest, and a verdict of them all."""

import dataclasses
import math
from collections.abc import Callable

import pytest

from dessl_paper.report.findings.all import findings_of
from dessl_paper.report.results import Results
from dessl_paper.specification import load_experiment


@pytest.mark.parametrize(
    ("at_3_59", "at_10", "outcome"),
    [  # of three splits; the paper's difference is above zero at λ = 3.59 and below at λ = 10
        ([+0.010, +0.012, +0.011], [-0.010, -0.012, -0.011], "agrees"),
        ([-0.010, -0.012, -0.011], [-0.010, -0.012, -0.011], "in part"),
        ([-0.010, -0.012, -0.011], [-0.010, +0.012, +0.011], "differs"),
        ([-0.010, +0.012, -0.011], [-0.010, -0.012, -0.011], "agrees"),
        ([-0.010, +0.012, -0.011], [-0.010, +0.012, -0.011], "open"),
        ([-0.010, -0.012, -0.011], [math.inf, math.inf, math.inf], "differs"),
    ],
)
def test_every_large_lambda_has_a_say_in_what_agrees(
    results_of: Callable[..., Results], at_3_59: list[float], at_10: list[float], outcome: str
) -> None:
    experiment = dataclasses.replace(load_experiment("mnist", "paper"), metrics=("accuracy",))
    cells = {}
    for lam, gaps in ((3.59381366, at_3_59), (10.0, at_10)):
        cells["pl", lam] = [{"accuracy": 0.94} for _ in gaps]
        cells["de_pl", lam] = [{"accuracy": 0.94 + gap} for gap in gaps]
    findings = findings_of(results_of(experiment, cells))
    (found,) = [one for one in findings if "For λ ≥ 1" in one.text]
    assert found.text.startswith("At λ = 10 ")
    assert found.outcome == outcome
    clearly_not = "; clearly not at λ = 3.59." in found.text
    assert clearly_not == (at_3_59 == [-0.010, -0.012, -0.011])
