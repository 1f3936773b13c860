"""What ``dessl predict`` writes: the user's columns, formats, confidence, no formulas."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from torch import nn

from dessl.data.formats.columns import NumericColumn
from dessl.data.formats.encoding import TableEncoding
from dessl.models import MODELS
from dessl.recipes.architecture import Architecture
from dessl.recipes.predictor import Predictor
from dessl.saved import SavedModel, save_model

Cli = Callable[..., tuple[int, str, str]]
TABLE = 'id,name,age\n007,=1+1,-2\n008,"Å, b",0.1\n,-5,2\n'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose model says yes with probability 1 / (1 + exp(-2 age))."""
    architecture = Architecture("mlp", {"n_features": 1, "n_classes": 2, "hidden": []})
    network = MODELS["mlp"](**architecture.options)
    (layer,) = (part for part in network.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        layer.bias.zero_()
    encoding = TableEncoding("ill", ("no", "@yes"), (NumericColumn("age", 0, 0, 1, False),))
    model = Predictor([network], torch.zeros(1), torch.ones(1))
    folder = tmp_path_factory.mktemp("run")
    save_model(
        folder / "model",
        SavedModel(model, ("no", "@yes"), (1,), False, architecture, encoding),
    )
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


def test_columns_are_kept_as_they_are(cli: Cli, run: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    assert cli("predict", run, table, "--keep", "id,name", "--out", out)[0] == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["name"] for row in rows] == ["=1+1", "Å, b", "-5"]
    assert [row["id"] for row in rows] == ["007", "008", ""]
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert "age" not in rows[0]
    for row, age in zip(rows, (-2, 0.1, 2), strict=True):
        yes = torch.sigmoid(torch.tensor(2.0 * age)).item()
        assert row["p(@yes)"] == pytest.approx(yes, abs=1e-6)
        assert row["confidence"] == pytest.approx(max(yes, 1 - yes), abs=1e-6)
        assert row["prediction"] == ("@yes" if yes > 0.5 else "no")


def test_below_the_least_confidence_there_is_no_prediction(
    cli: Cli, run: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "p.parquet"
    code, shown, _ = cli("predict", run, table, "--at-least", 0.9, "--out", out, "--json")
    assert code == 0
    assert json.loads(shown)["abstained"] == 1
    assert json.loads(shown)["predicted"] == {"no": 1, "@yes": 1}
    frame = pd.read_parquet(out)
    assert frame["prediction"].fillna("?").tolist() == ["no", "?", "@yes"]
    assert "--at-least): 1" in cli("predict", run, table, "--at-least", 0.9, "--out", out)[1]


def test_no_spreadsheet_runs_a_cell(cli: Cli, run: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    assert cli("predict", run, table, "--keep-all", "--out", out)[0] == 0
    frame = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert frame["name"].tolist() == ["'=1+1", "Å, b", "-5"]
    assert frame["prediction"].tolist() == ["no", "'@yes", "'@yes"]
    assert frame["age"].tolist() == ["-2", "0.1", "2"]
    assert cli("predict", run, table, "--keep-all", "--formulas", "--out", out)[0] == 0
    assert pd.read_csv(out, dtype=str)["name"].tolist() == ["=1+1", "Å, b", "-5"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_from_standard_input_to_standard_output(
    cli: Cli, run: Path, table: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    content = table.read_bytes()
    if kind == "parquet":
        buffer = io.BytesIO()
        pd.DataFrame({"age": [-2.0, 2.0], "n": [3, 4]}).to_parquet(buffer)
        content = buffer.getvalue()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    code, out, err = cli("predict", run, "-", "--keep-all", "--out", "-")
    assert code == 0, err
    frame = pd.read_csv(io.StringIO(out))
    assert frame["prediction"].tolist()[:: len(frame) - 1] == ["no", "'@yes"]
    assert frame.columns[0] == ("age" if kind == "parquet" else "id")
    assert "no: 1" in err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--keep", "Name"), "Did you mean 'name'?"),
        (("--keep", "id,size"), "a column 'size' to keep"),
        (("--at-least", "2"), "--at-least"),
        (("--out", "p.txt"), "--out must end in .csv, .parquet, .jsonl or .ndjson"),
    ],
)
def test_bad_options(
    cli: Cli, run: Path, table: Path, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    code, _, err = cli("predict", run, table, "--out", tmp_path / "p.csv", *options)
    assert code == 2
    assert told in err


def test_a_column_with_the_name_of_one_of_ours_is_refused(
    cli: Cli, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("age,confidence\n1,2\n")
    code, _, err = cli(
        "predict", run, tmp_path / "a.csv", "--keep-all", "--out", tmp_path / "p.csv"
    )
    assert code == 2
    assert "their own column 'confidence'" in err


def test_a_bad_table_on_standard_input_is_named_so(
    cli: Cli, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"Age\n3\n")))
    code, _, err = cli("predict", run, "-", "--out", "-")
    assert code == 2
    assert "standard input: expected the column(s) 'age'" in err
    assert "Did you mean 'Age'?" in err
