"""Files that released versions wrote are read by this one: models, checkpoints, facts, records.

``tests/corpus/make.py`` writes them once for each release.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl import DeSSLClassifier, train
from dessl.results.facts import read_facts
from dessl.saved import load_model
from dessl.training.checkpoint import load_checkpoint
from dessl_paper.results import read_results

CORPUS = Path(__file__).parent / "corpus"
VERSIONS = sorted(place.name for place in CORPUS.iterdir() if (place / "expected.json").exists())
sys.path.insert(0, str(CORPUS))
import make  # noqa: E402

sys.path.remove(str(CORPUS))


def expected(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CORPUS / version / "expected.json").read_text())
    return found


def test_there_is_a_corpus() -> None:
    assert VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [*make.MODELS, "fit/model", "fit/complete-case"])
def test_a_saved_model_answers_as_it_did(version: str, name: str) -> None:
    model = load_model(CORPUS / version / name)
    rows = torch.zeros(2, *model.shape) if name.startswith("fit/") else make.rows()[0][:5]
    said = torch.tensor(expected(version)["answers"][name], dtype=torch.float64)
    torch.testing.assert_close(model.predict_proba(rows), said, atol=1e-5, rtol=0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["estimator", "taught"])
def test_a_saved_estimator_is_ready_to_predict(version: str, name: str) -> None:
    classifier = DeSSLClassifier.from_pretrained(CORPUS / version / name)
    said = classifier.predict_proba(make.rows()[0][:5])
    assert abs(said - expected(version)["answers"][name]).max() < 1e-5


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.filterwarnings("ignore:20 of the 20 validation rows are also labelled")
def test_a_training_is_resumed_where_it_stopped(version: str, tmp_path: Path) -> None:
    out = shutil.copytree(CORPUS / version / "checkpoint", tmp_path / "run")
    kept = (out / "history.jsonl").read_text().splitlines()
    steps: list[int] = []
    train(
        make.network, "pseudo_label", make.checkpoint_data(), make.PLAN, out=out,
        callbacks=[lambda event: steps.append(event.step)],
    )  # fmt: skip
    assert steps == list(range(expected(version)["stopped_at"] + 2, 9, 2))
    lines = (out / "history.jsonl").read_text().splitlines()
    assert lines[: len(kept) - 1] == kept[:-1]  # the last line came after the last checkpoint
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 6, 8]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["population", "divided"])
def test_other_kinds_of_training_are_resumed(
    version: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(CORPUS / version / kind, tmp_path / "run")
    own, seen = make.KINDS[kind], []
    observe = own.observe

    def seeing(run: Any, began: float) -> Any:
        seen.append(run.done)
        return observe(run, began)

    monkeypatch.setattr(own, "observe", seeing)
    make.trained(kind, out)
    assert seen == [6]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_checkpoints_of_a_fit_are_read(version: str) -> None:
    places = sorted((CORPUS / version / "fit" / "training").glob("*/checkpoints/step-*"))
    assert places
    for place in places:
        found = load_checkpoint(place)
        assert found.weights["model"]


@pytest.mark.parametrize("version", VERSIONS)
def test_facts_make_a_report(version: str, tmp_path: Path, cli: Callable[..., Any]) -> None:
    facts = read_facts(CORPUS / version / "fit")
    assert facts.data.class_names == ("no", "yes")
    page = tmp_path / "report.html"
    assert cli("report", CORPUS / version / "fit", "--out", page).code == 0
    assert facts.verdict.sentence[:40] in page.read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_a_reproduction_are_read(version: str) -> None:
    results = read_results(CORPUS / version / "reproduction")
    assert len(results.records) == 5
    assert results.methods["de_pseudo_label"] == "DePseudoLabel"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_table_is_predicted(version: str, tmp_path: Path, cli: Callable[..., Any]) -> None:
    here = CORPUS / version
    predictions = tmp_path / "predictions.csv"
    assert cli("predict", here / "fit", here / "people.csv", "--out", predictions).code == 0
    assert len(predictions.read_text().splitlines()) == 91
