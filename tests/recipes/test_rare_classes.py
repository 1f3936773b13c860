"""Networks shrunk towards the class shares: the best ε, when it is used, and where it is not."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize

from dessl.data import SemiData
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import PooledPredictor, Predictor, predicted_log_proba
from dessl.recipes.rare_classes import MOST, doubt_towards_shares
from dessl.saved import SavedModel, load_model, save_model


def held_out(n: int, positives: int, sharpness: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of a model that knows a little, and is as sure of it as ``sharpness`` says."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(n) < positives).long()
    score = 0.8 * y + torch.randn(n, generator=generator)
    return torch.stack([torch.zeros(n), sharpness * score - 3], dim=1), y


@pytest.mark.parametrize("sharpness", [0.5, 3.0, 6.0])
def test_it_is_the_mixture_of_least_loss(sharpness: float) -> None:
    logits, y = held_out(300, 12, sharpness)
    chances = torch.where(y == 1, 0.8, 0.4)
    for given, propensity in ((torch.ones(300), None), (1 / chances, chances)):
        weights = (given / given.mean()).double()
        counts = torch.stack([weights[y == 0].sum(), weights[y == 1].sum()]).double()
        shares = (counts + 1) / 302
        p = logits.double().softmax(1)

        def loss(epsilon: float, p=p, shares=shares, weights=weights) -> float:
            mixed = (1 - epsilon) * p + epsilon * shares
            return float(-(weights * mixed[torch.arange(300), y].log()).sum())

        best = optimize.minimize_scalar(loss, bounds=(0, MOST), method="bounded").x
        found = doubt_towards_shares(logits, y, propensity)
        epsilon = float(found.sum())
        assert loss(epsilon) == pytest.approx(loss(best), abs=1e-3)
        if epsilon:
            assert torch.allclose(found / epsilon, shares)


def test_only_rare_classes_count() -> None:
    logits, y = held_out(300, 12, 6.0)
    assert doubt_towards_shares(logits, y).sum() > 0.1
    assert not doubt_towards_shares(*held_out(300, 31, 6.0)).any()  # more than a tenth
    assert not doubt_towards_shares(logits[y == 0], y[y == 0]).any()  # one class
    assert not doubt_towards_shares(logits[8:17], y[8:17]).any()  # few labels
    three = torch.cat([logits, torch.full((300, 1), -1.0)], dim=1)
    assert not doubt_towards_shares(three, torch.arange(300) % 3).any()


def rows(share: float, n: int = 1200) -> SemiData:
    """300 labels of noise, with this share of positives."""
    random = np.random.default_rng(0)
    y = np.full(n, -1)
    y[:300] = np.arange(300) < share * 300
    return SemiData(torch.tensor(random.normal(size=(n, 12)), dtype=torch.float32), y)


def test_networks_that_learn_nothing_predict_the_shares(tmp_path: Path) -> None:
    data = rows(0.04)
    recipe = recipe_for(data, teachers=["linear"], networks=5, steps=60)
    found = fit(data, recipe, progress=False)
    twin = found.complete_case
    assert isinstance(twin, Predictor)
    assert twin.doubt is not None
    assert twin.doubt.shape == (2,)
    before = Predictor(twin.members, twin.mean, twin.std)
    new = torch.randn(4000, 12, generator=torch.Generator().manual_seed(1))
    p, alone = (predicted_log_proba(one, new).exp()[:, 1] for one in (twin, before))

    def loss(p: torch.Tensor) -> float:  # over labels that do not depend on x
        return float(-(0.04 * p.log() + 0.96 * (1 - p).log()).mean())

    assert loss(p) < loss(alone) - 0.003
    assert bool((p.argsort() == alone.argsort()).double().mean() > 0.99)  # the order stays
    if isinstance(found.model, PooledPredictor):
        assert found.model.networks.doubt is None
    saved = SavedModel(
        twin,
        ("no", "yes"),
        (12,),
        image=False,
        architecture=recipe.model,  # type: ignore[arg-type]
    )
    save_model(tmp_path / "model", saved)
    loaded = load_model(tmp_path / "model").model
    assert torch.equal(predicted_log_proba(loaded, new), predicted_log_proba(twin, new))


def test_networks_of_balanced_classes_are_not_changed() -> None:
    data = rows(0.4)
    found = fit(data, recipe_for(data, teachers=["linear"], steps=20), progress=False)
    assert isinstance(found.complete_case, Predictor)
    assert found.complete_case.doubt is None
