"""``dessl fit --teacher``: a student from few gold labels and answers that may be wrong."""

import csv
import dataclasses
import html
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dessl.cli.main import main
from dessl.cli.new_answers import answers_to
from dessl.data.errors import DataError
from dessl.recipes import TaughtPredictor
from dessl.report.decision import accuracy_of, advice
from dessl.results.facts import read_facts
from dessl.saved import load_model
from dessl.teachers.school import School
from dessl.training.stacked_runs import Population

Cli = Callable[..., tuple[int, str, str]]
COLUMNS = ("a", "b", "gold", "llm", "p(no)", "p(yes)")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows of which 60 have a gold label; two teachers are right nine times in ten.

    The rows alone tell less, so that answers to new rows help.
    """
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 2))
    truth = x.sum(1) + 2 * random.normal(size=400) > 0
    said = np.where(random.random(400) < 0.1, ~truth, truth)
    path = tmp_path_factory.mktemp("answers") / "answers.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for row, (a, b) in enumerate(x):
            gold = ("no", "yes")[int(truth[row])] if row < 60 else ""
            llm = "not sure" if row % 9 == 4 else ("no", "yes")[int(said[row])]
            p = (0.3, 0.7)[int(said[row])]
            table.writerow([a, b, gold, llm, 1 - p, p])
    return path


@pytest.fixture(scope="module")
def listening(answers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose teacher also answers new rows."""
    run = tmp_path_factory.mktemp("runs") / "listening"
    options = ("--teacher", "llm", "--teacher-at-prediction", "--missing-label", "not sure")
    command = [
        "fit",
        answers,
        "--label",
        "gold",
        *options,
        "--ignore",
        "p(no)",
        "--ignore",
        "p(yes)",
    ]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in (*command, "--steps", 30, "--out", run)])
    assert stop.value.code == 0
    return run


def new_rows(answers: Path, place: Path, said: Callable[[int, str], str]) -> Path:
    """Eight rows of the data with other answers."""
    with answers.open(newline="") as file:
        rows = list(csv.DictReader(file))[100:108]
    with place.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("a", "b", "llm"))
        for number, row in enumerate(rows):
            table.writerow((row["a"], row["b"], said(number, row["llm"])))
    return place


def test_the_student_predicts_rows_without_an_answer(
    cli: Cli, answers: Path, listening: Path, tmp_path: Path
) -> None:
    predicted, notes = {}, {}
    kinds: dict[str, Callable[[int, str], str]] = {
        "all": lambda number, text: "yes",
        "half": lambda number, text: "yes" if number % 2 else "",
        "none": lambda number, text: "",
    }
    for kind, said in kinds.items():
        source, out = new_rows(answers, tmp_path / "new.csv", said), tmp_path / f"{kind}.csv"
        code, _, notes[kind] = cli("predict", listening, source, "--out", out)
        assert code == 0, notes[kind]
        with out.open(newline="") as file:
            predicted[kind] = [float(row["p(yes)"]) for row in csv.DictReader(file)]
    assert "no answer" not in notes["all"]
    assert "4 of 8 rows have no answer: the student predicts them alone." in notes["half"]
    assert "8 of 8 rows have no answer" in notes["none"]
    assert predicted["half"][::2] == pytest.approx(predicted["none"][::2])
    assert predicted["half"][1::2] == pytest.approx(predicted["all"][1::2])


def test_gold_rows_that_are_not_drawn_at_random_are_noticed(cli: Cli, tmp_path: Path) -> None:
    """The gold rows are those with the largest x: the audit says so, and one note."""
    random = np.random.default_rng(0)
    x = np.sort(random.normal(size=(500, 3)), axis=0)[::-1]
    truth = x[:, 0] + random.normal(size=500) > 0.5
    source, run = tmp_path / "biased.csv", tmp_path / "run"
    with source.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("a", "b", "c", "gold", "llm"))
        for row in range(500):
            said = truth[row] != (random.random() < 0.1)
            gold = ("no", "yes")[int(truth[row])] if row < 100 else ""
            table.writerow((*x[row], gold, ("no", "yes")[int(said)]))
    command = ("fit", source, "--label", "gold", "--teacher", "llm", "--teacher-at-prediction")
    code, shown, err = cli(*command, "--steps", 20, "--out", run)
    assert code == 0, err
    assert "Audit:  Do not use the unlabelled rows. Labels are not missing at random" in shown
    assert err.count("do not look like") == 1
    assert "propensit" not in err + shown
    assert "strata" not in err
    facts = read_facts(run)
    assert facts.audit is not None
    assert facts.audit.outcome == "do not use it"
    assert sum("do not look like" in note for note in facts.warnings) == 1


def test_the_accuracy_with_answers_is_shown_first(cli: Cli, answers: Path, listening: Path) -> None:
    facts = read_facts(listening)
    assert facts.model is not None
    assert facts.model.method == "student with answers"
    _, shown, _ = cli("report", listening)
    low, high = (f"{100 * getattr(accuracy_of(facts), end):.0f}" for end in ("low", "high"))
    assert (
        f"expected accuracy {low} to {high} % (95 % interval) with the teachers' answers" in shown
    )
    page = (listening / "report.html").read_text()
    assert page.index("With the teacher at pred") < page.index("Without the teacher at pred")


def test_an_answer_that_is_no_class_can_be_emptied(
    cli: Cli, answers: Path, listening: Path, tmp_path: Path
) -> None:
    source = new_rows(answers, tmp_path / "new.csv", lambda number, _: "hm" if number else "yes")
    code, _, err = cli("predict", listening, source, "--out", tmp_path / "p.csv")
    assert code == 2
    assert "got 'hm' in 7 rows. Empty these cells" in err
    assert "--missing-label" not in err  # which dessl predict does not have
    assert "or pass --other-answers missing" in err
    missing = ("--other-answers", "missing", "--out", tmp_path / "p.csv")
    code, _, err = cli("predict", listening, source, *missing)
    assert code == 0, err
    assert "7 answers of 'llm' are not classes and count as no answer: 'hm' in 7 rows." in err
    assert "7 of 8 rows have no answer" in err
    code, _, err = cli("evaluate", listening, answers, "--other-answers", "missing")
    assert code == 0, err


def test_other_spellings_are_read_and_other_answers_left_out(
    cli: Cli, answers: Path, tmp_path: Path
) -> None:
    source, run = tmp_path / "messy.csv", tmp_path / "run"
    text = answers.read_text().replace("not sure", "N/A").replace(",yes,0", ", YES ,0")
    source.write_text(text)
    command = ("fit", source, "--label", "gold", "--teacher", "llm", "--teacher-at-prediction")
    options = ("--ignore", "p(no)", "--ignore", "p(yes)", "--steps", 5, "--out", run)
    code, _, err = cli(*command, *options)
    assert code == 2
    assert "got 'N/A' in 44 rows" in err
    assert "--other-answers missing for all such answers" in err
    assert "if no gold label has this class, label some rows of it" in err
    code, _, err = cli(*command, "--other-answers", "missing", *options)
    assert code == 0, err
    assert "44 answers of 'llm' are not classes and count as no answer: 'N/A' in 44 rows." in err
    assert "answers of 'llm' were read as a class that differs only in upper and lower" in err
    assert "such as 'YES' as 'yes'" in err
    assert len(read_facts(run).warnings) >= 2
    assert load_model(run / "model").class_names == ("no", "yes")
    code, _, err = cli("predict", run, source, "--out", tmp_path / "p.csv")  # as in training
    assert code == 0, err
    assert "44 answers" in err


def test_a_run_with_teachers_has_no_complete_case(
    cli: Cli, answers: Path, listening: Path, tmp_path: Path
) -> None:
    for command in (
        ("predict", listening, answers, "--complete-case", "--out", tmp_path / "p.csv"),
        ("evaluate", listening, answers, "--against", "complete-case"),
    ):
        code, _, err = cli(*command)
        assert code == 2
        assert "expected a run with a complete case; got a model without one" in err
        assert "dessl fit without --teacher" in err


def test_an_exported_student_says_that_its_teacher_is_left_out(
    cli: Cli, listening: Path, tmp_path: Path
) -> None:
    code, _, err = cli("export", listening, "--out", tmp_path / "model.pt2")
    assert code == 0, err
    assert "the graph is the student alone, without the teachers' answers" in err


@pytest.mark.slow
def test_a_student_of_two_teachers(cli: Cli, answers: Path, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "p.csv"
    teachers = ("--teacher", "llm", "--teacher", "p", "--teacher-at-prediction")
    more = ("--missing-label", "not sure", "--steps", 30)
    command = ("fit", answers, "--label", "gold", *teachers, *more, "--out", run)
    code, shown, err = cli(*command)
    assert code == 0, err
    assert "60 gold labels, 340 rows without one." in shown
    assert "it answered 89.0% of the rows" in shown
    found = json.loads((run / "facts.json").read_text())
    qualities = {one["name"]: one for one in found["taught"]["teachers"]}
    assert qualities.keys() == {"llm", "p"}
    with answers.open(newline="") as file:
        gold = [row for row in csv.DictReader(file) if row["gold"]]
    for name, right in {
        "llm": [row["llm"] == row["gold"] for row in gold if row["llm"] != "not sure"],
        "p": [(float(row["p(yes)"]) > 0.5) == (row["gold"] == "yes") for row in gold],
    }.items():
        low, high = (qualities[name]["accuracy"][end] for end in ("low", "high"))
        assert low < np.mean(right) < high
    assert "already finished" in cli(*command)[2]
    facts = read_facts(run)
    accuracy = {one.method: one for one in facts.estimates if one.metric == "accuracy"}
    assert accuracy["student"].n_labelled == facts.data.test == 60
    page = (run / "report.html").read_text()
    assert page.index(html.escape(advice(facts))) < page.index("Teachers")
    assert "imitation of llm" in page
    code, told, err = cli("report", run)
    assert code == 0, err
    assert advice(facts) in told
    assert (run / "report.html").read_text() == page
    model = load_model(run / "model")
    assert model.details["teachers"] == {"llm": ["llm"], "p": ["p(no)", "p(yes)"]}
    assert [column.name for column in model.encoding.columns] == ["a", "b"]
    assert cli("predict", run, answers, "--out", out, "--json")[0] == 0
    heard = out.read_text()
    alone = tmp_path / "alone.csv"
    rows = [line.split(",")[:2] for line in answers.read_text().splitlines()]
    alone.write_text("\n".join(",".join(row) for row in rows))
    code, _, err = cli("predict", run, alone, "--out", out)
    assert code == 0
    assert "the student predicts alone" in err
    assert out.read_text() != heard
    assert cli("evaluate", run, answers)[0] == 0


def test_a_killed_run_is_resumed_where_it_was(
    cli: Cli, answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("fit", answers, "--label", "gold", "--teacher", "p", "--steps", 30)
    code, _, err = cli(*command, "--ignore", "llm", "--out", tmp_path / "whole")
    assert code == 0, err
    halted, imitators = tmp_path / "halted", School.imitators

    def killed(school: School) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(School, "imitators", killed)
    code, _, err = cli(*command, "--ignore", "llm", "--out", halted)
    assert (code, "to resume" in err) == (130, True)
    monkeypatch.setattr(School, "imitators", imitators)
    steps = []
    take = Population.take
    monkeypatch.setattr(
        Population, "take", lambda self, step: steps.append(step) or take(self, step)
    )
    code, _, err = cli(*command, "--ignore", "llm", "--out", halted)
    assert code == 0, err
    assert len(steps) == 30  # of the imitators alone
    name = "model/model.safetensors"
    assert (halted / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_finished_run_is_not_replaced_by_another(cli: Cli, answers: Path, tmp_path: Path) -> None:
    run, other, moved = tmp_path / "run", tmp_path / "other.csv", tmp_path / "moved.csv"
    options = ("--label", "gold", "--teacher", "p", "--ignore", "llm", "--steps", 5)
    code, _, err = cli("fit", answers, *options, "--out", run)
    assert code == 0, err
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    other.write_text(answers.read_text().replace(",yes,", ",no,", 1))
    moved.write_bytes(answers.read_bytes())
    for changed, told in {
        (other, *options): f"run has a different run (DATA: {answers} there, {other} now)",
        (answers, *options, "--teacher-at-prediction"): "--teacher-at-prediction: False there",
        (answers, *options, "--seed", 1): "--seed: 0 there, 1 now",
    }.items():
        code, _, err = cli("fit", *changed, "--out", run)
        assert (code, told in err) == (2, True), err
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "already finished" in cli("fit", answers, *options, "--out", run)[2]
    weights = run / "model" / "model.safetensors"
    weights.write_bytes(b"")
    code, _, err = cli("fit", answers, *options, "--out", run)
    assert (code, "but model/model.safetensors is damaged." in err) == (0, True), err
    assert weights.read_bytes() == before[weights]
    assert cli("fit", moved, *options, "--out", run)[0] == 0  # the same rows, elsewhere


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--teacher", "LLM"), "Did you mean 'llm'?"),
        (("--teacher", "llm"), "in column 'llm'; got 'not sure' in 44 rows. If 'not sure' means no "
         "answer, pass --missing-label 'not sure', or"),
        (("--teacher", "gold"), "--teacher 'gold' and --label name the same column 'gold'"),
        (("--teacher", "p", "--categorical", "p(no)"), "'p' and --categorical name the same"),
        (("--teacher", "p", "--labels", "50"), "--labels cannot be used with --teacher on a table"),
        (("--teacher", "p", "--lam", "0.5"), "--lam cannot be used with --teacher"),
        (("--teacher", "p", "--propensity", "a"), "Draw gold labels at random; or fit without "
         "--teacher; or, for an unbiased evaluation of this student, use dessl evaluate"),
        (("--teacher", "p", "--group", "a"), "too high for new groups, also if you omit --group. "
         "Keep only one row of each group; or fit without --teacher; or omit --group, and rely "
         "only on dessl evaluate --group with labelled rows of new groups."),
        (("--teacher-at-prediction",), "needs --teacher"),
        (("--other-answers", "missing"), "--other-answers needs --teacher"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(
    cli: Cli, answers: Path, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    code, _, err = cli("fit", answers, "--label", "gold", *options, "--out", tmp_path / "run")
    assert code == 2
    assert told in err


def test_a_teacher_is_of_a_table(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("fit", "digits", "--teacher", "llm", "--out", tmp_path / "run")
    assert code == 2
    assert "--teacher names columns of a table" in err


def test_a_teacher_without_columns_has_no_answers(
    answers: Path, listening: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = load_model(listening / "model")
    both = {"llm": ["llm"], "p": ["p(no)", "p(yes)"]}
    model = dataclasses.replace(saved, details={**saved.details, "teachers": both})
    source = new_rows(answers, tmp_path / "new.csv", lambda number, text: "yes")  # without p
    read = answers_to(model, str(source), 0)
    assert [(one.name, int(one.answered.sum())) for one in read or ()] == [("llm", 8)]
    assert "new.csv has no answers of 'p': only those of the other" in capsys.readouterr().err


def test_some_columns_of_a_teacher_are_refused(
    answers: Path, listening: Path, tmp_path: Path
) -> None:
    saved = load_model(listening / "model")
    both = {"llm": ["llm"], "p": ["a", "p(yes)"]}  # as if a were one of its probabilities
    model = dataclasses.replace(saved, details={**saved.details, "teachers": both})
    source = new_rows(answers, tmp_path / "new.csv", lambda number, text: "yes")
    with pytest.raises(DataError, match=r"all columns of .*'p', or none; got no column 'p\(yes\)'"):
        answers_to(model, str(source), 0)


def test_answers_of_another_form_than_in_training_are_refused(
    cli: Cli, answers: Path, listening: Path, tmp_path: Path
) -> None:
    """Fitted on the classes of a column, given columns of probabilities, and the reverse."""
    source, out = tmp_path / "new.csv", tmp_path / "p.csv"
    source.write_text("a,b,llm(no),llm_yes\n0.1,0.2,0.3,0.7\n")
    code, _, err = cli("predict", listening, source, "--out", out)
    assert code == 2
    assert "expected classes of teacher 'llm', as in training, in 'llm'; got probabilities in " in (
        err
    )
    assert "'llm(no)', 'llm_yes'. Pass classes; or remove 'llm(no)', 'llm_yes' to predict" in err
    source.write_text("a,b,llm_no\n0.1,0.2,0.3\n")  # not a column for each class
    code, _, err = cli("predict", listening, source, "--out", out)
    assert (code, "the student predicts alone" in err) == (0, True), err
    saved = load_model(listening / "model")
    soft = {"llm": ["llm(no)", "llm(yes)"]}
    model = dataclasses.replace(saved, details={**saved.details, "teachers": soft})
    named = new_rows(answers, tmp_path / "classes.csv", lambda number, text: "yes")
    with pytest.raises(
        DataError,
        match=r"expected probabilities of teacher 'llm', as in training, in 'llm\(no\)', "
        r"'llm\(yes\)'; got classes in 'llm'\. Pass probabilities",
    ):
        answers_to(model, str(named), 0)


def test_features_named_like_probabilities_are_not_answers(listening: Path, tmp_path: Path) -> None:
    saved = load_model(listening / "model")
    assert saved.encoding is not None
    named = tuple(dataclasses.replace(one, name=f"x_{one.name}") for one in saved.encoding.columns)
    model = dataclasses.replace(
        saved,
        details={**saved.details, "teachers": {"x": ["x"]}},
        class_names=("a", "b"),
        encoding=dataclasses.replace(saved.encoding, columns=named),
    )
    source = tmp_path / "new.csv"
    source.write_text("x_a,x_b\n0.1,0.2\n")
    assert answers_to(model, str(source), 1) is None  # the student predicts alone


def test_embeddings_have_answers_in_their_file_of_labels(
    cli: Cli, answers: Path, tmp_path: Path
) -> None:
    with answers.open(newline="") as file:
        lines = list(csv.DictReader(file))
    vectors, labels, run = tmp_path / "vectors.npy", tmp_path / "labels.csv", tmp_path / "run"
    np.save(vectors, np.array([[line["a"], line["b"]] for line in lines], np.float32))
    with labels.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("row", "gold", "llm"))
        for row in reversed(range(400)):  # in another order than the vectors, some without
            if row % 7 and lines[row]["llm"] != "not sure":
                table.writerow((row, lines[row]["gold"], lines[row]["llm"]))
    command = ("fit", vectors, "--labels", labels, "--label", "gold", "--teacher", "llm")
    code, shown, err = cli(*command, "--steps", 20, "--out", run)
    assert code == 0, err
    listed = [line for row, line in enumerate(lines) if row % 7 and line["llm"] != "not sure"]
    gold = [line for line in listed if line["gold"]]
    (found,) = json.loads((run / "facts.json").read_text())["taught"]["teachers"]
    right = np.mean([line["llm"] == line["gold"] for line in gold])
    assert f"{len(gold)} gold labels, {400 - len(gold)} rows without one." in shown
    assert f"llm: accuracy {right:.3f} (" in shown
    assert found["answered"] == pytest.approx(len(listed) / 400)
    out = tmp_path / "p.csv"
    assert cli("predict", run, vectors, "--out", out)[0] == 0
    assert len(out.read_text().splitlines()) == 401
    assert cli("evaluate", run, vectors, "--labels", labels, "--label", "gold")[0] == 0
    code, _, err = cli("predict", run, vectors, "--answers", labels, "--out", out)
    assert code == 2
    assert "fitted with --teacher-at-prediction, but this one was not" in err


@pytest.fixture(scope="module")
def vectors(answers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows as embeddings; beside them labels.csv with their gold labels and answers."""
    with answers.open(newline="") as file:
        lines = list(csv.DictReader(file))
    path = tmp_path_factory.mktemp("embeddings") / "vectors.npy"
    np.save(path, np.array([[line["a"], line["b"]] for line in lines], np.float32))
    with (path.parent / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("gold", "llm"), *((one["gold"], one["llm"]) for one in lines)])
    return path


@pytest.fixture(scope="module")
def embedded(vectors: Path) -> Path:
    """A run on embeddings whose teacher also answers new rows."""
    run, labels = vectors.parent / "run", vectors.parent / "labels.csv"
    command = ["fit", vectors, "--labels", labels, "--label", "gold", "--teacher", "llm"]
    command += ["--teacher-at-prediction", "--missing-label", "not sure", "--steps", 20]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in (*command, "--out", run)])
    assert stop.value.code == 0
    return run


def test_new_embeddings_have_answers_in_a_table_beside_them(
    cli: Cli, vectors: Path, embedded: Path, tmp_path: Path
) -> None:
    new, said, out = (tmp_path / name for name in ("new.npy", "said.csv", "p.csv"))
    x = np.load(vectors)[:6]
    np.save(new, x)
    said.write_text("row,llm\n4,yes\n1,no\n0,yes\n2,not sure\n")
    code, _, err = cli("predict", embedded, new, "--answers", said, "--out", out)
    assert code == 0, err
    assert "3 of 6 rows have no answer: the student predicts them alone" in " ".join(err.split())
    with out.open(newline="") as file:
        found = [float(line["p(yes)"]) for line in csv.DictReader(file)]
    model = load_model(embedded / "model")
    assert isinstance(model.model, TaughtPredictor)
    assert model.model.taught.heard is not None
    p = model.predict_proba(torch.from_numpy(x), ["yes", "no", None, None, "yes", None])
    assert found == pytest.approx(p[:, model.class_names.index("yes")].tolist())


def test_embeddings_without_answers_are_predicted_by_the_student(
    cli: Cli, vectors: Path, embedded: Path, tmp_path: Path
) -> None:
    code, _, err = cli("predict", embedded, vectors, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert "no table has answers to these rows" in " ".join(err.split())


def test_answers_beside_the_labels_are_used_to_evaluate(
    cli: Cli, vectors: Path, embedded: Path, tmp_path: Path
) -> None:
    labels, alone, losses = vectors.parent / "labels.csv", tmp_path / "gold.csv", []
    with labels.open(newline="") as file:
        alone.write_text("".join(f"{line[0]}\n" for line in csv.reader(file)))
    for given in (labels, alone):
        command = ("evaluate", embedded, vectors, "--labels", given, "--label", "gold", "--json")
        code, shown, err = cli(*command)
        assert code == 0, err
        losses.append(json.loads(shown)["labelled_rows"]["cross_entropy"])
    assert losses[0] < losses[1] - 0.02


def test_a_table_of_answers_that_does_not_fit_is_refused(
    cli: Cli, answers: Path, vectors: Path, embedded: Path, tmp_path: Path
) -> None:
    short = tmp_path / "short.csv"
    short.write_text("llm\nyes\n")
    for data, said, says in (
        (vectors, short, "expected 400 lines, one for each row of the embeddings; got 1"),
        (vectors, vectors, "got suffix '.npy'"),
        (answers, short, "--answers is for .npy files"),
    ):
        out = tmp_path / "p.csv"
        code, _, err = cli("predict", embedded, data, "--answers", said, "--out", out)
        assert code == 2
        assert says in " ".join(err.split())


def test_a_feature_of_nothing_but_classes_is_pointed_out(
    cli: Cli, answers: Path, tmp_path: Path
) -> None:
    command = ("fit", answers, "--label", "gold", "--teacher", "p", "--steps", 20)
    note = "'llm' is a feature, but has only classes of 'gold'. If these are answers"
    code, _, err = cli(*command, "--missing-label", "not sure", "--out", tmp_path / "run")
    assert code == 0, err
    assert note in " ".join(err.split())
    code, _, err = cli(*command, "--out", tmp_path / "other")  # another value occurs
    assert code == 0, err
    assert note not in " ".join(err.split())
