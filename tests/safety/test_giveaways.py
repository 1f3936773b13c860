"""Columns that are the label in other words are found; columns that predict it well are not."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from dessl._entries import read_as
from dessl.data import SemiData
from dessl.safety import Audit, audit
from dessl.safety.giveaways import Giveaway, giveaway_reasons, giveaways_in

SICK = np.arange(100) % 3 == 0  # the label of the first 100 of 300 rows; 34 are sick


def table_of(folder: Path, **columns: Sequence[object]) -> SemiData:
    """300 people, the first 100 with a label, with these columns besides age and town."""
    generator = np.random.default_rng(0)
    label = ["yes" if sick else "no" for sick in SICK] + [""] * 200
    age = generator.integers(20, 90, 300)
    town = generator.choice(["Oslo", "Bergen", "Moss"], 300)
    table = {"age": age, "town": town, **columns, "sick": label}
    rows = zip(*table.values(), strict=True)
    path = folder / "people.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [tuple(table), *rows]))
    return SemiData.from_file(path, label="sick")


def recoded(codes: Sequence[object]) -> list[object]:
    """The label of each row in other words; unlabelled rows have one too."""
    return [codes[int(row % 3 == 0)] for row in range(300)]


@pytest.mark.parametrize(
    "codes", [(0, 1), ("healthy", "ill"), (17.5, -3), ("2024-01-01", "2024-05-31")]
)
def test_a_recoded_label_is_found_under_the_name_of_its_column(
    tmp_path: Path, codes: tuple[object, object]
) -> None:
    data = table_of(tmp_path, outcome_code=recoded(codes))
    assert giveaways_in(data) == (Giveaway("outcome_code", empty=False, rows=100, exceptions=0),)


def test_an_exception_and_empty_cells_do_not_hide_it(tmp_path: Path) -> None:
    codes = recoded(("healthy", "ill"))
    codes[1] = "ill"
    assert giveaways_in(table_of(tmp_path, code=codes))[0].exceptions == 1
    codes[4] = "ill"  # two of 100
    assert giveaways_in(table_of(tmp_path, code=codes)) == ()
    codes[4] = codes[1] = "healthy"
    codes[20:60] = [""] * 40
    assert giveaways_in(table_of(tmp_path, code=codes))[0].rows == 60
    numbers = [{"ill": 1, "healthy": 0, "": ""}[str(code)] for code in codes]
    assert giveaways_in(table_of(tmp_path, code=numbers))[0].rows == 60


def test_several_categories_for_one_class_are_found(tmp_path: Path) -> None:
    drugs = ["meropenem" if row % 3 == 0 else ("none", "aspirin")[row % 2] for row in range(300)]
    data = table_of(tmp_path, drug_on_day_2=drugs)
    found = giveaways_in(data)
    assert found == (Giveaway("drug_on_day_2", False, rows=100, exceptions=0, merged=True),)
    (reason,) = giveaway_reasons(found, 100, table=True)
    assert "match the classes, several values for one class, on all 100 labelled rows" in reason
    assert audit(data, cheap=True).outcome == "use it with care"
    drugs[3] = drugs[6] = "none"  # two of 100
    assert giveaways_in(table_of(tmp_path, drug_on_day_2=drugs)) == ()


def test_many_categories_that_separate_the_classes_are_like_a_measurement(tmp_path: Path) -> None:
    places = [f"place {row % 60}" for row in range(300)]  # each has one class
    assert giveaways_in(table_of(tmp_path, place=places)) == ()


def test_cells_that_are_empty_for_one_class_alone_are_found(tmp_path: Path) -> None:
    died = [f"2024-03-{1 + row % 28:02}" if row % 3 == 0 else "" for row in range(300)]
    found = giveaways_in(table_of(tmp_path, died=died))
    assert found == (Giveaway("died", empty=True, rows=100, exceptions=0),)


def test_several_classes_and_columns_without_a_name() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    x = torch.randn(90, 4, generator=generator)
    x[:, 2] = torch.tensor([7.0, -1.0, 2.0])[y]
    assert [one.column for one in giveaways_in(SemiData(x, y))] == ["column 3"]
    x[:, 2] = (y == 0).float()  # it determines one class only
    assert giveaways_in(SemiData(x, y)) == ()


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_measurements_that_separate_the_classes_are_not_leaks(name: str) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    assert giveaways_in(SemiData(x.astype(np.float32), y)) == ()


def test_columns_that_predict_the_label_are_not_leaks(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    symptom = np.array(recoded((0, 1))) ^ (generator.random(300) < 0.05)
    score = np.array(recoded((0, 100))) + generator.integers(0, 50, 300)
    data = table_of(tmp_path, symptom=symptom.astype(int).tolist(), score=score.tolist())
    assert giveaways_in(data) == ()


def test_few_labels_or_a_rare_class_are_no_evidence() -> None:
    y = torch.arange(12) % 2
    assert giveaways_in(SemiData(y[:, None].float(), y)) == ()
    rare = (torch.arange(1000) < 10).long()
    constant = torch.zeros(1000, 1)
    constant[-1] = 1.0
    assert giveaways_in(SemiData(constant, rare)) == ()
    imprecise = (torch.arange(1000) < 20).float()[:, None]  # half of its rows are of the rare class
    assert giveaways_in(SemiData(imprecise, rare)) == ()
    columns = torch.rand(20, 5000, generator=torch.Generator().manual_seed(0)) < 0.15
    y = (torch.arange(20) < 3).long()
    assert (columns.long() == y[:, None]).all(0).any()  # by chance
    assert giveaways_in(SemiData(columns.float(), y)) == ()


def test_pictures_have_no_columns() -> None:
    x = (torch.arange(60) % 2 * 255).to(torch.uint8)[:, None, None, None].expand(60, 1, 2, 2)
    assert giveaways_in(SemiData(x.contiguous(), torch.arange(60) % 2)) == ()


def test_a_long_table_is_screened_by_a_few_rows_and_counted_on_all() -> None:
    y = torch.arange(5000) % 2
    x = torch.rand(5000, 3)
    x[:, 1] = y
    x[:30, 1] = 1 - x[:30, 1]
    assert giveaways_in(SemiData(x, y)) == (Giveaway("column 2", False, 5000, 30),)


def test_the_reason_says_what_to_do() -> None:
    code = Giveaway("outcome code", empty=False, rows=100, exceptions=0)
    assert giveaway_reasons((code,), 100, table=True) == [
        "'outcome code' gives the label away: its values match the classes one to one on all 100 "
        "labelled rows. If it is not known when you predict, drop it: --ignore 'outcome code' "
        "(ignore= in Python)."
    ]
    partly = dataclasses.replace(code, exceptions=1)
    assert "on 99 of 100 labelled rows." in giveaway_reasons((partly,), 100, table=True)[0]
    some = giveaway_reasons((partly,), 120, table=False)[0]
    assert "on 99 of 100 labelled rows with a value." in some
    assert some.endswith("drop it from x.")
    empty = Giveaway("died", empty=True, rows=1200, exceptions=0)
    assert (
        "'died' gives the label away: which of its cells are empty matches the classes one to one "
        "on all 1,200 labelled rows."
    ) in giveaway_reasons((empty,), 1200, table=True)[0]
    many = giveaway_reasons((code,) * 5, 100, table=True)
    assert many[3:] == ["2 more columns give the label away in the same way."]
    assert giveaway_reasons((), 100, table=True) == []


def test_the_verdict_becomes_care_and_json_has_the_column(tmp_path: Path) -> None:
    data = table_of(tmp_path, outcome_code=recoded((0, 1)))
    for cheap in (True, False):
        found = audit(data, cheap=cheap, teachers=())
        assert found.outcome == "use it with care"
        assert found.sentence.startswith(
            "Use the unlabelled rows with care. 'outcome_code' gives the label away"
        )
        entries = json.loads(json.dumps(found.as_dict()))
        assert entries["giveaways"][0]["column"] == "outcome_code"
        assert read_as(Audit, entries) == found
        del entries["giveaways"]  # as in files of older versions
        assert read_as(Audit, entries).giveaways == ()
    assert audit(table_of(tmp_path), cheap=True).giveaways == ()


def test_it_is_listed_first_but_does_not_decide_alone(tmp_path: Path) -> None:
    codes = recoded((0, 1))[:100] + [""] * 200  # filled in with the label
    found = audit(table_of(tmp_path, outcome_code=codes), cheap=True)
    assert found.outcome == "do not use it"
    leak, missing = found.reasons[:2]  # a leak may be the cause of the rest
    assert leak.startswith("'outcome_code' gives the label away")
    assert missing.startswith("Labels are not missing at random")
    assert found.sentence == f"Do not use the unlabelled rows. {missing} {leak}"


def test_a_column_of_few_groups_matches_their_classes_by_chance() -> None:
    groups = torch.arange(8).repeat_interleave(6)
    data = SemiData((groups % 2)[:, None].float(), groups % 2)
    assert [one.rows for one in giveaways_in(data)] == [48]
    assert giveaways_in(data, groups) == ()
    assert [one.rows for one in giveaways_in(data, torch.arange(48) // 2)] == [48]
