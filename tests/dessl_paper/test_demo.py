"""``dessl demo``: paired runs, and the numbers it prints and writes are those of its runs."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy import stats
from torch import nn

from dessl.augment import Weak
from dessl.cli.output import show_facts
from dessl.data import draw_labels, load
from dessl.evaluation import evaluate
from dessl.models import MLP
from dessl.results.facts import read_facts
from dessl.results.record import read_records
from dessl.surrogates import PseudoLabel
from dessl.training import TrainPlan, train
from dessl_paper.demo import demo_experiment
from dessl_paper.run import run_experiment
from dessl_paper.specification import cells_of

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "run"


def test_demo_writes_facts_and_a_report_and_goes_on_from_there(cli: Cli, folder: Path) -> None:
    code, out, err = cli("demo", "--steps", 12, "--seeds", 3, "--out", folder)
    assert code == 0, err
    assert str(folder / "report.html") in out
    assert "complete case" in out
    facts = read_facts(folder)
    assert facts.command == f"dessl demo --steps 12 --seeds 3 --out {folder}"
    assert facts.verdict.sentence in out
    assert [(run.method, run.seed) for run in facts.runs] == [
        (method, seed)
        for method in ("complete case", "PseudoLabel", "DePseudoLabel", "all labels")
        for seed in range(3)
    ]
    assert {(run.risk, run.lam) for run in facts.sweep} == {
        (risk, lam) for risk in ("ssl", "debiased") for lam in (0.1, 1.0, 2.0)
    }
    assert {"accuracy", "cross_entropy", "brier", "ece"} <= set(facts.sweep[0].metrics)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert facts.verdict.sentence in page
    assert "Choice of λ" in page
    assert "benefit ratio" in page
    again, out, _ = cli("demo", "--steps", 12, "--seeds", 3, "--out", folder, "--json")
    assert again == 0
    runs = json.loads(out)["runs"]  # trained already: the same runs, and nothing but JSON on stdout
    assert [run["metrics"]["brier"] for run in runs] == [
        pytest.approx(run.metrics["brier"]) for run in facts.runs
    ]


def test_comparisons_are_scipys_paired_t_tests(folder: Path) -> None:
    facts = read_facts(folder)
    assert len(facts.comparisons) == 8
    for one in facts.comparisons:
        values = [facts.values(name, one.metric) for name in (one.method, "complete case")]
        wanted = stats.ttest_rel(*values)
        assert one.p_value == pytest.approx(wanted.pvalue)
        assert (one.low, one.high) == pytest.approx(tuple(wanted.confidence_interval(0.95)))


def test_a_folder_with_another_run_is_refused(cli: Cli, folder: Path) -> None:
    code, _, err = cli("demo", "--steps", 13, "--seeds", 3, "--out", folder)
    assert code == 2
    assert "other settings: plan" in err
    assert "Choose another" in err


def test_a_report_of_something_else_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "report.html").write_text("mine")
    code, _, err = cli("demo", "--steps", 2, "--seeds", 2, "--out", tmp_path)
    assert code == 2
    assert "report.html, training that dessl demo did not write" in err
    assert (tmp_path / "report.html").read_text() == "mine"


def test_the_report_can_be_written_again(cli: Cli, folder: Path, tmp_path: Path) -> None:
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    code, out, _ = cli("report", folder)
    assert code == 0
    assert str(folder / "report.html") in out
    assert (folder / "report.html").stat().st_size == len(before)
    assert cli("report", folder, folder)[0] == 2
    code, out, _ = cli("report", folder, folder, "--out", tmp_path / "both.html", "--json")
    assert code == 0
    assert json.loads(out)["report"] == str(tmp_path / "both.html")
    assert (tmp_path / "both.html").stat().st_size > len(before)


def test_the_readme_shows_the_committed_result(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parent.parent.parent
    facts = read_facts(root / "results" / "demo-digits")
    show_facts(facts)
    shown = capsys.readouterr().out
    readme = [line.split() for line in (root / "README.md").read_text(encoding="utf-8").split("\n")]
    for method in facts.methods:
        (row,) = (line for line in shown.split("\n") if f"│ {method.name} " in line and "±" in line)
        assert row.replace("│", " ").split() in readme
    assert facts.verdict.outcome == "cannot tell yet"


def test_a_difference_of_nothing_has_no_minus(capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parent.parent.parent
    facts = read_facts(root / "results" / "demo-digits")
    one = replace(facts.comparisons[0], metric="brier", difference=-1e-5, low=-0.5, high=0.5)
    show_facts(replace(facts, comparisons=(one,)))
    shown = capsys.readouterr().out
    assert "−0.0 " not in shown
    assert "−0.5 to +0.5 " in shown


def test_a_run_of_the_demonstration_is_the_run_that_train_gives(tmp_path: Path) -> None:
    experiment = demo_experiment(steps=6, seeds=2, first_seed=4)
    few = dataclasses.replace(experiment, methods=experiment.methods[:3])
    run_experiment(few, tmp_path, progress=False)
    found = {record.key: record for record in read_records(tmp_path)}
    view = Weak(flip=False, shift=0, mean=0.3, std=0.38)

    def shown(x: torch.Tensor) -> torch.Tensor:
        return view(x, torch.Generator())

    data = load("digits")
    generator = torch.Generator().manual_seed(5)
    drawn = data.with_labels(draw_labels(data.y, 100, n_validation=20, generator=generator))
    cell = next(c for c in cells_of(few) if (c.method.name, c.seed) == ("de_pl", 5))
    plan = TrainPlan.from_dict({**few.plan, "lam": 0.5, "risk": "debiased", "seed": 5})
    alone = train(
        lambda: nn.Sequential(nn.Flatten(), MLP(64, 10, hidden=(256, 256))),
        PseudoLabel(0.95, view=view),
        drawn,
        plan,
        transform=shown,
    )
    assert data.test is not None
    wanted = evaluate(alone.model, data.test.x, data.test.y, transform=shown)
    record = found[cell.key]
    assert record.metrics["cross_entropy"] == pytest.approx(wanted.cross_entropy, rel=0.02)
    assert record.history[0]["loss"] == pytest.approx(alone.history[0].loss, rel=0.02)


def test_all_labels_are_all_but_those_that_choose_the_step(tmp_path: Path) -> None:
    experiment = demo_experiment(steps=60, seeds=2)
    both = (experiment.methods[0], experiment.methods[3])
    run_experiment(dataclasses.replace(experiment, methods=both), tmp_path, progress=False)
    accuracy = {
        title: [r.metrics["accuracy"] for r in read_records(tmp_path) if r.title == title]
        for title in ("all labels", "complete case")
    }
    assert min(accuracy["all labels"]) > max(accuracy["complete case"])
    assert {record.labels for record in read_records(tmp_path)} == {100, 1437}
