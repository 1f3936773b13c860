"""Saved models: what comes back is what was saved, and damage is said."""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from sklearn.naive_bayes import GaussianNB
from torch import nn

from dessl.data import SemiData
from dessl.data.formats.columns import NumericColumn
from dessl.data.formats.encoding import TableEncoding
from dessl.recipes import PooledPredictor, Predictor, fit, recipe_for
from dessl.recipes.architecture import Architecture
from dessl.saved import SavedModel, SavedModelError, load_model, save_model
from dessl.teachers import FromClassifier, PoolWeights
from dessl.teachers.families import WITH_SPARSE, named_families
from dessl.teachers.space import Space

WIDE = {"n_features": 3, "n_classes": 2, "hidden": [10**12]}  # no machine could build it


@pytest.fixture
def saved() -> SavedModel:
    architecture = Architecture("mlp", {"n_features": 3, "n_classes": 2, "hidden": [5]})
    model = Predictor([architecture() for _ in range(2)], torch.rand(3), torch.rand(3) + 1)
    encoding = TableEncoding("sick", ("no", "yes"), (NumericColumn("age", 1.0, 2.0, 3.0, False),))
    return SavedModel(
        model, ("no", "yes"), (3,), False, architecture, encoding, details={"lam": 0.5}
    )


def test_the_same_comes_back(tmp_path: Path, saved: SavedModel) -> None:
    again = load_model(save_model(tmp_path / "model", saved))
    x = torch.randn(700, 3)
    assert torch.equal(again.predict_proba(x), saved.predict_proba(x))
    assert np.allclose(saved.predict_proba(x).sum(1), 1)
    for name in ("class_names", "shape", "image", "architecture", "encoding", "details"):
        assert getattr(again, name) == getattr(saved, name)
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "model.safetensors",
        "settings.json",
    ]


def test_images_come_back(tmp_path: Path) -> None:
    architecture = Architecture("lenet", {"n_classes": 3, "in_channels": 1, "size": (8, 8)})
    model = Predictor([architecture()], torch.full((1, 1, 1), 0.3), torch.full((1, 1, 1), 0.4))
    saved = SavedModel(
        model, ("a", "b", "c"), (1, 8, 8), image=True, architecture=architecture, bits=12
    )
    again = load_model(save_model(tmp_path / "model", saved))
    assert again.bits == 12
    x = np.random.default_rng(0).integers(256, size=(4, 8, 8), dtype=np.uint8)
    assert torch.equal(again.predict_proba(x), saved.predict_proba(x))
    with pytest.raises(ValueError, match="expects uint8 images of shape"):
        again.predict_proba(x.astype(np.float32)[:, None])


def test_a_network_of_ones_own_needs_its_builder(tmp_path: Path) -> None:
    own = SavedModel(
        Predictor([nn.Linear(2, 2)], torch.zeros(2), torch.ones(2)), ("a", "b"), (2,), image=False
    )
    place = save_model(tmp_path / "model", own)
    with pytest.raises(
        SavedModelError, match=r"your own network\. Pass module=, a function that builds"
    ):
        load_model(place)
    again = load_model(place, module=lambda: nn.Linear(2, 2))
    assert torch.equal(again.predict_proba(torch.eye(2)), own.predict_proba(torch.eye(2)))
    with pytest.raises(SavedModelError, match="cannot be loaded"):
        load_model(place, module=lambda: nn.Linear(3, 2))


@pytest.mark.skipif(os.name != "posix", reason="needs Unix's permissions")
def test_the_users_mask_says_who_may_read_it(tmp_path: Path, saved: SavedModel) -> None:
    before = os.umask(0o027)
    try:
        place = save_model(tmp_path / "model", saved)
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o750
    assert {file.stat().st_mode & 0o777 for file in place.iterdir()} == {0o640}


def test_a_place_that_is_taken_is_refused(tmp_path: Path, saved: SavedModel) -> None:
    save_model(tmp_path / "model", saved)
    with pytest.raises(FileExistsError, match="already exists"):
        save_model(tmp_path / "model", saved)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="already exists"):
        save_model(tmp_path / "link", saved)


def test_of_two_that_save_at_once_one_is_refused(
    tmp_path: Path, saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def overtaken(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        save_model(tmp_path / "model", saved)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", overtaken)
    with pytest.raises(FileExistsError, match="already exists"):
        save_model(tmp_path / "model", saved)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_classes_that_the_network_does_not_have_are_refused_before_it_is_saved(
    tmp_path: Path, saved: SavedModel
) -> None:
    with pytest.raises(ValueError, match="does not have 3 classes; got 2"):
        save_model(tmp_path / "model", dataclasses.replace(saved, class_names=("a", "b", "c")))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing(
    tmp_path: Path, saved: SavedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_model(tmp_path / "model", saved)
    assert list(tmp_path.iterdir()) == []


def test_damage_is_said(tmp_path: Path, saved: SavedModel) -> None:
    with pytest.raises(FileNotFoundError, match="no saved model was found"):
        load_model(tmp_path / "nothing")
    place = save_model(tmp_path / "model", saved)
    weights, settings = place / "model.safetensors", place / "settings.json"
    good, text = weights.read_bytes(), settings.read_text()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(SavedModelError, match="sha256"):
        load_model(place)
    weights.unlink()
    with pytest.raises(SavedModelError, match=r"not a complete saved model.*Restore it"):
        load_model(place)
    weights.write_bytes(good)
    settings.write_text(text[:-20])
    with pytest.raises(SavedModelError, match=r"not a complete saved model.*Restore it"):
        load_model(place)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "must have format 2; got 1"),
        ({"extra": 1}, "unknown entries: extra"),
        ({"architecture": {"name": "nope", "options": {}}}, "not one of dessl.MODELS"),
        ({"architecture": {"name": "mlp", "options": {"layers": 3}}}, "cannot be loaded"),
        ({"members": 3}, "settings have 3 networks, its weights 2"),
        ({"members": 10**12}, "settings have 1000000000000 networks, its weights 2"),
        (
            {"architecture": {"name": "mlp", "options": WIDE}},
            "its network and its weights differ in members.0.layers.0",
        ),
        ({"class_names": [1, 2]}, "class names are not all text"),
        ({"class_names": ["no", "yes", "perhaps"]}, "network does not have 3 classes"),
        ({"class_names": ["no", "no"]}, r"class names must differ .* \('no', 'no'\)"),
        ({"details": [1]}, "cannot be loaded"),
        ({"input": {"kind": "rows", "shape": [math.inf], "bits": 8}}, "shape must be a whole num"),
        ({"input": {"kind": "rows", "shape": [0], "bits": 8}}, "shape must be at least 1"),
        ({"input": {"kind": "rows", "shape": [3], "bits": 4}}, "bits must be between 8 and 16"),
    ],
)
def test_settings_of_something_else(
    tmp_path: Path, saved: SavedModel, change: dict, message: str
) -> None:
    place = save_model(tmp_path / "model", saved)
    settings = json.loads((place / "settings.json").read_text())
    (place / "settings.json").write_text(json.dumps(settings | change))
    with pytest.raises(SavedModelError, match=message):
        load_model(place)


@pytest.mark.parametrize("content", [save({"other": torch.zeros(1)}), b"no weights"])
def test_weights_of_something_else(tmp_path: Path, saved: SavedModel, content: bytes) -> None:
    place = save_model(tmp_path / "model", saved)
    (place / "model.safetensors").write_bytes(content)
    settings = json.loads((place / "settings.json").read_text())
    settings["sha256"] = hashlib.sha256((place / "model.safetensors").read_bytes()).hexdigest()
    (place / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SavedModelError, match="cannot be loaded"):
        load_model(place)


@pytest.fixture(scope="module")
def pooled() -> SavedModel:
    """A pool in which every built-in teacher has a weight."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 2
    x = torch.randn(300, 3, generator=generator) + y[:, None]
    data = SemiData(x, torch.where(torch.arange(300) < 60, y, -1))
    fitted = fit(data, recipe_for(data, steps=10, networks=2), progress=False)
    pool = fitted.model.pool
    named = named_families(WITH_SPARSE, Space.of(x), 0, 60)
    known = data.labelled_rows
    members = {
        family[0].name: family[0].fit(x[known], y[known], x[60:], 2) for family in named.values()
    }
    names = ("cc", *members)
    weights = PoolWeights(dict.fromkeys(names, 0.25), dict.fromkeys(names, 1.0), "cc")
    pool = dataclasses.replace(pool, weights=weights, members=members)
    model = PooledPredictor(fitted.complete_case, pool)
    return SavedModel(model, ("no", "yes"), (3,), False, fitted.recipe.model)


class TestPool:
    def test_the_same_comes_back(self, tmp_path: Path, pooled: SavedModel) -> None:
        again = load_model(save_model(tmp_path / "model", pooled))
        x = torch.randn(700, 3)
        assert torch.equal(again.predict_proba(x), pooled.predict_proba(x))
        assert again.model.pool.report == pooled.model.pool.report
        assert len(again.model.pool.members) == len(WITH_SPARSE)
        assert not torch.equal(
            again.predict_proba(x),
            dataclasses.replace(pooled, model=pooled.model.networks).predict_proba(x),
        )

    def test_a_rows_answer_does_not_depend_on_the_rows_beside_it(self, pooled: SavedModel) -> None:
        x = torch.randn(200, 3)
        alone = torch.cat([pooled.predict_proba(row[None]) for row in x])
        assert torch.allclose(alone, pooled.predict_proba(x), atol=1e-9, rtol=0)

    def test_a_classifier_of_ones_own_is_refused(self, tmp_path: Path, pooled: SavedModel) -> None:
        own = FromClassifier(GaussianNB()).fit(
            torch.randn(10, 3), torch.arange(10) % 2, torch.zeros(0, 3), 2
        )
        pool = dataclasses.replace(pooled.model.pool, members={"GaussianNB": own})
        with pytest.raises(TypeError, match="'GaussianNB' cannot be saved"):
            save_model(
                tmp_path / "model",
                dataclasses.replace(pooled, model=PooledPredictor(pooled.model.networks, pool)),
            )
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("forest.left", lambda part: part + len(part)),
            ("forest.depth", lambda part: part + 10**12),
            ("forest.column", lambda part: part + 7),
            ("mass", lambda part: part[:-1]),
            ("space.mean", lambda part: part[:-1]),
            ("prior", lambda part: torch.full_like(part, torch.nan)),
            ("landmarks", lambda part: part[:, :-1]),
            ("basis", lambda part: part[:-1]),
        ],
    )
    def test_damaged_arrays_are_said(
        self, tmp_path: Path, pooled: SavedModel, name: str, change: Callable
    ) -> None:
        place = save_model(tmp_path / "model", pooled)
        weights = place / "model.safetensors"
        tensors = load(weights.read_bytes())
        odd = [key for key in tensors if key.startswith("pool.") and key.endswith(name)]
        assert odd
        changed = save(tensors | {key: change(tensors[key]).contiguous() for key in odd})
        weights.write_bytes(changed)
        settings = json.loads((place / "settings.json").read_text())
        settings["sha256"] = hashlib.sha256(changed).hexdigest()
        (place / "settings.json").write_text(json.dumps(settings))
        with pytest.raises(SavedModelError, match="cannot be loaded"):
            load_model(place)

    @pytest.mark.parametrize(
        "change",
        [
            {"members": []},
            {"members": [{"name": "a", "kind": "pickle", "settings": {}}]},
            {"weights": {"cc": "much"}},
            {"weights": {"cc": 1.0, "other": 1.0}},
            {"weights": {}},
            {"exponents": {}},
            {"report": {"n": 3}},
            None,
            [],
        ],
    )
    def test_damaged_settings_are_said(
        self, tmp_path: Path, pooled: SavedModel, change: object
    ) -> None:
        place = save_model(tmp_path / "model", pooled)
        settings = json.loads((place / "settings.json").read_text())
        pool = settings["pool"] | change if isinstance(change, dict) else change
        (place / "settings.json").write_text(json.dumps(settings | {"pool": pool}))
        with pytest.raises(SavedModelError, match="cannot be loaded"):
            load_model(place)
