"""``--against``: two models' classes in one order, and the words for a difference."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dessl.cli.against import COMPLETE_CASE, compared, other_probabilities, show_differences
from dessl.data import DataError, Part
from dessl.evaluation import compare_models
from dessl.evaluation.debiased.compare import ModelComparison
from dessl.evaluation.metrics.vocabulary import metric_text
from dessl.saved import SavedModel


def model(*names: str) -> SavedModel:
    return SavedModel(model=None, class_names=names, shape=(2,), image=False)  # type: ignore[arg-type]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, bool]]:
    """Which models were loaded; each has the classes b, c and a."""
    loaded = []

    def run_model(run: Path, *, complete_case: bool) -> SavedModel:
        loaded.append((run, complete_case))
        return model("b", "c", "a")

    monkeypatch.setattr("dessl.cli.predict.run_model", run_model)
    return loaded


def test_classes_are_in_the_order_of_the_first_model(asked: list[tuple[Path, bool]]) -> None:
    p = torch.tensor([[0.5, 0.3, 0.2]])  # of b, c and a
    found = other_probabilities(Path("runs/a"), "runs/b", model("a", "b", "c"), lambda _: p)
    torch.testing.assert_close(found, torch.tensor([[0.2, 0.5, 0.3]]))
    other_probabilities(Path("runs/a"), COMPLETE_CASE, model("a", "b", "c"), lambda _: p)
    assert asked == [(Path("runs/b"), False), (Path("runs/a"), True)]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "d"), ("a", "b", "c", "d")])
def test_other_classes_cannot_be_compared(names: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match=r"runs/b: expected a model with .*got .* b, c, a\."):
        other_probabilities(Path("runs/a"), "runs/b", model(*names), lambda _: torch.ones(1, 3))


def test_labelled_and_unlabelled_rows_are_told_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.rand(60, 3, generator=generator).softmax(1).double() for _ in range(2))
    y = torch.where(torch.arange(60) % 3 > 0, torch.arange(60) % 2, -1)
    options = {"accuracy": {"confidence": 0.9}, "brier": {"confidence": 0.8}}
    rows = Part(torch.zeros(60, 2), y)
    found = compared(p, q, rows, ("brier", "accuracy"), options.__getitem__)
    assert list(found) == ["brier", "accuracy"]
    known = y >= 0
    for name, one in found.items():
        wanted: Any = compare_models(
            name,
            p[known],
            q[known],
            y[known],
            p[~known],
            q[~known],
            **options[name],  # type: ignore[arg-type]
        )
        assert one[:4] == wanted[:4]
        assert one.n_unlabelled == 20


@pytest.mark.parametrize(
    ("metric", "low", "high", "verdict"),
    [
        ("accuracy", 0.01, 0.05, "better"),
        ("accuracy", -0.05, -0.01, "worse"),
        ("accuracy", -0.05, 0.01, "no clear difference"),
        ("brier", 0.01, 0.05, "worse"),
        ("brier", -0.05, -0.01, "better"),
        ("brier", 0.0, 0.05, "no clear difference"),
    ],
)
def test_a_difference_in_words(
    metric: str,
    low: float,
    high: float,
    verdict: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    middle = (low + high) / 2
    alone: Any = None
    one = ModelComparison(
        middle, low, high, 0.0314, alone, 1.0, 0.5, 40, 20, metric, 0.95, "two-sided"
    )
    show_differences({metric: one}, "runs/[b]", metric_text)
    said = capsys.readouterr().out
    assert "this model minus runs/[b]" in said  # no markup of the terminal's
    row = next(line for line in said.splitlines() if "0.031" in line)
    words = [word.strip() for word in row.replace("┃", "│").split("│")]
    assert words[-2] == verdict
    assert "wins a row" not in said


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.1, 0.3, "wins more rows"),
        (-0.3, -0.1, "wins fewer rows"),
        (-0.1, 0.1, "no clear difference"),
    ],
)
def test_wins_are_counted_not_judged(
    low: float,
    high: float,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    alone: Any = None
    one = ModelComparison(
        (low + high) / 2, low, high, 1e-9, alone, 1.0, 0.5, 40, 20, "wins", 0.95, "two-sided"
    )
    show_differences({"wins": one}, "b", metric_text)
    said = capsys.readouterr().out
    row = next(line for line in said.splitlines() if "< 0.001" in line)
    assert words in row
    assert "better" not in row
    assert "worse" not in row
    assert "A model wins a row if" in said
    assert "a less confident model can lose most rows" in said
