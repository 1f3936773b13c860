"""Mirror images: a probe tells whether they change the class, and a GPU's default heeds it."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from dessl.data import SemiData
from dessl.export.graphs import ExportError, probabilities_of
from dessl.recipes import PooledPredictor, Recipe, fit, recipe_for
from dessl.recipes.architecture import Architecture
from dessl.recipes.defaults import strong_recipe
from dessl.recipes.mirrors import FILE, Mirrors, flipping_views, probed, with_mirrors
from dessl.saved import SavedModel, load_model, save_model
from dessl.surrogates import FixMatch


def spots(*, sideways: bool, labelled: int = 100) -> SemiData:
    """A bright spot left or right, whose mirror image has the other class; or above or below."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(160) % 2
    x = torch.randint(0, 90, (160, 1, 8, 8), dtype=torch.uint8, generator=g)
    for row, side in enumerate(y.tolist()):
        spot = slice(1, 3) if side else slice(5, 7)
        place = (slice(None), spot) if sideways else (spot, slice(None))
        x[row, 0][place] += 100
    known = torch.where(torch.arange(160) < labelled, y, -1)
    return SemiData(x, known, class_names=["0", "1"])


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


def recipe(data: SemiData) -> Recipe:
    return strong_recipe(data, steps=40, model=small)


@pytest.mark.parametrize("sideways", [True, False])
def test_a_probe_tells_whether_mirrors_change_the_class(*, sideways: bool, tmp_path: Path) -> None:
    data = spots(sideways=sideways)
    found = probed(data, recipe(data), tmp_path)
    assert found.n == 40
    assert found.known > 0.2
    assert found.safe is not sideways
    assert ("No mirror images" in str(found)) is sideways
    kept = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**kept, "cost": 0.123}))
    assert probed(data, recipe(data), tmp_path).cost == 0.123  # a resumed run decides the same
    (tmp_path / FILE).write_text("[]")
    assert probed(data, recipe(data), tmp_path).cost != 0.123  # damaged: asked again


def test_few_labels_and_unsure_probes_leave_images_as_they_are() -> None:
    data = spots(sideways=False, labelled=30)
    found = probed(data, recipe(data))
    assert not found.safe
    assert "fewer than 20 held-out labels" in str(found)
    assert not Mirrors(100, known=0.5, cost=0.0, standard_error=0.1).safe
    assert not Mirrors(100, known=0.0, cost=0.0, standard_error=0.01).safe  # it has learnt nothing


def test_mirrors_are_put_into_both_views_of_a_copy() -> None:
    one = recipe(spots(sideways=True))
    assert isinstance(one.surrogate, FixMatch)
    both = flipping_views(with_mirrors(one).surrogate)
    assert [view.flip for view in both] == [True, True]
    assert [view.flip for view in flipping_views(one.surrogate)] == [False, False]


def test_the_default_of_a_gpu_is_fixmatch_debiased_and_judged() -> None:
    data = spots(sideways=False)
    found = fit(data, strong_recipe(data, steps=20, model=small), progress=False)
    assert found.mirrors is not None
    assert found.mirrors.safe
    assert found.check is not None
    assert found.lam in (0.0, 0.5)  # held-out labels decide; nothing between is tried
    assert str(found.mirrors) in found.account
    assert found.results[0].plan.select == "last"


def test_only_images_on_a_gpu_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = spots(sideways=False)
    assert not recipe_for(data).strong
    assert recipe_for(data).teachers
    cuda = torch.device("cuda")
    monkeypatch.setattr(SemiData, "device", property(lambda _: cuda))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    found = recipe_for(data)
    assert found.strong
    assert found.plan.risk == "debiased"
    assert found.plan.precision == "bf16"
    assert found.plan.unlabelled_batch == 60
    assert found.teachers
    assert not recipe_for(data, networks=5).teachers
    assert not recipe_for(data, teachers=["linear"]).strong
    assert not recipe_for(data, risk="complete_case").strong
    y = torch.tensor([0, 1] + [-1] * 500)
    for side, rows in ((32, 448), (64, 112)):
        images = SemiData(torch.zeros(502, 3, side, side, dtype=torch.uint8), y)
        assert recipe_for(images).plan.unlabelled_batch == rows
    wide = torch.zeros(502, 4, 16, 16, dtype=torch.uint8)
    assert not recipe_for(SemiData(wide, y, layout="NCHW")).strong


def test_teachers_look_at_the_networks_features_and_are_saved(tmp_path: Path) -> None:
    data = spots(sideways=False)
    model = Architecture("lenet", {"n_classes": 2, "in_channels": 1, "size": (8, 8)})
    one = dataclasses.replace(
        strong_recipe(data, steps=10), model=model, teachers=("linear", "graph"), lam=0.5
    )
    found = fit(data, one, progress=False)
    assert isinstance(found.model, PooledPredictor)
    assert found.pool is not None
    assert found.pool.n == 20  # a fifth of the labels, which the network has not seen
    assert float(found.model.networks.doubt) == pytest.approx(1 / 22)
    assert float(found.complete_case(data.x).detach().exp().max()) <= 1 - 1 / 44 + 1e-6
    pool = found.model.pool
    features = found.model.networks.features(data.x)
    assert features.shape[1] not in (64, 2)
    members = {name: one.predict_log_proba(features.cpu()) for name, one in pool.members.items()}
    members[pool.weights.anchor] = found.model.networks(data.x).double()
    expected = pool.weights.combine(members)
    torch.testing.assert_close(found.model(data.x), expected, rtol=1e-5, atol=1e-5)
    saved = SavedModel(found.model, data.class_names, (1, 8, 8), image=True, architecture=model)
    again = load_model(save_model(tmp_path / "model", saved))
    torch.testing.assert_close(again.model(data.x), found.model(data.x))
    with pytest.raises(ExportError, match="features of the network"):
        probabilities_of(found.model)
    probabilities_of(found.model, networks_only=True)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_whole_default_on_a_gpu() -> None:
    data = spots(sideways=False).to("cuda")
    found = fit(data, recipe_for(data, steps=40), progress=False)
    assert found.mirrors is not None
    assert found.recipe.strong
    p = found.model(data.x).exp()
    torch.testing.assert_close(p.sum(1), torch.ones_like(p[:, 0]))
