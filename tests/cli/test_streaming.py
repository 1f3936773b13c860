"""``dessl fit`` on files whose rows stay on disk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dessl.cli import sources
from dessl.results.facts import read_facts
from dessl.saved import load_model

Cli = Callable[..., tuple[int, str, str]]
QUICK = ("--surrogate", "entropy", "--lam", 0.5, "--steps", 20, "--networks", 1, "--no-refit")
ROWS = 1_600


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SAMPLE", 1_000)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 labels among 1,600 rows of two columns."""
    path = tmp_path_factory.mktemp("large") / "large.csv"
    x = np.random.default_rng(0).normal(size=(ROWS, 2)).round(3)
    label = np.where(x[:, 0] > 0, "yes", "no")
    label[np.arange(ROWS) % 8 > 0] = ""
    lines = [f"{a},{b},{name}" for (a, b), name in zip(x.tolist(), label, strict=True)]
    path.write_text("\n".join(["a,b,answer", *lines]) + "\n")
    return path


def test_a_table_on_disk(
    cli: Cli, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    given = ("fit", table, "--label", "answer", "--out", run, *QUICK, "--stream")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # as the file of rows is written
        patch.setattr("dessl.data.stored.tables.os.fsync", killed)
        cli(*given)
    assert not list(run.rglob("*rows-*"))
    code, _, err = cli(*given)
    assert code == 0, err
    assert "400 unlabelled rows stay on disk; 1,000, drawn at random" in err
    facts = read_facts(run)
    assert facts.data.rows == ROWS
    assert facts.data.unlabelled == ROWS - 200 - facts.data.test_unlabelled
    assert load_model(run / "model").encoding is not None
    assert not list(run.rglob("rows-*"))  # removed once the run is finished


@pytest.mark.slow
def test_embeddings_on_disk(cli: Cli, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    lines = [f"{k},{'yes' if x[k, 0] > 0 else 'no'}" for k in range(0, ROWS, 16)]
    (tmp_path / "labels.csv").write_text("\n".join(["row,answer", *lines]) + "\n")
    run = tmp_path / "run"
    given = ("fit", tmp_path / "x.npy", "--labels", tmp_path / "labels.csv", "--out", run)
    code, _, err = cli(*given, *QUICK, "--stream")
    assert code == 0, err
    assert "500 unlabelled rows stay on disk" in err
    assert (tmp_path / "x.npy").exists()


def test_what_cannot_be_streamed(cli: Cli, table: Path, tmp_path: Path) -> None:
    code, _, err = cli("fit", "toy", "--out", tmp_path / "run", "--stream")
    assert code
    assert "--stream is for one CSV" in err
    given = ("fit", table, "--label", "answer", "--out", tmp_path / "run", "--stream")
    code, _, err = cli(*given, "--propensity", "estimate-x")
    assert code
    assert "--no-stream" in err


def test_large_files_are_streamed_by_themselves(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(table)
    assert not sources._is_streamed(source, "table", None, labels=None)
    monkeypatch.setattr(sources, "TABLE_BYTES", table.stat().st_size - 1)
    assert sources._is_streamed(source, "table", None, labels=None)
    assert not sources._is_streamed(source, "table", False, labels=None)
    assert not sources._is_streamed(source, "npy", None, labels=None)
    (tmp_path / "cat").mkdir()
    (tmp_path / "unlabelled").mkdir()
    for k in range(3):
        (tmp_path / "unlabelled" / f"{k}.png").touch()
    assert not sources._is_streamed(str(tmp_path), "images", None, labels=None)
    monkeypatch.setattr(sources, "IMAGES", 2)
    assert sources._is_streamed(str(tmp_path), "images", None, labels=None)
    before = sources.fingerprint(str(tmp_path))
    (tmp_path / "unlabelled" / "0.png").write_text("larger")
    assert sources.fingerprint(str(tmp_path)) != before
    monkeypatch.setattr(sources, "ARRAY_BYTES", table.stat().st_size - 1)
    assert sources._is_streamed(source, "npy", None, labels=None)
