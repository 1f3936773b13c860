"""From a file to predictions in two commands: a mixed table, a folder of PNGs, an npz."""

import csv
import dataclasses
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

from dessl import SURROGATES, SemiData, recipe_for
from dessl.cli import fit
from dessl.cli.output import show_run
from dessl.evaluation.verdict import MARGIN, no_verdict, not_used
from dessl.recipes import defaults, strong, which_teachers
from dessl.recipes.defaults import NETWORKS
from dessl.results.facts import ModelFacts, RunFacts, read_facts
from dessl.results.trial import trial_facts
from dessl.saved import load_model

Cli = Callable[..., tuple[int, str, str]]
QUICK = ("--steps", 40, "--networks", 1, "--no-refit")


def write_people(path: Path, seed: int) -> Path:
    """240 people, an age and a town with gaps, text labels for 96 of them: 'ill' above 50."""
    random = np.random.default_rng(seed)
    rows = [["age", "town", "outcome"]]
    for number in range(240):
        age = float(random.normal(50, 10))
        shown = "" if number % 13 == 5 else f"{age:.1f}"
        town = "" if number % 17 == 3 else str(random.choice(["Oslo", "Tromsø", 'Å, "by"']))
        rows.append([shown, town, ("ill" if age > 50 else "well") if number % 5 < 2 else ""])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_people(tmp_path_factory.mktemp("people") / "people.csv", seed=0)


def read_predictions(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_patients(path: Path, seed: int) -> Path:
    """120 patients with three visits each, who look alike at each visit; their class is chance."""
    random = np.random.default_rng(seed)
    rows = [["patient", "a", "b", "c", "outcome"]]
    for patient in range(120):
        looks, ill = random.normal(0, 3, 3), random.random() < 0.5
        for visit in range(3):
            seen = [f"{value:.2f}" for value in looks + random.normal(0, 0.05, 3)]
            label = ("ill" if ill else "well") if visit < 2 else ""
            rows.append([f"P{patient}", *seen, label])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def test_groups_are_held_out_together_so_that_patients_are_not_recognised(
    cli: Cli, tmp_path: Path
) -> None:
    data, accuracy = write_patients(tmp_path / "visits.csv", seed=0), {}
    common = ("fit", data, "--label", "outcome", "--no-refit", "--networks", 1)
    for name, how in (("rows", ("--ignore", "patient")), ("groups", ("--group", "patient"))):
        code, _, err = cli(*common, *how, "--out", tmp_path / name, "--json")
        assert code == 0, err
        facts = read_facts(tmp_path / name)
        accuracy[name] = {one.metric: one for one in facts.estimates}["accuracy"].value
    assert "120 groups by 'patient', 120 of them with a label." in err
    assert "patient" not in str(load_model(tmp_path / "groups" / "model").encoding)
    assert accuracy["rows"] > 0.85
    assert accuracy["groups"] < 0.7  # nothing can be learnt about new patients
    (first, *_) = read_facts(tmp_path / "groups").estimates
    assert first.n_groups is not None
    assert first.n_labelled == 2 * first.n_groups  # both labels of each patient count
    facts = read_facts(tmp_path / "groups")
    assert {one.n_groups for one in facts.comparisons} <= {first.n_groups}
    assert facts.pool is None or facts.pool.n == 2 * (facts.pool.n_groups or 0)
    entries = facts.as_dict()  # as older versions wrote it
    for one in (*entries["comparisons"], entries["pool"] or {}, entries["audit"]):
        for name in ("n_groups", "groups", "labelled_groups"):
            one.pop(name, None)
    assert RunFacts.from_dict(entries).audit is not None
    report = (tmp_path / "groups" / "report.html").read_text(encoding="utf-8")
    assert f"labelled ones of {first.n_groups} groups that count as units" in report
    test = write_patients(tmp_path / "test.csv", seed=1)
    code, _, err = cli(*common, *how, "--test-file", test, "--steps", 5, "--out", tmp_path / "c")
    assert code == 0, err
    assert "240 of the 240 labelled test rows have a value of 'patient' that labelled train" in err
    (first, *_) = read_facts(tmp_path / "c").estimates
    assert (first.n_labelled, first.n_groups) == (240, 120)
    code, _, err = cli(*common, "--group", "patint", "--out", tmp_path / "d")
    assert code == 2
    assert "Did you mean 'patient'?" in err


def test_a_table_with_gaps_and_text_labels(cli: Cli, people: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    code, shown, err = cli("fit", people, "--label", "outcome", "--out", run, *QUICK)
    assert code == 0, err
    facts = read_facts(run)
    assert facts.pool is not None
    assert "Pool, evaluated on" in shown
    assert facts.verdict.sentence in shown
    assert facts.verdict.sentence in (run / "report.html").read_text(encoding="utf-8")
    assert (facts.data.labelled, facts.data.test) == (77, 19)  # a fifth of 96 held out
    assert (facts.data.unlabelled, facts.data.test_unlabelled) == (115, 29)  # and of 144
    assert facts.data.rows == 240  # the rows held out among them
    assert cli("predict", run, people, "--out", out)[0] == 0
    rows = read_predictions(out)
    assert list(rows[0]) == ["row", "prediction", "confidence", "p(ill)", "p(well)"]
    assert len(rows) == 240
    for row in rows:
        p = {"ill": float(row["p(ill)"]), "well": float(row["p(well)"])}
        assert sum(p.values()) == pytest.approx(1)
        assert row["prediction"] == max(p, key=p.__getitem__)
    assert "the model was trained on rows of" in cli("evaluate", run, people)[2]
    other = tmp_path / "other.csv"
    other.write_text("\n".join(people.read_text(encoding="utf-8").split("\n")[:100]))
    assert cli("evaluate", run, other)[2] == ""
    with people.open(encoding="utf-8") as file:
        truth = [row["outcome"] for row in csv.DictReader(file)]
    right = [row["prediction"] == label for row, label in zip(rows, truth, strict=True) if label]
    assert np.mean(right) > 0.8


def test_large_images_are_reduced_on_a_cpu_and_it_says_so(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 255, (30, 1, 33, 33)).astype(np.uint8)
    np.savez(tmp_path / "scans.npz", x=x, y=np.where(np.arange(30) < 16, np.arange(30) % 2, -1))
    options = ("--steps", 1, "--networks", 1, "--no-refit", "--out", tmp_path / "run")
    code, _, err = cli("fit", tmp_path / "scans.npz", *options)
    assert code == 0, err
    assert "read at 33 × 33 pixels and reduced to 32 × 32" in " ".join(err.split())


def test_images_on_a_gpu_that_strong_views_do_not_help(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "suits_strong", lambda data: data.n_unlabelled > 0)
    monkeypatch.setattr(strong, "WIDTH", 2)
    random = np.random.default_rng(0)
    x = random.integers(0, 255, (120, 1, 8, 8)).astype(np.uint8)
    y = np.where(np.arange(120) < 70, random.integers(0, 2, 120), -1)  # nothing to learn
    np.savez(tmp_path / "scans.npz", x=x, y=y)
    run, options = tmp_path / "run", ("--steps", 8, "--seed", 1)
    code, shown, err = cli("fit", tmp_path / "scans.npz", *options, "--out", run)
    assert code == 0, err
    said = " ".join((run / "report.html").read_text(encoding="utf-8").split())
    assert "DeSoftMatch was tried first. It changed the cross-entropy on" in said
    trained = {place.name for place in (run / "training" / "otherwise").iterdir()}
    assert trained >= {f"complete_case-{fold}" for fold in range(NETWORKS)}
    assert not (run / "training" / "refit" / "otherwise").exists()  # it is the refit's recipe
    assert (run / "training" / "refit" / "complete_case-4").exists()
    predictions = ("--out", tmp_path / "predictions.csv", "--json")
    code, shown, err = cli("predict", run, tmp_path / "scans.npz", *predictions)
    assert code == 0, err
    assert sum(json.loads(shown)["predicted"].values()) == 120


@pytest.mark.slow
def test_a_folder_of_images_of_different_sizes(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name, count in {"dark": 12, "light": 12, "unlabelled": 20}.items():
        (tmp_path / "scans" / name).mkdir(parents=True)
        for number in range(count):
            light = name == "light" or (name == "unlabelled" and number % 2 == 0)
            shape = (int(random.integers(9, 15)), int(random.integers(9, 15)))
            level = random.normal(180 if light else 70, 20, shape)
            pixels = level.clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "scans" / name / f"{number}.png")
    run, out = tmp_path / "run", tmp_path / "predictions.parquet"
    code, _, err = cli(
        "fit", tmp_path / "scans", "--out", run, "--steps", 20, "--lam", 0.5, "--no-refit"
    )
    assert code == 0, err
    code, shown, _ = cli("predict", run, tmp_path / "scans" / "unlabelled", "--out", out, "--json")
    assert code == 0
    assert json.loads(shown)["predicted"] == {"dark": 10, "light": 10}
    (tmp_path / "scans" / "dark" / ".DS_Store").write_text("a look at the folder leaves this")
    assert "the model was trained on rows of" in cli("evaluate", run, tmp_path / "scans")[2]
    (tmp_path / "scans" / "dark" / "0.png").rename(tmp_path / "scans" / "light" / "more.png")
    assert cli("evaluate", run, tmp_path / "scans")[2] == ""
    import pandas as pd

    frame = pd.read_parquet(out).set_index("row")
    assert all(
        (row["prediction"] == "light") == (int(name.removesuffix(".png")) % 2 == 0)
        for name, row in frame.iterrows()
    )


@pytest.mark.slow
def test_scans_of_twelve_bits_from_folders_of_any_names(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    counts = {"scans/dark": 12, "scans/light": 12, "new/p1": 6, "new/p2": 6}
    for name, count in counts.items():
        (tmp_path / name).mkdir(parents=True)
        for number in range(count):
            level = random.normal(3000 if name == "scans/light" else 900, 200, (10, 10))
            image = Image.fromarray(level.clip(0, 4095).astype(np.uint16))
            image.save(tmp_path / name / f"{number}.png")
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    code, _, err = cli("fit", tmp_path / "scans", "--out", run, "--steps", 20, "--no-refit")
    assert code == 0, err
    assert load_model(run / "model").bits == 12
    code, _, err = cli("predict", run, tmp_path / "new", "--out", out)
    assert code == 0, err
    assert [row["prediction"] for row in read_predictions(out)] == ["dark"] * 12


def test_an_npz_with_numbered_labels(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    np.savez(tmp_path / "rows.npz", x=x[:120], y=np.where(np.arange(120) < 50, y[:120], -1))
    np.savez(tmp_path / "new.npz", x=x[120:], y=np.full(30, "unknown"))
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    code, _, err = cli("fit", tmp_path / "rows.npz", "--out", run, *QUICK, "--lam", 0.3)
    assert code == 0, err
    assert cli("predict", run, tmp_path / "new.npz", "--out", out)[0] == 0
    predicted = [int(row["prediction"]) for row in read_predictions(out)]
    assert np.mean(np.array(predicted) == y[120:]) > 0.8


def test_no_spreadsheet_runs_a_class_name(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2)).astype(np.float32)
    y = np.where(x[:, 0] > 0, "=1+1", "benign")
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    run, out = tmp_path / "run", tmp_path / "predictions.csv"
    code, _, err = cli("fit", tmp_path / "rows.npz", "--out", run, *QUICK, "--lam", 0)
    assert code == 0, err
    assert cli("predict", run, tmp_path / "rows.npz", "--out", out)[0] == 0
    assert {row["prediction"] for row in read_predictions(out)} == {"'=1+1", "benign"}


def test_embeddings_with_a_file_of_labels(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(160) % 2
    x = random.normal(size=(160, 8)) + 2 * y[:, None]
    np.save(tmp_path / "a.npy", x[:, :5].astype(np.float32))
    np.save(tmp_path / "b.npy", x[:, 5:].astype(np.float16))
    names = np.array(["cat", "dog"])[y]
    lines = ["row,animal", *(f"{row},{names[row]}" for row in range(60))]
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    both, run = f"{tmp_path}/a.npy,{tmp_path}/b.npy", tmp_path / "run"
    options = ("--labels", tmp_path / "labels.csv", "--out", run, *QUICK, "--lam", 0)
    assert cli("fit", both, *options)[0] == 0
    assert cli("predict", run, both, "--out", tmp_path / "p.csv")[0] == 0
    right = [row["prediction"] for row in read_predictions(tmp_path / "p.csv")] == names
    assert right.mean() > 0.9
    (tmp_path / "all.csv").write_text("\n".join(["animal", *names]) + "\n")
    code, out, err = cli("evaluate", run, both, "--labels", tmp_path / "all.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["labelled_rows"]["accuracy"] == pytest.approx(right.mean())
    for command, message in (
        (("evaluate", run, both), "Pass --labels FILE"),
        (("predict", run, tmp_path / "a.npy", "--out", tmp_path / "q.csv"), "rows of shape (8,)"),
        (("fit", both, "--out", tmp_path / "other"), "Which file has them"),
        (("fit", "digits", "--labels", "x.csv", "--out", tmp_path / "other"), "a whole number"),
    ):
        code, _, err = cli(*command)
        assert (code, message in " ".join(err.split())) == (2, True), err


@pytest.mark.slow
def test_a_catalogue_set_with_few_labels_is_judged_by_its_test_part(
    cli: Cli, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    options = ("--labels", 100, "--steps", 5, "--lam", 0.5, "--risk", "ssl", "--json")
    code, shown, err = cli("fit", "digits", "--out", run, *options)
    assert code == 0, err
    facts = json.loads(shown)
    assert (facts["data"]["labelled"], facts["data"]["unlabelled"]) == (100, 1337)
    assert [method["name"] for method in facts["methods"]] == ["complete case", "PseudoLabel"]
    for method, folder in (("PseudoLabel", ()), ("complete case", ("--complete-case",))):
        _, shown, err = cli("evaluate", run, "digits", "--json", *folder)
        assert err == ""  # its test rows are not trained on
        found = json.loads(shown)
        (wanted,) = (one["metrics"] for one in facts["runs"] if one["method"] == method)
        assert found["labelled_rows"]["confusion"] == wanted["confusion"]
        for metric in ("n", "accuracy", "brier", "ece"):
            assert found["labelled_rows"][metric] == pytest.approx(wanted[metric])
        right = round(found["labelled_rows"]["accuracy"] * 360)
        wilson = stats.binomtest(right, 360).proportion_ci(method="wilson")
        estimate = found["estimates"]["accuracy"]
        assert (estimate["low"], estimate["high"]) == pytest.approx(tuple(wilson), abs=2e-3)


@pytest.mark.slow
def test_a_catalogue_set_without_a_test_part_is_known_again(cli: Cli, tmp_path: Path) -> None:
    options = ("--labels", 100, "--steps", 5, "--networks", 1, "--no-refit")
    code, _, err = cli("fit", "toy", "--out", tmp_path / "run", *options)
    assert code == 0, err
    assert "the model was trained on rows of toy" in cli("evaluate", tmp_path / "run", "toy")[2]


def test_a_test_file_with_some_labels_is_used_debiased(
    cli: Cli, people: Path, tmp_path: Path
) -> None:
    others = write_people(tmp_path / "others.csv", seed=1)
    options = ("--label", "outcome", *QUICK, "--lam", 0.5, "--test-file", others)
    code, _, err = cli("fit", people, "--out", tmp_path / "run", *options)
    assert code == 0, err
    facts = read_facts(tmp_path / "run")
    assert "hold_out" not in facts.settings
    assert (facts.data.labelled, facts.data.test, facts.data.test_unlabelled) == (96, 96, 144)
    assert {(one.n_labelled, one.n_unlabelled) for one in facts.estimates} == {(96, 144)}
    assert {one.test for one in facts.comparisons} == {"debiased, paired over rows"}


def test_a_share_to_hold_out_where_nothing_is_held_out_is_refused(
    cli: Cli, people: Path, tmp_path: Path
) -> None:
    others = write_people(tmp_path / "others.csv", seed=1)
    for data, judges in (
        (
            (people, "--label", "outcome", "--test-file", others),
            "evaluated on --test-file. Omit it",
        ),
        (("digits", "--labels", 100), "evaluated on the test set of this data set. Omit it"),
    ):
        code, _, err = cli("fit", *data, "--out", tmp_path / "run", "--hold-out", 0.3)
        assert code == 2
        assert judges in err


def test_rows_that_all_have_a_label_train_the_complete_case_and_say_so(
    cli: Cli, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    np.savez(tmp_path / "rows.npz", x=x, y=(x[:, 0] > 0).astype(int))
    code, shown, err = cli(
        "fit", tmp_path / "rows.npz", "--out", tmp_path / "pool", "--steps", 5, "--no-refit"
    )
    assert code == 0, err
    assert "All rows are labelled" in shown
    assert "unlabelled rows were not used" in shown
    alone = ("--steps", 5, "--no-pool", "--no-refit")
    code, shown, err = cli("fit", tmp_path / "rows.npz", "--out", tmp_path / "run", *alone)
    assert code == 0, err
    assert "All rows are labelled" in shown
    model, twin = (load_model(tmp_path / "run" / name) for name in ("model", "complete-case"))
    assert model.predict_proba(x).equal(twin.predict_proba(x))


def test_a_finished_run_is_gone_on_with_or_refused(cli: Cli, people: Path, tmp_path: Path) -> None:
    command = ("fit", people, "--label", "outcome", "--out", tmp_path, *QUICK, "--lam", 0.5)
    assert cli(*command)[0] == 0
    first = read_facts(tmp_path)
    models = [(tmp_path / name).stat().st_ino for name in ("model", "complete-case")]
    (tmp_path / "training" / "finished.json").unlink()  # as if it had been killed just before
    assert cli(*command)[0] == 0
    assert read_facts(tmp_path).runs == first.runs
    again = [(tmp_path / name).stat().st_ino for name in ("model", "complete-case")]
    assert again == models  # the same model is not written again
    code, _, err = cli(*command, "--no-resume")
    assert code == 2
    assert "Omit --no-resume" in err
    for other, told in (
        (("--seed", 1), "seed: 0 there, 1 now"),
        (("--risk", "ssl"), "(risk: debiased there, ssl now)"),
        (("--networks", 2), "(networks: 1 there, 2 now)"),
        (("--lam", 0), "(lam: 0.5 there, 0.0 now)"),
        (("--lam", "auto"), "lam: 0.5 there, auto now"),
        (("--pool",), "(pool: False there, True now)"),
    ):
        code, _, err = cli(*command, *other)
        assert code == 2
        assert "a different run" in err
        assert told in err
    assert read_facts(tmp_path).runs == first.runs


def test_the_winner_is_refitted_on_all_labels_and_judged_before(
    cli: Cli, people: Path, tmp_path: Path
) -> None:
    command = ("fit", people, "--label", "outcome", "--steps", 40, "--networks", 1)
    plain, again = tmp_path / "plain", tmp_path / "again"
    assert cli(*command, "--no-refit", "--out", plain)[0] == 0
    code, shown, err = cli(*command, "--out", again)
    assert code == 0, err
    before, after = read_facts(plain), read_facts(again)
    metrics = [[run.metrics for run in facts.runs] for facts in (before, after)]
    assert metrics[0] == metrics[1]  # the honest estimate is that of the model before
    assert after.verdict == before.verdict
    assert before.model == ModelFacts(after.model.method, 77, refitted=False)
    assert after.model == ModelFacts(after.model.method, 96, refitted=True)
    assert "retrained on all 96 labels" in shown
    one, two = (load_model(run / "model") for run in (plain, again))
    rows = torch.randn(20, *one.shape)
    assert not torch.equal(one.predict_proba(rows), two.predict_proba(rows))
    weights = (again / "model" / "model.safetensors").read_bytes()
    checkpoints = list(again.glob("training/refit/*/checkpoints"))
    assert checkpoints
    for place in checkpoints:  # as a process leaves it that is killed within the refit
        shutil.rmtree(place)
    shutil.rmtree(again / "model")
    assert cli(*command, "--out", again)[0] == 0
    assert (again / "model" / "model.safetensors").read_bytes() == weights


def test_a_refit_that_failed_is_told_and_not_used(
    cli: Cli, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dessl.cli.fit_run.refit_failure", lambda *_: "it failed. It predicts one class."
    )
    run = tmp_path / "run"
    options = ("--label", "outcome", "--steps", 5, "--networks", 1, "--out", run)
    code, shown, err = cli("fit", people, *options)
    assert code == 0, err
    facts = read_facts(run)
    assert facts.model == ModelFacts(facts.model.method, 77, refitted=False)
    assert "(trained on 77 labels)" in shown
    (note,) = (one for one in facts.warnings if "kept" in one)
    assert "is kept, because with all 96 of them it failed. It predicts one class." in note
    assert "because with all 96" in " ".join(err.split())


def test_test_rows_from_elsewhere_are_never_trained_on(
    cli: Cli, people: Path, tmp_path: Path
) -> None:
    others = write_people(tmp_path / "others.csv", seed=1)
    options = ("--label", "outcome", "--steps", 5, "--networks", 1, "--test-file", others)
    code, shown, err = cli("fit", people, "--out", tmp_path / "run", *options)
    assert code == 0, err
    assert read_facts(tmp_path / "run").model.refitted is False
    assert not (tmp_path / "run" / "training" / "refit").exists()
    assert "(trained on 96 labels)" in shown


def test_what_was_worse_is_not_saved(
    cli: Cli, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is made to say so; that it does, of worse models, is tested with it."""
    true = trial_facts

    def lost(*arguments: Any, **named: Any) -> Any:
        facts = true(*arguments, **named)
        model = dataclasses.replace(facts.model, method="complete case")
        return dataclasses.replace(facts, verdict=not_used("It is worse."), model=model)

    monkeypatch.setattr("dessl.cli.fit_run.trial_facts", lost)
    run = tmp_path / "run"
    code, _, err = cli(
        "fit", people, "--label", "outcome", "--out", run, "--steps", 20, "--networks", 1
    )
    assert code == 0, err
    model, twin = (load_model(run / name) for name in ("model", "complete-case"))
    rows = torch.randn(20, *model.shape)
    assert torch.equal(model.predict_proba(rows), twin.predict_proba(rows))
    assert read_facts(run).model == ModelFacts("complete case", 96, refitted=True)


def test_a_margin_is_the_users(cli: Cli, people: Path, tmp_path: Path) -> None:
    run = ("fit", people, "--label", "outcome", "--out", tmp_path / "run", *QUICK)
    code, shown, err = cli(*run, "--margin", 2)
    assert code == 0, err
    assert read_facts(tmp_path / "run").verdict.outcome == "no practical difference"
    assert "within the margin of ±2" in shown
    assert "Expected accuracy: " in shown


def test_a_table_too_wide_for_a_pool_says_so(
    cli: Cli, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(which_teachers, "MOST_COLUMNS", 3)
    run = ("fit", people, "--label", "outcome", *QUICK)
    code, shown, err = cli(*run, "--out", tmp_path / "run")
    assert code == 0, err
    says = "No pool was made, because the rows have 6 columns, more than 3, and its teachers"
    assert says in err
    assert says in shown
    assert says in read_facts(tmp_path / "run").verdict.sentence
    assert says in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    code, shown, err = cli(*run, "--out", tmp_path / "pool", "--pool")
    assert code == 0, err
    assert says not in shown + err
    assert read_facts(tmp_path / "pool").settings["teachers"]


def test_a_finished_run_says_so_and_trains_nothing(
    cli: Cli, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, table = tmp_path / "run", tmp_path / "people.csv"
    table.write_bytes(people.read_bytes())
    command = ("fit", table, "--label", "outcome", "--out", run, *QUICK, "--lam", 0)
    code, first, err = cli(*command)
    assert code == 0, err
    with monkeypatch.context() as patch:
        patch.setattr("dessl.cli.fit_run.training_data", None)  # nothing is read
        code, again, err = cli(*command)
        assert (code, again) == (0, first)
        assert "is already finished: nothing was trained" in err
        assert json.loads(cli(*command, "--json")[1]) == json.loads(
            (run / "facts.json").read_text()
        )
    weights = (run / "model" / "model.safetensors").read_bytes()
    monkeypatch.setattr("dessl.cli.fit_folder.LARGE", 0)
    (run / "report.html").unlink()
    assert "nothing was trained" not in cli(*command)[2]
    assert (run / "report.html").exists()
    assert not list(run.rglob("*checkpoints*"))  # large ones are of no use any more
    (run / "report.html").unlink()
    assert cli(*command)[0] == 0  # from the start
    assert (run / "model" / "model.safetensors").read_bytes() == weights
    table.write_text(people.read_text(encoding="utf-8") + "44.0,Oslo,ill\n", encoding="utf-8")
    assert "nothing was trained" not in cli(*command)[2]


@pytest.mark.parametrize(
    "at",
    [
        "dessl.cli.fit_run.training_data",
        "dessl.cli.fit_run.run_trial",
        "dessl.cli.fit_run.trial_facts",
        "dessl.cli.fit_run.write_report",
    ],
)
def test_ctrl_c_at_any_time_says_how_to_go_on(
    cli: Cli, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(at, interrupted)
    arguments = ("fit", people, "--label", "outcome", "--out", tmp_path / "run", *QUICK)
    code, out, err = cli(*arguments)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1].endswith(f"to resume: dessl {' '.join(map(str, arguments))}")


def test_an_unfinished_run_says_how_to_resume_it(
    cli: Cli, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dessl.cli.fit_run.trial_facts", interrupted)
    run, out = tmp_path / "mein Lauf", tmp_path / "p.csv"
    arguments = ("fit", people, "--label", "outcome", "--out", run, *QUICK)
    assert cli(*arguments)[0] == 130
    typed = shlex.join(["dessl", *map(str, arguments)])
    said = (
        f"dessl: {run}: expected a finished run; got an unfinished one. Wait if it is still "
        "running; if it was stopped, run the same dessl fit command again to resume it"
    )
    for command in (("predict", run, people, "--out", out), ("report", run)):
        assert cli(*command) == (2, "", f"{said}: {typed}\n")
    (run / "training" / "options.json").unlink()  # as in a run of an older version
    assert cli("evaluate", run, people) == (2, "", f"{said}.\n")
    monkeypatch.undo()
    assert cli(*arguments)[0] == 0
    assert cli("predict", run, people, "--out", out)[0] == 0


def test_no_verdict_has_no_differences_and_no_next_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    facts = read_facts(Path(__file__).parents[1] / "corpus" / "0.1.0.dev0" / "fit")
    told = dataclasses.replace(
        facts, verdict=no_verdict("the labels tell too little", "Label more.")
    )
    for one, shown in ((facts, True), (told, False)):
        show_run(tmp_path, one, as_json=False)
        out = capsys.readouterr().out
        assert ("Against " in out, "Next:" in out) == (shown, shown)
        assert ("Do not use this model yet." in out) != shown


def test_an_accuracy_adjusted_by_unlabelled_rows_is_said_to_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    facts = read_facts(Path(__file__).parents[1] / "corpus" / "0.1.0.dev0" / "fit")
    facts = dataclasses.replace(facts, model=ModelFacts(facts.methods[-1].name, 80, refitted=False))
    (share,) = facts.values(facts.model.method, "accuracy")
    for value, n_unlabelled, said in ((share + 0.05, 9, 1), (share, 9, 0), (share + 0.05, 0, 0)):
        estimates = tuple(
            dataclasses.replace(one, value=value, n_unlabelled=n_unlabelled)
            for one in facts.estimates
        )
        show_run(tmp_path, dataclasses.replace(facts, estimates=estimates), as_json=False)
        out = capsys.readouterr().out
        assert "held-out rows correct" in out
        assert out.count("correct; adjusted by the unlabelled ones)") == said


def test_what_to_do_next_can_be_typed(cli: Cli, people: Path, tmp_path: Path) -> None:
    run = tmp_path / "mein Lauf ü"
    _, shown, _ = cli("fit", people, "--label", "outcome", "--out", run, *QUICK)
    (following,) = (line for line in shown.splitlines() if line.startswith("Next:"))
    dessl, *typed = shlex.split(following.removeprefix("Next:"))
    assert dessl == "dessl"
    assert typed[1] == str(run)


@pytest.mark.slow  # a kill is tested anyway, and without waiting
@pytest.mark.parametrize(
    ("more", "within"),
    [(("--lam", 0.5), "training"), ((), "training"), ((), "training/refit")],
)
def test_ctrl_c_leaves_a_run_that_goes_on(
    cli: Cli, people: Path, tmp_path: Path, more: tuple[object, ...], within: str
) -> None:
    run = tmp_path / "run"
    options = ("--label", "outcome", "--steps", 300, "--networks", 1, *more)
    arguments = [str(option) for option in ("fit", people, "--out", run, *options)]
    process = subprocess.Popen(
        [sys.executable, "-c", "from dessl.cli.main import main; main()", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while not list(run.glob(f"{within}/*/checkpoints/step-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert out == ""
    assert "Traceback" not in err
    assert f"to resume: dessl {' '.join(arguments)}" in err
    assert not (run / "facts.json").exists()
    code, _, err = cli(*arguments)
    assert code == 0, err
    whole = tmp_path / "whole"
    assert cli(*(str(whole) if option == str(run) else option for option in arguments))[0] == 0
    metrics = [[one.metrics for one in read_facts(folder).runs] for folder in (run, whole)]
    assert metrics[0] == metrics[1]
    assert read_facts(run).pool == read_facts(whole).pool
    weights = [(folder / "model" / "model.safetensors").read_bytes() for folder in (run, whole)]
    assert weights[0] == weights[1]


def test_help_names_the_surrogates_that_a_name_is_not_enough_for(cli: Cli) -> None:
    told = " ".join(cli("fit", "--help")[1].replace("│", " ").split())
    data = SemiData(torch.zeros(4, 2), [0, 1, -1, -1])
    for name in SURROGATES:
        named = re.search(rf"except .*\b{name}\b.*, which need more than a name", told)
        try:
            recipe_for(data, surrogate=name)
        except ValueError:
            assert named, name
        else:
            assert not named, name


def test_options_know_the_library_s_own_numbers() -> None:
    assert fit.MOST_NETWORKS == NETWORKS
    assert fit.MARGIN == MARGIN
