"""A classifier from a folder: its parameters and classes, or what a run of the command line has."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from dessl import DeSSLClassifier, save_model
from dessl.estimator.stored import model_folder
from dessl.saved import SavedModelError

FAST = {"steps": 4, "networks": 1, "risk": "complete_case", "random_state": 0}


@pytest.fixture(scope="module")
def images() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.integers(256, size=(40, 1, 8, 8), dtype=np.uint8), np.arange(40) % 3 - 1


def test_a_run_of_images_or_arrays_takes_arrays(tmp_path: Path, images: tuple) -> None:
    X, few = images
    for name, x in (("images", X), ("rows", X.reshape(40, -1)[:, :3] / 255)):
        fitted = DeSSLClassifier(**FAST).fit(x, few)
        save_model(tmp_path / name / "model", dataclasses.replace(fitted._saved, details={}))
        clf = DeSSLClassifier.from_pretrained(tmp_path / name)
        assert clf.classes_.tolist() == [0, 1]
        assert np.array_equal(clf.predict(x), fitted.predict(x))
        assert (clf.n_features_in_, clf.n_iter_) == (x.shape[1], None)
        assert clf.score(x, few) == fitted.score(x, few)
        again = DeSSLClassifier.from_pretrained(clf.save(tmp_path / name / "again"))
        assert np.array_equal(again.predict(x), fitted.predict(x))


def test_parameters_have_their_present_names(tmp_path: Path, images: tuple) -> None:
    place = DeSSLClassifier(**FAST).fit(*images).save(tmp_path / "model")
    settings = json.loads((place / "settings.json").read_text())
    params = settings["details"]["params"]
    params["members"] = params.pop("networks")
    (place / "settings.json").write_text(json.dumps(settings))
    assert DeSSLClassifier.from_pretrained(place).networks == 1
    params["colour"] = "blue"
    (place / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(SavedModelError, match=r"damaged: .*'colour'"):
        DeSSLClassifier.from_pretrained(place)


def test_a_models_own_folder_comes_first(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    assert model_folder(tmp_path) == tmp_path / "model"
    (tmp_path / "settings.json").touch()
    assert model_folder(tmp_path) == tmp_path


@pytest.mark.parametrize("kind", [list, tuple])
def test_names_of_teachers_are_kept(kind: type, tmp_path: Path, images: tuple) -> None:
    X, few = images[0].reshape(40, -1)[:, :3] / 255, images[1]
    names = kind(["linear", "trees"])
    clf = DeSSLClassifier(teachers=names, steps=4, networks=1, random_state=0).fit(X, few)
    place = clf.save(tmp_path / "model")
    assert list(DeSSLClassifier.from_pretrained(place).teachers) == ["linear", "trees"]
