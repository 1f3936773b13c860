"""The default pool's models beside a taught student: no label is used for its own row."""

import pytest
import torch
from tests.teachers.three_clouds import data, school

from dessl import SemiData
from dessl.teachers import DEFAULT, NetworkSetting
from dessl.teachers.families import WITH_SPARSE
from dessl.teachers.other_models import OtherModels
from dessl.teachers.pool import best_of
from dessl.teachers.school import School


@pytest.fixture(scope="module")
def models() -> OtherModels:
    found = school("good", *DEFAULT).others
    assert found is not None
    return found


def test_gold_rows_are_predicted_without_their_fold(models: OtherModels) -> None:
    """Against a fit without the fold; a graph has its rows as nodes, so it is left out."""
    names = models.best()[1:]
    found = models.out_of_fold(names)
    for fold in range(5):
        held = models.folds == fold
        expected = models.without_fold(names, fold, models.gold[held])
        torch.testing.assert_close(found[:, held], expected)


def test_a_setting_is_the_best_of_its_family_by_the_given_rows(models: OtherModels) -> None:
    rows = torch.arange(30)
    for family, name in zip(models.families, models.best(rows), strict=True):
        each = {one: log_p[rows] for one, log_p in models.scores[family].items()}
        assert name == best_of(each, models.y[rows])


def test_drawn_rows_are_predicted_without_the_drawn_fold(models: OtherModels) -> None:
    one = school("good", *DEFAULT)
    rows = (one.drawn_folds == 2).nonzero().flatten()
    names, _ = one.others_out_of_fold(2)
    expected = models.without_fold(names, 2, one.evaluation_rows[rows])
    assert torch.equal(one.others_drawn[:, rows], expected)
    assert one.others_drawn.shape == (5, 54, 3)


def test_final_models_know_all_gold_rows(models: OtherModels) -> None:
    fitted = models.fitted(["linear C=1", "trees"])
    assert list(fitted) == ["linear C=1", "trees"]
    x = data().x[models.gold]
    accuracy = (fitted["trees"].predict_log_proba(x).argmax(1) == models.y).double().mean()
    assert accuracy > 0.9  # its own labels


def test_there_may_be_no_other_models() -> None:
    one = school("good")
    assert one.others is None
    assert one.others_out_of_fold()[0] == ()
    assert one.others_drawn.shape == (0, 54, 3)
    assert one.others_fitted(["linear C=1"]) == {}


def test_those_of_the_default_pool_are_used_unless_named() -> None:
    x = torch.randn(300, 150, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    setting = NetworkSetting(steps=5, student_steps=5)
    for columns, expected in ((150, WITH_SPARSE), (5, DEFAULT)):
        data = SemiData(x[:, :columns], torch.where(torch.arange(300) < 40, y, -1))
        assert tuple(School.of(data, y, setting, 0).others.families) == expected
