"""A complete case that did not train is restarted, and judges nothing where that fails."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from dessl import SemiData
from dessl.recipes import fit, recipe_for
from dessl.recipes.baseline import RESTARTS, Baseline, References, restarted
from dessl.recipes.held_out import HeldOutParts, held_out_parts


def clouds(n_labelled: int = 60, seed: int = 0) -> SemiData:
    """Two classes that one column tells apart, three of four rows being of the first."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.arange(200) % 4 == 3).long()
    x = torch.randn(200, 3, generator=generator)
    x[:, 0] += 4 * y
    few = torch.where(torch.arange(200) < n_labelled, y, -1)
    return SemiData(x, few, class_names=["well", "ill"])


@pytest.fixture
def parts() -> tuple[SemiData, HeldOutParts, References]:
    data = clouds()
    found = held_out_parts(data, None, members=5, seed=0)
    references = References.of(data, found)
    assert references is not None
    return data, found, references


Parts = tuple[SemiData, HeldOutParts, References]


def test_the_references_are_class_frequencies_and_a_logistic_regression(parts: Parts) -> None:
    _, found, references = parts
    wanted = []
    for part in found.data:
        y = part.y[part.labelled_rows]
        share = (float(y.sum()) + 1) / (len(y) + 2)
        wanted += [-math.log(share if label else 1 - share) for label in part.validation.y]
    assert references.losses["class frequencies"].tolist() == pytest.approx(wanted)
    own = references.losses["a logistic regression"].tolist()
    first = found.data[0]
    x, y = first.x[first.labelled_rows], first.y[first.labelled_rows]
    model = LogisticRegression().fit(x, y)
    held_out = first.validation
    log_p = torch.from_numpy(model.predict_log_proba(held_out.x))
    plain = -log_p.gather(1, held_out.y[:, None])[:, 0]
    assert sum(own[: len(plain)]) / len(plain) == pytest.approx(float(plain.mean()), abs=0.1)
    assert references.classes == 2


def sure(y: Tensor, confidence: float = 3.0) -> Tensor:
    return confidence * torch.nn.functional.one_hot(y, 2).float()


def test_a_model_that_knows_the_classes_has_trained(parts: Parts) -> None:
    _, _, references = parts
    found = references.baseline(sure(references.y))
    assert (found.trained, found.failures, found.n) == (True, (), 60)
    assert found.regression < found.frequencies
    assert found.account == ""


def test_an_overconfident_model_has_trained(parts: Parts) -> None:
    _, _, references = parts
    wrong = torch.arange(60) % 20 == 0
    logits = 40 * sure(torch.where(wrong, 1 - references.y, references.y))
    found = references.baseline(logits)
    assert found.trained
    assert found.cross_entropy > 5  # as it is
    assert not references.baseline(sure(1 - references.y)).trained
    one = torch.tensor([1.0, 0.0]).expand(60, 2)
    assert not references.baseline(one).trained


@pytest.mark.parametrize(
    ("logits", "failure"),
    [
        (lambda y: torch.tensor([1.0, 0.0]).expand(len(y), 2), "predicts 'well' for all 60"),
        (lambda y: sure(1 - y), "is higher than that of class frequencies"),
        (
            lambda y: 0.05 * sure(torch.where(torch.arange(len(y)) % 3 == 0, 1 - y, y)),
            "is higher than that of",
        ),
    ],
)
def test_what_did_not_train_is_named(parts: Parts, logits: object, failure: str) -> None:
    _, _, references = parts
    found = references.baseline(logits(references.y))  # type: ignore[operator]
    assert not found.trained
    assert failure in found.failures[0]


def test_one_class_is_right_where_the_regression_predicts_no_other(parts: Parts) -> None:
    _, _, references = parts
    constant = references.losses["class frequencies"]
    alone = dataclasses.replace(references, classes=1, losses={"class frequencies": constant})
    shares = torch.tensor([0.75, 0.25]).log().expand(60, 2)
    assert alone.baseline(shares).trained
    assert not dataclasses.replace(alone, classes=2).baseline(shares).trained


def test_few_labels_judge_no_baseline() -> None:
    data = clouds(8)
    assert References.of(data, held_out_parts(data, None, members=5, seed=0)) is None
    fitted = fit(data, recipe_for(data, lam=0, steps=2), progress=False)
    assert fitted.baseline is None


def test_a_restart_is_longer_slower_and_has_other_draws() -> None:
    recipe = recipe_for(clouds(), steps=40)
    first, second = (restarted(recipe, number).plan for number in (1, 2))
    assert (first.steps, second.steps, first.patience) == (80, 160, None)
    assert first.learning_rate == recipe.plan.learning_rate
    assert second.learning_rate == pytest.approx(recipe.plan.learning_rate / 3)
    assert len({plan.seed for plan in (recipe.plan, first, second)}) == 3


@pytest.mark.slow
def test_an_unlucky_start_is_restarted_in_a_folder_of_its_own(tmp_path: Path) -> None:
    data, built = clouds(), []

    def network() -> nn.Module:
        """Three times with units that are off for every row, then one that can learn."""
        layers = nn.Sequential(nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 2))
        built.append(layers)
        if len(built) <= 3:
            nn.init.constant_(layers[0].bias, -100.0)
        return layers

    recipe = recipe_for(data, lam=0.5, steps=30, networks=2, model=network)
    fitted = fit(data, recipe, progress=False, out=tmp_path)
    assert fitted.baseline.trained
    assert "predicts 'well' for all 24" in fitted.baseline.failures[0]
    assert {path.name for path in tmp_path.iterdir()} == {
        "complete_case-0", "complete_case-1", "restart-1",
    }  # fmt: skip
    assert len(list((tmp_path / "restart-1").iterdir())) == 4  # both risks are trained alike
    built.clear()
    again = fit(data, recipe, progress=False, out=tmp_path)
    assert torch.equal(fitted.model(data.x), again.model(data.x))
    assert again.baseline == fitted.baseline


def test_where_restarts_fail_there_is_no_verdict() -> None:
    data = clouds()
    recipe = recipe_for(data, lam=0.5, steps=1, networks=2)
    still = dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, learning_rate=1e-9))
    fitted = fit(data, still, progress=False)
    assert not fitted.baseline.trained
    assert len(fitted.baseline.failures) == RESTARTS + 1
    assert fitted.verdict.outcome == "no verdict"
    assert "Label more rows" in fitted.verdict.sentence


def test_labels_that_tell_too_little_are_not_trained_on_again() -> None:
    """Labels drawn by chance: the network memorises them, and the regression learns nothing."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 6, generator=generator)
    y = (torch.rand(200, generator=generator) < 0.5).long()
    data = SemiData(x, torch.where(torch.arange(200) < 64, y, -1))
    fitted = fit(data, recipe_for(data, teachers=None, lam=0), progress=False)
    assert fitted.baseline is not None
    assert (fitted.baseline.trained, fitted.baseline.learnable) == (False, False)
    assert len(fitted.baseline.failures) == 1
    assert fitted.verdict.sentence.startswith(
        "No verdict: the labels tell too little. Neither the complete case nor a logistic "
        "regression predicts 64 held-out labels clearly better than the class shares."
    )
    assert "failed to train" not in fitted.verdict.sentence


def test_what_was_restarted_is_told() -> None:
    found = Baseline(60, 0.2, 0.6, 0.3, ("it predicts 'a' for all rows",), trained=True)
    assert "restarted 1 time with more steps" in found.account
    twice = dataclasses.replace(found, failures=("bad", "worse", "it is bad"), trained=False)
    assert twice.account.startswith("It is bad, even though it was restarted 2 times")
