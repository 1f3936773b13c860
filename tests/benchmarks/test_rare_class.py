"""The study of networks of a rare class: its committed table, and that draws are paired."""

import json
from collections.abc import Callable
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def study(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("rare_class")


def test_the_committed_table_is_that_of_its_records(study: ModuleType) -> None:
    report = json.loads((study.RESULTS / "rare_class.json").read_text(encoding="utf-8"))
    written = (study.RESULTS / "rare_class.md").read_text(encoding="utf-8")
    assert written == study.markdown(report["results"])
    assert {r["table"] for r in report["results"]} == {*study.MADE, *study.KEEL}


def test_every_draw_has_the_same_number_of_rare_labels(
    study: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    fit = study.fit

    def watched(data, recipe, **more):
        seen.append(data.y[data.labelled_rows].bincount().tolist())
        return fit(data, recipe, **more)

    made = study.recipe_for
    monkeypatch.setattr(study, "fit", watched)
    monkeypatch.setattr(study, "recipe_for", lambda data, **more: made(data, steps=40, **more))
    found = study.measured(study.noise(), 0)
    assert seen == [[288, 12]]
    assert found["after"] <= found["before"]
    assert found["epsilon"] > 0
