"""The verdict: use it, use it with care, do not use it; as text, JSON, HTML and facts."""

import json
from pathlib import Path

import pytest
import torch

from dessl._entries import read_as
from dessl.data import DataError, SemiData
from dessl.report.page import write_audit
from dessl.safety import Audit, audit


def clean(n: int = 500, n_l: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n, 3, generator=generator)
    y = (x[:, 0] + 0.7 * torch.randn(n, generator=generator) > 0).long()
    return x, torch.where(torch.arange(n) < n_l, y, -1)


def test_clean_data_can_be_used() -> None:
    found = audit(SemiData(*clean(), name="clean"), teachers=("kernel",))
    assert found.outcome == "use it"
    assert found.reasons == ()
    assert len(found.tests) == 4
    assert found.gains[0].term
    assert "p = " in str(found)
    assert read_as(Audit, json.loads(json.dumps(found.as_dict()))) == found


def test_shifted_rows_are_not_to_be_used_and_propensities_change_that() -> None:
    x, y = clean()
    x[100:, 1] += 2.0
    found = audit(SemiData(x, y), cheap=True)
    assert found.outcome == "do not use it"
    assert "not missing at random" in found.reasons[0]
    assert found.sentence.startswith(
        "Do not use the unlabelled rows. Labels are not missing at random"
    )
    weighed = audit(SemiData(x, y, propensity=torch.full((500,), 0.2)), cheap=True)
    assert weighed.outcome == "use it with care"


def patients(seed: int, *, shift: float = 0.0) -> tuple[SemiData, torch.Tensor]:
    """Eight rows of each of 80 patients, half of whom are labelled with all their rows."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.arange(80).repeat_interleave(8)
    ill = torch.randint(2, (80,), generator=generator)
    means = torch.randn(80, 6, generator=generator) + ill[:, None]
    x = means[groups] + 0.4 * torch.randn(640, 6, generator=generator)
    chance = torch.rand(80, generator=generator) + shift * means[:, 0]
    labelled = (chance.argsort().argsort() < 40)[groups]
    return SemiData(x, torch.where(labelled, ill[groups], -1)), groups


def test_patients_labelled_at_random_can_be_used() -> None:
    outcomes = []
    for seed in range(12):
        data, groups = patients(seed)
        outcomes.append(audit(data, groups=groups, cheap=True).outcome)
    assert outcomes.count("use it") >= 10
    assert audit(data, cheap=True).outcome == "do not use it"  # of rows, they are no random sample


def test_patients_labelled_by_a_column_are_not_to_be_used() -> None:
    data, groups = patients(0, shift=1.0)
    found = audit(data, groups=groups.tolist(), cheap=True)
    assert found.outcome == "do not use it"
    assert (found.groups, found.labelled_groups) == (80, 40)
    assert len(found.tests) == 3  # the likelihood takes rows as independent
    assert len(found.class_propensity) == 2
    assert "whole groups: 80, 40 of them with a label." in str(found)
    assert read_as(Audit, json.loads(json.dumps(found.as_dict()))) == found
    data.groups = groups
    assert audit(data, cheap=True).tests == found.tests


def test_two_groups_are_too_few_to_find_anything(tmp_path: Path) -> None:
    x, y = clean()
    found = audit(SemiData(x, y), groups=(torch.arange(500) < 100).long(), teachers=("kernel",))
    assert all(one.p_value > 0.3 for one in found.tests)
    assert "so few that only large differences are found" in found.exchanged
    write_audit(tmp_path / "audit.html", found)
    assert found.exchanged in (tmp_path / "audit.html").read_text(encoding="utf-8")


def test_leaks_coverage_and_few_labels_are_said(tmp_path: Path) -> None:
    x, y = clean(n_l=20)
    test = (x[:4].clone(), y[:4])
    data = SemiData(x, y, class_names=["a", "b", "<c>"], test=test, name="leaky")
    found = audit(data, teachers=())
    assert found.outcome == "do not use it"
    assert "4 of 4 test rows are duplicates" in found.reasons[0]
    assert any("No label of '<c>'" in why for why in found.reasons)
    assert any("Only 20 labels" in why for why in found.reasons)
    assert "<c>" not in found._repr_html_()
    write_audit(tmp_path / "audit.html", found)
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "<c>" not in page
    assert "test rows equal to a labelled row" in page


@pytest.mark.parametrize(
    ("rare", "said"),
    [
        ([2], "The class 'c' has fewer than five labels: some folds will have none."),
        ([2, 3], "2 classes have fewer than five labels, such as 'c': some folds will have none."),
    ],
)
def test_rare_classes_are_counted_in_good_english(rare: list[int], said: str) -> None:
    x, y = clean()
    y[: len(rare)] = torch.tensor(rare)
    data = SemiData(x, y, class_names=["a", "b", "c", "d"][: 2 + len(rare)])
    assert said in audit(data, cheap=True).reasons


@pytest.mark.parametrize(("absent", "said"), [(4, "and 1 more class:"), (5, "and 2 more classes:")])
def test_absent_classes_are_counted_in_good_english(absent: int, said: str) -> None:
    x, y = clean()
    names = [*"ab", *(f"absent {k}" for k in range(absent))]
    assert any(said in why for why in audit(SemiData(x, y, class_names=names), cheap=True).reasons)


def test_data_without_any_label_or_of_one_kind() -> None:
    x, y = clean()
    with pytest.raises(DataError, match="Label some rows"):
        audit(SemiData(x, torch.full_like(y, -1), class_names=["a", "b"]))
    whole = audit(SemiData(x[:100], y[:100]), teachers=())
    assert (whole.outcome, whole.reasons, whole.tests) == ("no unlabelled rows", (), ())
    assert whole.sentence == "No unlabelled rows to audit: all rows are labelled."
    assert str(whole) == "the data: no unlabelled rows"
    assert read_as(Audit, json.loads(json.dumps(whole.as_dict()))).outcome == whole.outcome


def test_fully_labelled_rows_may_still_have_a_problem() -> None:
    x, y = clean()
    leaky = torch.cat([x[:100], 5.0 - 2 * y[:100, None]], 1)
    found = audit(SemiData(leaky, y[:100]), cheap=True)
    assert found.sentence.startswith("Use the data with care. 'column 4' gives the label away")
    same = audit(SemiData(x[:100], y[:100], test=(x[:9].clone(), y[:9])), cheap=True)
    assert same.sentence.startswith("Do not use the data. 9 of 9 test rows are duplicates")


def test_the_words_are_as_careful_as_the_p_value() -> None:
    x, y = clean()
    x[100:, 1] += 0.36  # a small shift
    found = audit(SemiData(x, y), cheap=True)
    assert 0.01 < min(one.corrected for one in found.tests) <= 0.05
    assert found.reasons[0].startswith("Labels may not be missing at random (")


def test_a_shift_that_only_a_classifier_detects_is_serious() -> None:
    x, y = clean(n=600, n_l=200)
    corner = (x[:, 1] * x[:, 2] > 0).sort(stable=True, descending=True).indices
    found = audit(SemiData(x[corner], y), teachers=())  # all labels are in two of four quarters
    by, columns, *_ = found.tests
    assert by.p_value <= 0.005 < columns.p_value
    assert found.auc >= 0.65
    assert found.outcome == "do not use it"
    assert found.reasons[0].startswith("Labels are not missing at random (")
