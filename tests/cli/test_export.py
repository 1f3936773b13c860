"""``dessl export``: which model is exported, and what is said of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dessl.cli.predict import run_model
from dessl.export import ExportError
from dessl.export.files import Exported
from dessl.saved import SavedModel

FIT = Path(__file__).parents[1] / "corpus" / "0.1.0.dev0" / "fit"
Cli = Callable[..., Any]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked for; graphs themselves are tested in tests/export."""
    calls, asked = [], {}

    def loaded(run: Path, *, complete_case: bool) -> SavedModel:
        asked["complete_case"] = complete_case
        return run_model(run, complete_case=complete_case)

    def export_model(path: Path, model: SavedModel, **options: Any) -> Exported:
        assert model.shape
        calls.append({"path": path, **options, **asked})
        return Exported(path, path.with_name("m.json"), ("network", "linear"), 3.2e-7, 0.0)

    monkeypatch.setattr("dessl.cli.export.run_model", loaded)
    monkeypatch.setattr("dessl.export.export_model", export_model)
    return calls


def test_what_was_exported_is_shown(cli: Cli, exported: list[dict[str, Any]]) -> None:
    code, out, err = cli("export", FIT, "--out", "m.onnx")
    assert code == 0, err
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["Exported:", "network, linear"],
        ["Checked:", "probabilities differ from the model's by at most 3e-07"],
        ["Graph:", "m.onnx"],
        ["Inputs:", "m.json"],
    ]
    usual = {"format": None, "networks_only": False, "complete_case": False}
    assert exported == [{"path": Path("m.onnx"), **usual}]


def test_json_and_options(cli: Cli, exported: list[dict[str, Any]]) -> None:
    options = ("--out", "m", "--format", "pt2", "--networks-only", "--complete-case", "--json")
    ran = cli("export", FIT, *options)
    assert json.loads(ran.out) == {
        "graph": "m", "description": "m.json", "members": ["network", "linear"],
        "difference": 3.2e-7, "tied": 0.0,
    }  # fmt: skip
    wanted = {"format": "pt2", "networks_only": True, "complete_case": True}
    assert exported == [{"path": Path("m"), **wanted}]


def test_what_cannot_be_exported_is_one_line(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ExportError("trees cannot be exported. Pass networks_only=True.")

    monkeypatch.setattr("dessl.export.export_model", refuse)
    code, out, err = cli("export", FIT, "--out", tmp_path / "m.onnx")
    assert (code, out) == (2, "")
    assert err == "dessl: trees cannot be exported. Pass networks_only=True.\n"
    assert cli("export", tmp_path / "none", "--out", "m.onnx").code == 2
    assert cli("export", FIT, "--out", "m", "--format", "h5").code == 2
