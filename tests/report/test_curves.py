import re

import numpy as np
import pytest

from dessl.report.curves import over_lambda, risk_parts
from dessl.report.page import report_html
from dessl.results.facts import RunFacts


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


def test_a_sweep_is_described_by_its_ends(facts: RunFacts) -> None:
    page = report_html([facts])
    over = re.search(r"<svg[^>]*><title>accuracy over λ</title><desc>(.*?)</desc>", page)
    assert over
    at = np.mean([p.metrics["accuracy"] for p in facts.sweep if p.risk == "ssl" and p.lam == 3])
    assert f"{100 * at:.1f} at λ = 3" in over[1]
