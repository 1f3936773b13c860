import numpy as np
import pytest

from dessl.report.curves import risk_parts
from dessl.results.facts import RunFacts


def test_the_parts_add_up_to_the_risk(facts: RunFacts) -> None:
    method = facts.methods[2]
    runs = [run for run in facts.runs if run.method == method.name]
    parts = risk_parts(method, runs)
    assert len(parts) == 4
    *terms, risk = ([value for _, value in line] for line in parts.values())
    assert np.sum(terms, axis=0) == pytest.approx(risk, abs=1e-6)
    assert len(risk_parts(facts.methods[0], runs[:1])) == 1
