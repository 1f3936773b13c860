"""dessl evaluate: other metrics, groups, labels drawn by design, prediction sets."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from dessl.evaluation import compare_models, estimate_metric, prediction_sets
from dessl.saved import load_model

Cli = Callable[..., tuple[int, str, str]]
HEAD = "age,dose,site,chance,stratum,outcome"


def write_rows(path: Path, n: int, seed: int, labelled: float) -> Path:
    """People who are ill above 50, more or less; a labelling probability that depends on age."""
    rng = np.random.default_rng(seed)
    lines = [HEAD]
    for number in range(n):
        age = rng.normal(50, 12)
        ill = age + rng.normal(0, 6) > 50
        chance = labelled * (1.5 if age > 50 else 0.5)
        label = ("ill" if ill else "well") if rng.random() < chance else ""
        site = "north" if number % 3 else "south"
        stratum = "old" if age > 50 else "young"
        lines.append(f"{age:.2f},{rng.normal():.2f},{site},{chance:.3f},{stratum},{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(cli: Cli, folder: Path) -> Path:
    train = write_rows(folder / "train.csv", 150, 0, 0.6)
    code, _, err = cli(
        "fit", train, "--label", "outcome", "--out", folder / "run", "--networks", 1,
        "--steps", 5, "--ignore", "chance", "--ignore", "stratum", "--ignore", "site",
    )  # fmt: skip
    assert code == 0, err
    return folder / "run"


def test_metrics_groups_designs_and_sets(cli: Cli, tmp_path: Path) -> None:
    run = trained(cli, tmp_path)
    new = write_rows(tmp_path / "new.csv", 600, 1, 0.3)
    code, shown, err = cli("evaluate", run, new)
    assert code == 0, err
    assert "Note: the unlabelled rows do not look like the labelled ones" in err
    assert "caps each row's loss at 4.6" in shown
    asked = ("--metric", "accuracy", "--metric", "recall", "--metric", "auc", "--class", "ill")
    how = ("--propensity", "chance")
    code, shown, err = cli("evaluate", run, new, *asked, *how, "--by", "site", "--json")
    assert (code, err) == (0, "")
    found = json.loads(shown)
    assert list(found["estimates"]) == ["accuracy", "recall", "auc"]
    assert set(found["groups"]) == {"north", "south"}
    cells = [line.split(",") for line in new.read_text(encoding="utf-8").splitlines()[1:]]
    model = load_model(run / "model")
    ill = model.class_names.index("ill")
    known = np.array([row[5] != "" for row in cells])
    y = np.array([ill if row[5] == "ill" else 1 - ill for row in cells])
    chance = np.array([float(row[3]) for row in cells])
    p = predicted(cli, run, new, tmp_path)
    wanted = estimate_metric(
        "recall", p[known], y[known], p[~known], positive=ill, propensity=chance[known]
    )
    entry = found["estimates"]["recall"]
    assert [entry[k] for k in ("value", "low", "high")] == pytest.approx(wanted[:3], abs=1e-4)
    assert found["estimates"]["recall"]["effective_labels"] < known.sum()
    code, shown, err = cli("evaluate", run, new, "--sets", 0.9, "--json")
    rule = prediction_sets(p[known], y[known], p[~known], check_shift=False)
    assert json.loads(shown)["sets"]["threshold"] == pytest.approx(rule.threshold, abs=1e-4)
    code, shown, err = cli("evaluate", run, new, "--strata", "stratum", "--by", "site")
    assert code == 0, err
    assert "By site" in shown
    assert "look like" not in err
    refuses_wrong_options(cli, run, new)
    allows_for_groups(cli, run, tmp_path)
    names_the_class(cli, run, new)
    says_which_class_is_always_in_a_set(cli, run, new)
    compares_two_runs(cli, run, new, tmp_path)


def allows_for_groups(cli: Cli, run: Path, folder: Path) -> None:
    """Each row five times, by patient: intervals as wide as those of the rows once."""
    head, *rows = write_rows(folder / "once.csv", 300, 2, 0.5).read_text().splitlines()
    visits = folder / "visits.csv"
    lines = [f"{row},P{number}" for number, row in enumerate(rows) for _ in range(5)]
    visits.write_text("\n".join([f"{head},patient", *lines]) + "\n", encoding="utf-8")
    widths = {}
    for name, file, more in (
        ("once", folder / "once.csv", ("--propensity", "chance")),
        ("told", visits, ("--propensity", "chance", "--group", "patient")),
        ("untold", visits, ("--propensity", "chance")),
    ):
        code, shown, err = cli("evaluate", run, file, *more, "--against", run, "--json")
        assert code == 0, err
        entry = json.loads(shown)["estimates"]["brier"]
        widths[name] = entry["high"] - entry["low"]
        if name == "told":
            assert "300 groups by 'patient'," in err
            assert entry["n_groups"] == entry["n_labelled"] / 5
            assert json.loads(shown)["differences"]["brier"]["n_groups"] == entry["n_groups"]
    assert widths["told"] == pytest.approx(widths["once"], rel=0.1)
    assert widths["untold"] < 0.6 * widths["once"]
    code, shown, err = cli("evaluate", run, visits, "--group", "patient", "--sets", 0.9)
    assert code == 0, err
    assert "coverage 90% of rows of new groups: the most likely class" in shown
    _, shown, _ = cli("evaluate", run, visits, "--group", "patient", "--sets", 0.9, "--json")
    sets = json.loads(shown)["sets"]
    assert (sets["n_groups"], sets["n_unlabelled"]) == (sets["n_labelled"] / 5, 0)
    code, _, err = cli("evaluate", run, visits, "--group", "site")
    assert code == 2
    assert "labelled rows of at least 3 groups; got those of 2" in err
    code, _, err = cli("evaluate", run, visits, "--group", "chance", "--by", "stratum")
    assert "Note: old has labels of fewer than 3 groups: skipped." in err


def test_groups_and_propensities_of_the_run_are_not_forgotten(cli: Cli, tmp_path: Path) -> None:
    run = trained(cli, tmp_path)
    options = run / "training" / "options.json"
    identity = json.loads(options.read_text())
    identity["options"] |= {"group": "patient", "propensity": "chance"}
    options.write_text(json.dumps(identity))
    head, *rows = write_rows(tmp_path / "once.csv", 60, 2, 0.6).read_text().splitlines()
    visits = tmp_path / "visits.csv"
    lines = [f"{row},P{number}" for number, row in enumerate(rows) for _ in range(3)]
    visits.write_text("\n".join([f"{head},patient", *lines]) + "\n", encoding="utf-8")
    asked = ("evaluate", run, visits, "--metric", "accuracy", "--json")
    code, shown, err = cli(*asked)
    assert code == 0, err
    _, told, _ = cli(*asked, "--group", "patient")
    assert json.loads(shown) == json.loads(told)
    assert json.loads(shown)["estimates"]["accuracy"]["n_groups"]
    said = " ".join(err.split())
    assert "Note: rows are grouped by 'patient', as in the run." in said
    assert "the run was fitted with --propensity chance, but here" in said
    assert "--propensity chance" not in cli(*asked, "--propensity", "chance")[2]
    code, shown, err = cli("evaluate", run, tmp_path / "once.csv", "--json")
    assert "has no such column: rows are taken as independent" in " ".join(err.split())
    assert json.loads(shown)["estimates"]["accuracy"]["n_groups"] is None
    two = tmp_path / "two.csv"
    two.write_text("\n".join([f"{head},patient", *(f"{row},{len(row) % 2}" for row in rows)]))
    code, shown, err = cli("evaluate", run, two, "--json")
    assert code == 0, err
    assert "too few groups for an interval that allows for them" in " ".join(err.split())


def names_the_class(cli: Cli, run: Path, new: Path) -> None:
    """With two classes, the second is the default; only the metrics asked for are shown."""
    second = load_model(run / "model").class_names[1]
    asked = ("--metric", "recall", "--metric", "tpr", "--strata", "stratum")
    code, shown, err = cli("evaluate", run, new, *asked, "--by", "site", "--against", run)
    assert code == 0, err
    assert shown.count(f"recall of '{second}', %") >= 3  # the metrics, the groups, the differences
    for unasked in ("accuracy", "Brier score", "ECE"):
        assert unasked not in shown
    row = next(line for line in shown.splitlines() if f"recall of '{second}'" in line)
    assert all(cell.strip() for cell in row.strip("│").split("│"))
    _, shown, _ = cli("evaluate", run, new, *asked, "--by", "site", "--against", run, "--json")
    found = json.loads(shown)
    for part in (found["estimates"], found["groups"]["north"], found["differences"]):
        assert part["recall"]["class"] == second
        assert (part["tpr"]["class"], part["tpr"]["threshold"]) == (second, 0.5)
    _, shown, _ = cli("evaluate", run, new, "--metric", "accuracy", "--json")
    assert "class" not in json.loads(shown)["estimates"]["accuracy"]


def says_which_class_is_always_in_a_set(cli: Cli, run: Path, new: Path) -> None:
    _, shown, _ = cli("evaluate", run, new, "--sets", 0.3)
    assert "the most likely class, and every class with probability of at least" in shown
    _, as_json, _ = cli("evaluate", run, new, "--sets", 0.3, "--json")
    below = json.loads(as_json)["sets"]["rows_below_threshold"]
    assert 0 < below < 600
    assert f"{below} of 600 rows have no class with that probability" in shown


def compares_two_runs(cli: Cli, run: Path, new: Path, folder: Path) -> None:
    """The other one was trained on another table, and does not use the dose."""
    other, ignored = folder / "other", ("chance", "stratum", "site", "dose")
    code, _, err = cli(
        "fit", write_rows(folder / "more.csv", 150, 2, 0.6), "--label", "outcome", "--out", other,
        "--networks", 1, "--steps", 2, *(part for name in ignored for part in ("--ignore", name)),
    )  # fmt: skip
    assert code == 0, err
    how = ("--strata", "stratum")
    code, shown, err = cli("evaluate", run, new, *how, "--against", other, "--json")
    assert code == 0, err
    found = json.loads(shown)["differences"]
    assert list(found) == ["accuracy", "cross_entropy", "brier", "wins"]
    cells = [line.split(",") for line in new.read_text(encoding="utf-8").splitlines()[1:]]
    names = load_model(run / "model").class_names
    known = np.array([row[5] != "" for row in cells])
    y = np.array([names.index(row[5] or names[0]) for row in cells])
    strata = np.array([row[4] for row in cells])
    p, q = (predicted(cli, one, new, folder, names) for one in (run, other))
    wanted = compare_models(
        "wins", p[known], q[known], y[known], p[~known], q[~known],
        strata=strata[known], strata_unlabelled=strata[~known],
    )  # fmt: skip
    entry = [found["wins"][k] for k in ("difference", "low", "high", "p_value")]
    assert entry == pytest.approx(wanted[:4], abs=2e-3)
    code, shown, err = cli("evaluate", run, new, *how, "--against", "complete-case")
    assert code == 0, err
    assert "Difference: this model minus complete-case" in shown
    code, _, err = cli("evaluate", run, new, "--against", folder / "none")
    assert code != 0
    assert "the folder of a finished run" in err


def predicted(
    cli: Cli, run: Path, data: Path, folder: Path, classes: Sequence[str] = ()
) -> np.ndarray:
    out = folder / "p.csv"
    assert cli("predict", run, data, "--out", out)[0] == 0
    names = out.read_text(encoding="utf-8").splitlines()[0].split(",")
    classes = classes or load_model(run / "model").class_names
    columns = [names.index(f"p({name})") for name in classes]
    return np.genfromtxt(out, delimiter=",", skip_header=1, usecols=columns)


def refuses_wrong_options(cli: Cli, run: Path, new: Path) -> None:
    for options, says in (
        (("--class", "il"), "--class must be one of the model's classes; got 'il'"),
        (("--metric", "kappa"), "metric must be one of"),
        (("--metric", "wins"), "wins compares two models. Pass --against RUN"),
        (("--sets", 2), "coverage must lie in (0, 1); got 2"),
        (("--propensity", "chances"), "a column 'chances'"),
        (("--propensity", "site"), "a number in 'site' for each labelled row"),
        (("--metric", "tpr", "--threshold", 2), "threshold"),
    ):
        code, _, err = cli("evaluate", run, new, *options)
        assert code != 0
        assert says in err
        assert "Traceback" not in err


def test_a_metric_without_rows_is_skipped_and_the_others_are_shown(
    cli: Cli, tmp_path: Path
) -> None:
    run = trained(cli, tmp_path)
    new = write_rows(tmp_path / "new.csv", 200, 1, 0.6)
    lines = new.read_text(encoding="utf-8").splitlines()
    new.write_text(
        "\n".join(one.replace(",ill", ",") if ",south," in one else one for one in lines)
    )
    asked = ("--metric", "accuracy", "--metric", "recall", "--class", "ill")
    code, shown, err = cli("evaluate", run, new, *asked, "--by", "site", "--json")
    assert code == 0
    assert (
        "Note: recall of 'ill' for south is not defined: no labelled row is of class 'ill'." in err
    )
    groups = json.loads(shown)["groups"]
    assert (list(groups["south"]), list(groups["north"])) == (["accuracy"], ["accuracy", "recall"])
    new.write_text("\n".join(one.replace(",ill", ",") for one in lines))
    code, _, err = cli("evaluate", run, new, *asked[2:])
    assert code == 2
    assert "none of the metrics can be estimated. Label more rows" in err
