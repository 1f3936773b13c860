"""The parts of ``dessl fit``: what a run depends on, its rows, and what is shown of it."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dessl import __version__
from dessl.cli import fit_run
from dessl.cli.fit_run import fit_data, run_identity
from dessl.cli.options import HOLD_OUT
from dessl.cli.output import show_run
from dessl.data import SemiData
from dessl.results.facts import ModelFacts, read_facts

FIT = Path(__file__).parents[1] / "corpus" / "0.1.0.dev0" / "fit"


def options(**other: Any) -> dict[str, Any]:
    names = ("label", "test_file", "labels", "ignore", "categorical", "size", "missing_label")
    names += ("propensity", "group", "skip_damaged", "sheet", "encoding", "missing")
    names += ("stream", "surrogate", "pool")
    names += ("steps", "networks")
    return dict.fromkeys(names) | {
        "data": "", "out": Path("runs/a"), "hold_out": HOLD_OUT, "all_classes": False, "seed": 0,
        "lam": "auto", "risk": "debiased", "safe": True, "resume": False, "as_json": False,
    } | other  # fmt: skip


def test_a_run_depends_on_its_options_and_the_contents_of_its_files(tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text("a,y\n1,b\n")
    given = options(data=str(data), label="y")
    asked = run_identity(given)
    assert asked["version"] == __version__
    assert asked["options"]["label"] == "y"
    for name in ("out", "resume", "as_json"):
        assert name not in asked["options"]
    other = options(data=str(data), label="y", out=Path("b"), resume=True, as_json=True)
    assert run_identity(other) == asked
    assert run_identity(options(data=str(data), label="y", seed=1)) != asked
    data.write_text("a,y\n2,b\n")
    assert run_identity(given)["files"] != asked["files"]
    assert run_identity(given)["options"] == asked["options"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, (None, None)),
        ("100", (100, None)),
        ("-5", (-5, None)),
        ("./100", (None, "./100")),
        ("y.npy", (None, "y.npy")),
        ("1e3", (None, "1e3")),
        ("9" * 19, (None, "9" * 19)),
    ],
)
def test_labels_are_a_number_or_a_file(text: str | None, found: tuple[Any, Any]) -> None:
    assert fit_run._labels(text) == found


def data(*, test: bool = False) -> SemiData:
    part = (torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])) if test else None
    return SemiData(torch.rand(9, 2), [0, 1, 0, 1, -1, -1, -1, -1, -1], test=part)


def test_a_share_is_held_out_only_where_there_are_no_other_test_rows() -> None:
    assert fit_run._held_out(data(), None, 0.3) == {"hold_out": 0.3}
    assert fit_run._held_out(data(), "test.csv", HOLD_OUT) == {}
    assert fit_run._held_out(data(test=True), None, HOLD_OUT) == {}
    with pytest.raises(ValueError, match=r"evaluated on --test-file\. Omit it"):
        fit_run._held_out(data(), "test.csv", 0.3)
    with pytest.raises(ValueError, match="evaluated on the test set of this data set"):
        fit_run._held_out(data(test=True), None, 0.3)


def test_options_become_a_recipe() -> None:
    recipe = fit_run._recipes(options(lam="0.5", risk="ssl", steps=7, networks=2, pool=False))(
        data()
    )
    assert (recipe.lam, recipe.plan.risk, recipe.plan.steps) == (0.5, "ssl", 7)
    assert recipe.networks == 2
    assert not recipe.teachers
    assert fit_run._settings(recipe) == {"risk": "ssl", "lam": 0.5, "networks": 2, "pool": False}
    with_pool = fit_run._recipes(options(pool=True))(data())
    assert with_pool.lam == "auto"
    assert fit_run._settings(with_pool)["pool"] is True
    with pytest.raises(ValueError, match="--lam must be a number or 'auto'; got 'much'"):
        fit_run._recipes(options(lam="much"))


def test_a_pool_asked_for_is_the_default_one_of_these_columns() -> None:
    x = torch.randn(300, 200, generator=torch.Generator().manual_seed(0))
    y = torch.where(torch.arange(300) < 60, torch.arange(300) % 2, -1)
    for columns, sparse in ((200, True), (64, False)):
        data = SemiData(x[:, :columns], y)
        asked, default = (fit_run._recipes(options(pool=pool))(data) for pool in (True, None))
        assert asked.teachers == default.teachers
        assert ("sparse" in asked.teachers) == sparse


def test_a_column_of_probabilities_is_no_feature(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lines = [f"{random.normal():.3f},{random.normal():.3f},0.5,{'ab'[k % 2]}" for k in range(40)]
    unlabelled = [f"{line[:-1]}" for line in lines]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["u,v,chance,y", *lines, *unlabelled]))
    given = options(data=str(path), label="y", propensity="chance", hold_out=0.25)
    with pytest.warns(UserWarning, match="weight the held-out labels by 1/π"):
        rows = fit_run._rows(given)
    assert rows.every.encoding is not None
    assert rows.every.encoding.feature_names == ("u", "v")
    assert rows.held_out == {"hold_out": 0.25}
    assert (rows.train.n_labelled, len(rows.train.unlabelled_rows)) == (30, 30)
    assert (len(rows.every), len(rows.test.x)) == (80, 20)
    assert rows.design.propensity is not None
    assert rows.design.propensity.unique().tolist() == [0.5]


def test_rows_on_disk_have_no_propensity() -> None:
    with pytest.raises(ValueError, match=r"--propensity needs all rows in memory.*--no-stream"):
        fit_run._say_stored(data(), options(propensity="chance"))


def test_a_finished_run_is_shown_and_not_trained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(fit_run, "finished_facts", lambda out, _: read_facts(out))
    monkeypatch.setattr(fit_run, "_rows", lambda _: pytest.fail("it reads the rows"))
    fit_data(options(out=FIT, resume=True), {"a": 1})
    said = capsys.readouterr()
    facts = read_facts(FIT)
    assert str(FIT) in said.err.replace("\n", "")
    assert facts.verdict.sentence in " ".join(said.out.split())
    last = said.out.splitlines()[-2:]
    assert last[0] == f"Report: {FIT / 'report.html'}"
    assert last[1] == f"Next:   dessl predict {FIT} DATA --out predictions.csv"


@pytest.mark.parametrize("refitted", [False, True])
def test_which_labels_the_model_was_trained_on(
    capsys: pytest.CaptureFixture[str], *, refitted: bool
) -> None:
    facts = read_facts(FIT)
    before = facts.data.labelled + facts.data.validation
    model = ModelFacts("complete case", 1234, refitted)
    show_run(Path("a b"), dataclasses.replace(facts, model=model), as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert ("retrained on all 1,234 labels" in said) is refitted
    assert f"trained on {before:,}" in said
    assert "dessl predict 'a b' DATA" in said
