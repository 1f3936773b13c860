"""The default network: what it sees of large images, and that it is saved, loaded and exported."""

import json
from pathlib import Path

import pytest
import torch

from dessl import SemiData
from dessl.augment import Weak
from dessl.export import export_model
from dessl.models import MODELS, FastCifar, LeNet
from dessl.models.reduced import area_averaged
from dessl.recipes import fit, recipe_for
from dessl.recipes.architecture import seen_shape
from dessl.recipes.predictor import predicted_log_proba
from dessl.saved import SavedModel, SavedModelError, load_model, save_model
from dessl.surrogates import PseudoLabel


def images(channels: int, *sides: int) -> SemiData:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randint(100, (60, channels, *sides), generator=generator) + 80 * y.view(-1, 1, 1, 1)
    return SemiData(x.to(torch.uint8), torch.where(torch.arange(60) < 30, y, -1), layout="NCHW")


@pytest.mark.parametrize(
    ("channels", "sides", "network", "seen"),
    [(1, (28, 28), LeNet, (1, 28, 28)), (1, (100, 50), LeNet, (1, 32, 16)),
     (1, (20, 600), LeNet, (1, 20, 32)),
     (3, (32, 32), FastCifar, (3, 32, 32)), (3, (64, 96), FastCifar, (3, 21, 32))],
)  # fmt: skip
def test_large_images_are_reduced(
    channels: int, sides: tuple[int, int], network: type, seen: tuple[int, ...]
) -> None:
    data = images(channels, *sides)
    built = recipe_for(data).model()
    assert seen_shape(data, whole=False) == seen
    assert recipe_for(data).reduced_to == (None if seen == (channels, *sides) else 32)
    assert isinstance(built, network)
    assert built(torch.rand(2, *seen)).shape == (2, 2)


def test_a_network_that_you_name_sees_every_pixel() -> None:
    data = images(3, 64, 64)
    recipe = recipe_for(data, model="fast_cifar")
    assert isinstance(recipe.model(), MODELS["fast_cifar"])
    assert recipe.reduced_to is None
    assert seen_shape(data, whole=True) == (3, 64, 64)


def test_your_own_views_see_every_pixel() -> None:
    recipe = recipe_for(images(3, 64, 64), surrogate=PseudoLabel(view=Weak(shift=20)))
    assert recipe.reduced_to is None
    assert recipe_for(images(3, 64, 64), surrogate="pseudo_label").reduced_to == 32


def test_large_images_are_pooled_saved_and_loaded(tmp_path: Path) -> None:
    data = images(1, 48, 40)
    recipe = recipe_for(data, steps=3)
    found = fit(data, recipe, progress=False)
    assert found.pool is not None
    p = predicted_log_proba(found.model, data.x)
    assert (p.argmax(1) == torch.arange(60) % 2).float().mean() > 0.95
    saved = SavedModel(found.model, ("a", "b"), (1, 48, 40), image=True, architecture=recipe.model)
    save_model(tmp_path / "model", saved)
    again = load_model(tmp_path / "model")
    torch.testing.assert_close(predicted_log_proba(again.model, data.x), p)
    export_model(tmp_path / "model.pt2", again)  # which compares the predictions


def test_a_saved_model_with_giant_rows_is_refused(tmp_path: Path) -> None:
    data = images(1, 48, 40)
    recipe = recipe_for(data, steps=1)
    found = fit(data, recipe, progress=False)
    saved = SavedModel(found.model, ("a", "b"), (1, 48, 40), image=True, architecture=recipe.model)
    save_model(tmp_path / "model", saved)
    settings = tmp_path / "model" / "settings.json"
    entries = json.loads(settings.read_text())
    entries["input"]["shape"] = [1, 60_000, 50_000]
    settings.write_text(json.dumps(entries))
    with pytest.raises(SavedModelError, match="its rows have 3,000,000,000 values"):
        load_model(tmp_path / "model")


def test_large_images_cost_little_memory() -> None:
    """What networks and teachers use is the reduced images, made a few at a time."""
    data = images(3, 64, 64)
    found = fit(data, recipe_for(data, steps=2), progress=False)
    whole = predicted_log_proba(found.model, data.x)
    small = predicted_log_proba(found.model, area_averaged(data.x, 32))
    torch.testing.assert_close(whole, small)


@pytest.mark.parametrize("shape", [(64, 64, 3), (64, 64, 1)])
def test_float_images_with_channels_last_are_named_as_given(shape: tuple[int, ...]) -> None:
    data = SemiData(torch.rand(20, *shape), torch.arange(20) % 2)
    with pytest.raises(ValueError, match="need their channels first") as error:
        recipe_for(data)
    assert str(shape) in str(error.value)


def test_a_damaged_reduction_is_refused(tmp_path: Path) -> None:
    data = images(1, 48, 40)
    recipe = recipe_for(data, steps=1, teachers=None, lam=0.0)
    model = fit(data, recipe, progress=False).model
    model.longest.fill_(-3)
    saved = SavedModel(model, ("a", "b"), (1, 48, 40), image=True, architecture=recipe.model)
    save_model(tmp_path / "model", saved)
    with pytest.raises(SavedModelError, match="reduced to is not a number of pixels"):
        load_model(tmp_path / "model")
