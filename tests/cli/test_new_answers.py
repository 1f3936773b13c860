"""The teachers' answers to new rows, for a run that does not use them."""

import dataclasses
from pathlib import Path

import pytest
from tests.teachers.three_clouds import NAMES, taught

from dessl.cli.new_answers import answers_to
from dessl.recipes import TaughtPredictor
from dessl.saved import SavedModel


@pytest.mark.parametrize(
    ("student_loss", "predicts"), [(0.0, "student"), (9.0, "model without answers")]
)
def test_answers_that_are_not_used_are_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], student_loss: float, predicts: str
) -> None:
    """Neither counted nor checked: all rows are predicted alike."""
    found = taught("good", at_prediction=True)
    losses = {"student": student_loss, "with_answers": 9.0}
    choices = {
        name: dataclasses.replace(getattr(found.report, name), pooled_loss=loss)
        for name, loss in losses.items()
    }
    deaf = dataclasses.replace(found, report=dataclasses.replace(found.report, **choices))
    details = {"teachers": {"good": ["good"]}}
    model = SavedModel(TaughtPredictor(deaf), NAMES, (4,), image=False, details=details)
    source = tmp_path / "new.csv"
    source.write_text("a,b,c,d,good\n1,2,3,4,\n1,2,3,4,no class\n")
    assert answers_to(model, str(source), 2) is None
    assert capsys.readouterr().err == (
        "Note: this run does not use the answers to new rows (they gave no clear gain on gold "
        f"rows): the {predicts} predicts all rows.\n"
    )
