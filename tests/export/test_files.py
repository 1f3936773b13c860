"""Exported graphs in onnxruntime and in PyTorch predict as the model; what is beside them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn

from dessl import DeSSLClassifier, SavedModel, load_model, save_model
from dessl.export import ExportError, export_model, files, serving_rows
from dessl.recipes.predictor import Predictor
from dessl.teachers import Graph, Kernel, Linear, Trees
from dessl.teachers.patches import Patches

FAST = {"steps": 5, "networks": 1, "lam": 0.5, "random_state": 0}


@pytest.fixture(scope="module")
def pool(make_pool: Callable) -> SavedModel:
    model = make_pool(Linear(), Graph(), Kernel(), Trees(2, 10))
    return SavedModel(model, ("a", "b", "c"), (3,), image=False)


def of_onnx(path: Path, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path)
    return session.run(["probabilities"], {"rows": x})[0]


def test_a_pool_in_onnx(
    pool: SavedModel, rows: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_TIED", -1.0)  # no row has two neighbours equally far here
    with pytest.warns(UserWarning, match=r"training rows have a tie"):
        found = export_model(tmp_path / "model.onnx", pool)
    assert found.members == ("networks", *pool.model.pool.members)
    assert found.difference < 1e-6
    for n in (1, 300):  # of any number of rows
        x = rows(n, 3)
        assert np.abs(of_onnx(found.path, x.numpy()) - pool.predict_proba(x).numpy()).max() < 1e-5
    told = json.loads(found.description.read_text())
    assert told["classes"] == ["a", "b", "c"]
    assert told["input"]["shape"] == ["n", 3]
    assert told["encoding"] is None
    with pytest.raises(ValueError, match="of a model trained on a table; got a model that takes"):
        serving_rows(found.description, pd.DataFrame(rows(2, 0)))


def test_a_pool_in_pytorchs_format(pool: SavedModel, rows: Callable, tmp_path: Path) -> None:
    found = export_model(tmp_path / "model.pt2", pool, networks_only=True)
    assert found.members == ("networks",)
    loaded = torch.export.load(found.path).module()
    for n in (1, 300):
        x = rows(n, 3)
        expected = pool.model.networks(x).exp()
        assert torch.allclose(loaded(x), expected, rtol=0, atol=1e-5)
        assert not loaded(x).requires_grad


@pytest.mark.slow
def test_images_in_onnx(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
    model = Predictor([network], torch.tensor(0.5), torch.tensor(0.25))
    saved = SavedModel(model, ("no", "yes"), (1, 8, 8), image=True)
    found = export_model(tmp_path / "model.onnx", saved)
    images = np.random.default_rng(0).integers(256, size=(5, 1, 8, 8), dtype=np.uint8)
    difference = of_onnx(found.path, images) - saved.predict_proba(images).numpy()
    assert np.abs(difference).max() < 1e-5


@pytest.mark.slow
def test_images_that_the_model_reduces_in_onnx(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(25 * 32, 2))
    model = Predictor([network], torch.tensor(0.5), torch.tensor(0.01), reduced_to=32)
    saved = SavedModel(model, ("no", "yes"), (1, 40, 52), image=True)
    assert export_model(tmp_path / "model.onnx", saved).difference < 1e-5


def test_image_files_become_rows_as_the_description_says(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    model = Predictor([network], torch.tensor(0.5), torch.tensor(0.25))
    saved = SavedModel(model, ("no", "yes"), (1, 8, 8), image=True, bits=12)
    found = export_model(tmp_path / "model.pt2", saved)
    steps = json.loads(found.description.read_bytes())["input"]["preparation"]
    assert "keep the upper 8 of its lower 12: shift them right by 4" in steps[1]
    (tmp_path / "scans" / "p1").mkdir(parents=True)
    values = np.random.default_rng(0).integers(4096, size=(9, 10)).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / "scans" / "p1" / "b.png")
    Image.new("RGB", (8, 8), (9, 9, 9)).save(tmp_path / "scans" / "a.png")
    rows = serving_rows(found.description, tmp_path / "scans")
    assert (rows.shape, rows.dtype) == ((2, 1, 8, 8), np.uint8)
    assert (rows[0] == 9).all()
    shifted = Image.fromarray((values >> 4).astype(np.uint8))
    assert np.array_equal(rows[1, 0], shifted.resize((8, 8), Image.Resampling.BICUBIC))
    assert np.array_equal(serving_rows(found.description, tmp_path / "scans/a.png"), rows[:1])


def test_a_classifier_of_data_frames(tmp_path: Path, cli: object) -> None:
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"age": draw.normal(40, 10, 60), "town": draw.choice(["Oslo", "Bergen"], 60)})
    X.loc[::5, "age"] = np.nan
    clf = DeSSLClassifier(**FAST).fit(X, np.arange(60) % 3 - 1)
    found = clf.export(tmp_path / "direct.pt2")
    x = serving_rows(found.description, X)
    loaded = torch.export.load(found.path).module()
    assert np.abs(loaded(torch.from_numpy(x)).numpy() - clf.predict_proba(X)).max() < 1e-5
    X.to_csv(tmp_path / "new.csv", sep=";", decimal=",", index=False)
    assert np.array_equal(serving_rows(found.description, tmp_path / "new.csv"), x)
    X.assign(age=9999.0).to_csv(tmp_path / "far.csv", index=False)
    with pytest.warns(UserWarning, match=r"far\.csv: numbers far outside the range of the train"):
        serving_rows(found.description, tmp_path / "far.csv")  # as dessl predict warns
    with pytest.raises(TypeError, match="a data frame or the path of a table; got ndarray"):
        serving_rows(found.description, X.to_numpy())
    run = tmp_path / "run"
    save_model(run / "model", clf._saved)
    code, shown, err = cli("export", run, "--out", tmp_path / "model.bin", "--format", "pt2")
    assert (code, err) == (0, "")
    assert "Exported: networks\n" in shown
    assert json.loads((tmp_path / "model.bin.json").read_text())["encoding"] is not None
    code, _, err = cli("export", run, "--out", tmp_path / "model.bin")
    assert code == 2
    assert "format must be 'onnx' or 'pt2'; got 'model.bin'" in err


def test_a_graph_that_predicts_otherwise_is_not_written(
    pool: SavedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_pt2", lambda graph, x: (b"", graph(x) + 1e-4))
    with pytest.raises(ExportError, match=r"to 1e-05; got a difference of 0\.0001\. Nothing was"):
        export_model(tmp_path / "model.pt2", pool)
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_cannot_be_traced_is_said(tmp_path: Path) -> None:
    class Odd(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x if float(x.sum()) > 0 else -x)

    saved = SavedModel(
        Predictor([Odd(3, 2)], torch.zeros(3), torch.ones(3)), ("a", "b"), (3,), image=False
    )
    with pytest.raises(
        ExportError, match=r"cannot be exported: .*torch.export must be able to trace"
    ):
        export_model(tmp_path / "model.pt2", saved)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"version": 9, "encoding": {}}',
        '{"version": 1, "encoding": {}, "input": {}}',
        '{"version": 1, "encoding": null, "input": {"type": "uint8", "shape": ["n", 1, 8]}}',
    ],
)
def test_a_description_that_is_none_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(ValueError, match=r"model\.json: expected the description"):
        serving_rows(tmp_path / "model.json", pd.DataFrame({"a": [1.0]}))


@pytest.mark.parametrize("suffix", ["onnx", "pt2"])
def test_a_pool_on_patches_of_images(tmp_path: Path, suffix: str) -> None:
    draw = np.random.default_rng(0)
    X = draw.integers(60, size=(140, 1, 20, 20), dtype=np.uint8)
    labels = np.arange(140) % 2
    X[labels == 1, 0, 4:8] += 100
    y = np.where(np.arange(140) < 60, labels, -1)
    clf = DeSSLClassifier(steps=3, networks=2, random_state=0).fit(X, y)
    save_model(tmp_path / "model", clf._saved)
    saved = load_model(tmp_path / "model")
    assert isinstance(saved.model.pool.columns, Patches)
    expected = clf.predict_proba(X)
    assert np.array_equal(saved.predict_proba(X).numpy(), expected)
    found = export_model(tmp_path / f"model.{suffix}", saved)
    if suffix == "onnx":
        exported = of_onnx(found.path, X)
    else:
        exported = torch.export.load(found.path).module()(torch.from_numpy(X)).numpy()
    assert np.abs(exported - expected).max() < 1e-5
