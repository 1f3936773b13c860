"""Symmetries: a probe tells which ones change the class, and the defaults heed it."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from dessl.augment import Symmetries
from dessl.augment.symmetries import NO_SYMMETRIES
from dessl.data import SemiData
from dessl.export.graphs import ExportError, probabilities_of
from dessl.recipes import PooledPredictor, Recipe, fit, recipe_for
from dessl.recipes.architecture import Architecture
from dessl.recipes.strong import strong_recipe
from dessl.recipes.symmetries import FILE, Cost, SymmetryProbe, probed, weak_views, with_symmetries
from dessl.saved import SavedModel, load_model, save_model
from dessl.surrogates import PseudoLabel, SoftMatch
from dessl.teachers.patches import Patches

ALL = Symmetries(flip=True, upside_down=True, turn=True)
SAFE = {
    "standing": Symmetries(upside_down=True),
    "lying": Symmetries(flip=True),
    "centred": ALL,
    "spiral": Symmetries(turn=True),
}


def spots(kind: str = "lying", *, labelled: int = 100, height: int = 8, width: int = 8) -> SemiData:
    """Images of two classes.

    A bright bar stands left or right, or lies above or below; or the centre is bright or dark; or
    four bright arms turn one way or the other.
    """
    g = torch.Generator().manual_seed(0)
    y = torch.arange(160) % 2
    x = torch.randint(0, 90, (160, 1, height, width), dtype=torch.uint8, generator=g)
    h, w = height // 8, width // 8
    for image, first in zip(x[:, 0], y.tolist(), strict=True):
        if kind == "standing":
            image[:, w : 3 * w] += 100 * first
            image[:, 5 * w : 7 * w] += 100 * (1 - first)
        elif kind == "lying":
            image[h : 3 * h] += 100 * first
            image[5 * h : 7 * h] += 100 * (1 - first)
        elif kind == "centred":
            image[2 * h : 6 * h, 2 * w : 6 * w] += 100 * first
        else:
            arm = torch.zeros_like(image)
            arm[: 2 * h, : 4 * w] = 100
            arms = sum(torch.rot90(arm, turns) for turns in range(4))
            image += arms if first else arms.flip(-1)
    known = torch.where(torch.arange(160) < labelled, y, -1)
    return SemiData(x, known, class_names=["0", "1"])


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


def recipe(data: SemiData) -> Recipe:
    return strong_recipe(data, steps=40, model=small)


@pytest.mark.parametrize("kind", SAFE)
@pytest.mark.parametrize("side", [8, 24])  # pixels, patches
def test_a_probe_tells_which_symmetries_change_the_class(kind: str, side: int) -> None:
    found = probed(spots(kind, height=side, width=side), seed=0)
    assert found.n == 100
    assert found.known > 0.2
    assert found.safe == SAFE[kind]
    assert ("flipped left to right in training" in str(found)) == (kind == "lying")


def test_a_probe_is_kept_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    data = spots()
    first = probed(data, 0, tmp_path / "run")
    place = tmp_path / "run" / FILE
    kept = json.loads(place.read_text())
    assert probed(data, 1, tmp_path / "run") == first  # a resumed run decides the same
    place.write_text(json.dumps({**kept, "known": 0.123}))
    assert probed(data, 0, tmp_path / "run").known == 0.123
    old = {"n": 40, "known": 1.0, "cost": 0.0, "standard_error": 0.1}
    odd = {**kept, "costs": {"sideways": [0.0, 0.1]}}
    short = {**kept, "costs": {"flip": [0.0]}}
    for damaged in ("[]", "{", json.dumps(old), json.dumps(odd), json.dumps(short)):
        place.write_text(damaged)
        assert probed(data, 0, tmp_path / "run") == first
        assert json.loads(place.read_text()) == kept


def test_images_that_are_not_square_are_not_turned() -> None:
    found = probed(spots("centred", width=16), 0)
    assert set(found.costs) == {"flip", "upside_down"}
    assert found.safe == Symmetries(flip=True, upside_down=True)
    assert "flipped left to right and flipped upside down in training" in str(found)


def test_few_labels_and_unsure_probes_leave_images_as_they_are() -> None:
    found = probed(spots("centred", labelled=19), 0)
    assert found == SymmetryProbe()
    assert found.safe == NO_SYMMETRIES
    assert "fewer than 20 labels" in str(found)
    unsure, sure = Cost(0.0, 0.1), Cost(0.0, 0.01)
    assert not SymmetryProbe(100, 0.5, {"flip": unsure}).is_safe("flip")
    assert SymmetryProbe(100, 0.5, {"flip": sure}).is_safe("flip")
    assert not SymmetryProbe(100, 0.0, {"flip": sure}).is_safe("flip")  # it has learnt nothing
    none = SymmetryProbe(100, -0.1, {"flip": sure})
    assert none.summary == "No image was flipped or turned in training."
    assert str(none).startswith("No image was flipped or turned in training: on 100 held-out")


def test_copies_count_as_one_label() -> None:
    data = spots("centred")
    assert probed(data, 0, groups=torch.arange(100) // 2).n == 50
    assert probed(data, 0, groups=torch.arange(100) // 20 * 2 + torch.arange(100) % 2).n == 0


@pytest.mark.parametrize(
    ("safe", "used"),
    [
        ("flip upside_down turn", ALL),
        ("flip turn", Symmetries(flip=True)),  # turns would also flip upside down
        ("upside_down turn", Symmetries(upside_down=True)),
        ("turn", Symmetries(turn=True)),
        ("flip upside_down", Symmetries(flip=True, upside_down=True)),
        ("", NO_SYMMETRIES),
    ],
)
def test_every_symmetry_in_use_has_passed_its_own_test(safe: str, used: Symmetries) -> None:
    names = Symmetries._fields
    costs = {name: Cost(0.0 if name in safe.split() else 0.5, 0.01) for name in names}
    found = SymmetryProbe(100, 1.0, costs)
    assert found.safe == used
    shown = {"flip": (True, 0), "upside_down": (True, 2), "turn": (False, 1)}
    assert all(found.is_safe(name) for name in names if shown[name] in found.safe.positions)


def test_labels_count_by_their_propensity() -> None:
    """The class of bright centres is labelled half as often; the probe sees the same shares."""
    data = spots("centred")
    chances = torch.full((160,), 0.5)
    even = SemiData(data.x, data.y, class_names=["0", "1"], propensity=chances)
    assert probed(even, 0).safe == ALL
    assert probed(even, 0).known == pytest.approx(probed(data, 0).known, rel=0.2)


def test_symmetries_are_put_into_both_views_of_a_copy() -> None:
    one = recipe(spots())
    assert isinstance(one.surrogate, SoftMatch)
    both = with_symmetries(one, Symmetries(flip=True, turn=True))
    assert len(weak_views(both.surrogate)) == 2
    for view in weak_views(both.surrogate):
        assert (view.flip, view.upside_down, view.turn) == both.symmetries
    assert not any(view.flip or view.turn for view in weak_views(one.surrogate))
    assert both.plan == one.plan  # it stops at no step before its last


def test_networks_that_see_more_positions_are_stopped_later() -> None:
    one = recipe_for(spots())
    assert with_symmetries(one, ALL).plan.patience == 2 * one.plan.patience
    assert with_symmetries(one, NO_SYMMETRIES).plan == one.plan


def test_your_own_views_are_left_alone() -> None:
    data = spots()
    assert recipe_for(data).symmetries is None
    assert recipe_for(data, surrogate="fixmatch", lam=0.5).symmetries is None
    assert recipe_for(data, surrogate=PseudoLabel()).symmetries == NO_SYMMETRIES
    assert recipe_for(SemiData(torch.rand(4, 3), [0, 1, -1, -1])).symmetries == NO_SYMMETRIES


@pytest.mark.parametrize("kind", ["centred", "standing"])
def test_the_default_of_a_cpu_uses_them_and_saves_its_pool(kind: str, tmp_path: Path) -> None:
    data = spots(kind, height=24, width=24)
    one = recipe_for(data, steps=3, networks=1)
    found = fit(data, one, out=tmp_path / "run", progress=False)
    assert found.symmetries is not None
    assert found.symmetries.safe == found.recipe.symmetries == SAFE[kind]
    assert found.account.endswith(f" {found.symmetries.summary}")
    assert isinstance(found.model, PooledPredictor)
    patches = found.model.pool.columns
    assert isinstance(patches, Patches)
    assert patches.symmetries == SAFE[kind]
    again = fit(data, one, out=tmp_path / "run", progress=False)
    assert torch.equal(again.model(data.x), found.model(data.x))
    assert isinstance(found.recipe.model, Architecture)
    kept = SavedModel(
        found.model, data.class_names, (1, 24, 24), image=True, architecture=found.recipe.model
    )
    loaded = load_model(save_model(tmp_path / "model", kept))
    assert torch.equal(loaded.model(data.x), found.model(data.x))
    without = fit(data, dataclasses.replace(one, symmetries=NO_SYMMETRIES), progress=False)
    assert without.symmetries is None
    assert "flipped" not in without.account


def test_the_default_of_a_gpu_is_fixmatch_debiased_and_judged() -> None:
    data = spots()
    found = fit(data, strong_recipe(data, steps=20, model=small), progress=False)
    assert found.symmetries is not None
    assert found.symmetries.safe == SAFE["lying"]
    assert found.check is not None
    assert found.lam in (0.0, 0.5)  # held-out labels decide; nothing between is tried
    assert found.account.endswith(f" {found.symmetries.summary}")
    assert found.results[0].plan.select == "last"


def test_only_images_on_a_gpu_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = spots()
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
    data = spots()
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
    data = spots().to("cuda")
    found = fit(data, recipe_for(data, steps=40), progress=False)
    assert found.symmetries is not None
    assert found.recipe.strong == (found.tried is None)
    p = found.model(data.x).exp()
    torch.testing.assert_close(p.sum(1), torch.ones_like(p[:, 0]))
