"""Correct, distil, pool, gate: what is learnt, that nothing leaks, and that it can be stored."""

import copy
import dataclasses
import json
from pathlib import Path

import pytest
import torch
from tests.teachers.three_clouds import (
    NAMES,
    SHORT,
    answers,
    data,
    gold_only,
    loss,
    rows,
    school,
    taught,
)
from torch import Tensor

from dessl.data import SemiData
from dessl.teachers import DEFAULT, Answers, Taught, learn_from_answers
from dessl.teachers.base import State
from dessl.teachers.cross_corrected import fold_corrections
from dessl.teachers.fold_networks import (
    Lesson,
    ensemble_log_p,
    network_log_p,
    trained_networks,
)
from dessl.teachers.school import Parts
from dessl.teachers.student import students_of
from dessl.teachers.student_pool import evaluated, pool_weights, pooled_log_p


@pytest.mark.parametrize("kind", ["good", "permuted"])
def test_a_teacher_that_can_be_corrected_helps(kind: str) -> None:
    found = taught(kind, at_prediction=True)
    x = rows()[0][600:]
    assert found.report.student.kept
    assert loss(found.predict_log_proba(x)) < gold_only(found) - 0.02
    listened = loss(found.predict_log_proba(x, answers(kind)[600:]))
    assert listened < 0.7 * gold_only(found)


def test_a_shuffled_teacher_does_no_harm() -> None:
    found = taught("shuffled", at_prediction=True)
    x = rows()[0][600:]
    assert loss(found.predict_log_proba(x)) < gold_only(found) + 0.02
    assert loss(found.predict_log_proba(x, answers("shuffled")[600:])) < gold_only(found) + 0.02
    assert abs(found.report.teachers[0].trust) < 0.3


def test_probabilities_add_up_and_the_same_seed_gives_the_same_student() -> None:
    x = rows()[0][600:620]
    first = taught("good").predict_log_proba(x)
    torch.testing.assert_close(first.exp().sum(1), torch.ones(20, dtype=torch.float64))
    said = Answers.of(answers("good")[:600], NAMES, name="good")
    beside = copy.copy(data())
    beside.teachers = {"teacher": said}  # as SemiData(..., teachers=) has them
    again = learn_from_answers(beside, setting=SHORT, models=())
    assert torch.equal(again.predict_log_proba(x), first)


def test_the_report_says_what_was_kept_and_how_good_the_teacher_is() -> None:
    report = taught("good", at_prediction=True).report
    truth = float((answers("good").argmax(1) == rows()[1]).double().mean())
    quality = report.teachers[0]
    assert quality.accuracy is not None
    assert quality.accuracy.low <= truth <= quality.accuracy.high
    assert quality.calibration_error is not None
    assert quality.trust > 0.3
    choice = report.student
    gain = choice.without_loss - choice.pooled_loss
    assert choice.kept == (gain > choice.standard_error)
    assert any(choice.weights_without[1:]) or choice.without_loss == choice.gold_only_loss
    assert not any(choice.weights_without[2:])  # of members that use the answers
    assert choice.accuracy.low < choice.accuracy.value < choice.accuracy.high
    text = str(report)
    for part in ("60 gold labels", "Without the teacher", "With the teacher", "95 % interval"):
        assert part in text
    more = report.with_answers
    assert more is not None
    assert more.needed == 1.0


def test_a_pool_that_is_not_better_is_not_kept() -> None:
    choice = taught("good").report.student
    gold = (1.0, *[0.0] * (len(choice.members) - 1))
    worse = dataclasses.replace(
        choice, pooled_loss=choice.without_loss + 0.01, weights_without=gold
    )
    assert not worse.kept
    assert "The answers did not help, so gold labels alone" in worse.why
    assert "Weights: gold only 1.00." in worse.why
    unsure = dataclasses.replace(
        choice, pooled_loss=choice.without_loss - 0.01, standard_error=0.02, needed=1.0
    )
    assert not unsure.kept
    assert "no gain of more than 1 standard error" in unsure.why
    found = taught("good")
    report = dataclasses.replace(found.report, student=worse)
    x = rows()[0][600:]
    kept = dataclasses.replace(found, report=report).predict_log_proba(x)
    expected = ensemble_log_p(found.networks["complete_case"], found.space(x))
    torch.testing.assert_close(kept, expected)


def test_a_debiased_student_joins_the_pool_where_the_teacher_is_believed() -> None:
    assert (
        "debiased student"
        in taught("good", at_prediction=True, debiased=True).report.student.members
    )


def test_several_teachers_hard_and_soft_some_rows_unanswered() -> None:
    hard = [
        None if row % 7 == 0 else NAMES[int(c)]
        for row, c in enumerate(answers("permuted").argmax(1))
    ]
    both = [
        Answers.of(hard[:600], NAMES, name="hard"),
        Answers.of(answers("good")[:600], NAMES, name="soft"),
    ]
    found = learn_from_answers(data(), both, at_prediction=True, setting=SHORT, models=())
    x = rows()[0][600:]
    new = [Answers.of(hard[600:], NAMES), Answers.of(answers("good")[600:], NAMES)]
    assert loss(found.predict_log_proba(x, new)) < 0.6 * gold_only(found)
    quality = found.report.teachers[0]
    assert quality.answered == pytest.approx(514 / 600)
    assert quality.confidence is None
    with pytest.raises(ValueError, match="answers of 2 teachers"):
        found.predict_log_proba(x, new[0])
    tensors, settings = found.state()
    again = Taught.from_state(State(tensors, json.loads(json.dumps(settings))))
    assert torch.equal(again.predict_log_proba(x, new), found.predict_log_proba(x, new))


def test_a_teacher_that_answered_nothing_cannot_teach() -> None:
    silent = Answers.of([None] * 600, NAMES, name="silent")
    good = Answers.of(answers("good")[:600], NAMES, name="good")
    for given in (silent, [good, silent]):
        with pytest.raises(ValueError, match="answers of silent are all missing; got 600 rows"):
            learn_from_answers(data(), given, setting=SHORT)


def test_a_teacher_that_always_says_the_same_cannot_teach() -> None:
    some = [None, *["a"] * 599]
    for given in (["b"] * 600, torch.tensor([[0.2, 0.3, 0.5]]).expand(600, 3), some):
        n = 599 if given is some else 600
        with pytest.raises(ValueError, match=f"the same answer to all {n} rows that it answered"):
            learn_from_answers(data(), given, setting=SHORT)


def test_the_models_of_the_default_pool_join_with_and_without_the_answers() -> None:
    """On Gaussian clouds they are better than short networks, so their gain needs no teacher."""
    found = taught("good", at_prediction=True, models=DEFAULT)
    x, choice = rows()[0][600:], found.report.student
    assert loss(found.predict_log_proba(x)) < loss(taught("good").predict_log_proba(x))
    assert choice.without_loss < taught("good").report.student.without_loss
    assert choice.members[4] == "tree student"
    assert [name.split()[0] for name in choice.members[5:]] == list(DEFAULT)
    assert not any(choice.weights_without[2:5])  # student, imitation and tree student
    assert choice.answers_weight == pytest.approx(sum(choice.weights[2:5]))
    used = {name for name, weight in zip(choice.members, choice.used, strict=True) if weight}
    assert set(found.others) >= used - set(choice.members[:4])
    assert found.report.with_answers is not None
    assert found.report.with_answers.alone_loss in (choice.without_loss, choice.pooled_loss)
    said = answers("good")[600:]
    tensors, settings = found.state()
    again = Taught.from_state(State(tensors, json.loads(json.dumps(settings))))
    assert torch.equal(again.predict_log_proba(x, said), found.predict_log_proba(x, said))
    total = sum(
        weight * found.others[name].predict_log_proba(x)
        if name in found.others
        else weight * ensemble_log_p(networks, found.space(x))
        for name, weight, networks in zip(
            choice.members,
            choice.used,
            [
                found.networks["complete_case"],
                found.networks["students"][:5],
                found.networks["students"][5:],
                found.networks["imitators"],
                *[()] * 6,
            ],
            strict=True,
        )
        if weight
    )
    torch.testing.assert_close(found.predict_log_proba(x), torch.as_tensor(total).log_softmax(1))


def test_the_networks_alone_have_the_weights_of_all() -> None:
    found, n = taught("good", at_prediction=True, models=DEFAULT), 10
    for first, expected in ((0.2, (0.6, 0.0, 1.2)), (0.0, (0.0, 0.0, 1.8))):
        weights = (first, 0.0, 0.4, *[0.0] * 5, 1.2 - first, 0.2)
        choice = dataclasses.replace(found.report.student, weights=weights, weights_without=weights)
        others = dict.fromkeys(choice.members[8:], object())
        report = dataclasses.replace(found.report, student=choice)
        alone = dataclasses.replace(found, report=report, others=others).networks_alone()
        assert alone.report.student.used == pytest.approx((*expected, *[0.0] * (n - 3)))
        assert not alone.others
        assert alone.predict_log_proba(rows()[0][600:]).isfinite().all()
    nothing = dataclasses.replace(
        choice, weights=(0.0,) * 9 + (1.0,), weights_without=(0.0,) * 9 + (1.0,)
    )
    report = dataclasses.replace(found.report, student=nothing)
    alone = dataclasses.replace(found, report=report, others=others).networks_alone()
    assert alone.report.student.used == (1.0, *[0.0] * 9)


def test_an_accuracy_is_that_of_the_mean_over_the_folds() -> None:
    """Against a loop: where a single network differs, the mean gains what it says it gains."""
    found, school_ = taught("good"), school("good")
    choice, inside = found.report.student, found.evaluated
    assert inside is not None
    single = (inside.taught if choice.kept else inside.without)[60:].argmax(1)
    p = found.predict_log_proba(data().x[school_.evaluation_rows]).exp()
    gains = [float(row.max() - row[c]) for row, c in zip(p, single, strict=True)]
    assert choice.averaging == pytest.approx(sum(gains) / len(gains))
    assert choice.averaging > 0


def test_gold_rows_without_an_answer_are_evaluated_as_they_are_predicted() -> None:
    """The student predicts them, so a teacher that answers half of them gains half as much."""
    school_ = school("good")
    silent = torch.arange(600) % 2 == 0
    some = tuple(
        dataclasses.replace(one, values=torch.where(silent, -1, one.values))
        for one in school_.answers
    )
    gold = school_.networks.gold
    networks = dataclasses.replace(
        school_.networks,
        gold=dataclasses.replace(gold, answers=tuple(o.taken(school_.gold_rows) for o in some)),
    )
    half = dataclasses.replace(school_, answers=some, networks=networks)
    students = students_of(half, half.lessons())
    corrections = [fold_corrections(networks, matrix=matrix) for matrix in (True, False)]
    parts = Parts(tuple(students.values()), (), corrections, (*students, "with D", "without"))
    n = len(school_.gold_rows) + len(school_.evaluation_rows)
    alone = torch.full((n, 3), 1 / 3, dtype=torch.float64).log()
    _, found = evaluated(half, parts, alone)
    unheard = silent[torch.cat([half.gold_rows, half.evaluation_rows])]
    assert torch.equal(found.taught[unheard], alone[unheard])
    assert not torch.isclose(found.taught[~unheard], alone[~unheard]).all(1).any()


def test_a_teacher_without_answers_to_gold_rows_is_not_judged() -> None:
    said = [None if row < 60 else NAMES[int(c)] for row, c in enumerate(rows()[1][:600])]
    silent = Answers.of(said, NAMES, name="silent")
    with pytest.raises(ValueError, match="gold rows that it answered, at least 10; it answered 0"):
        learn_from_answers(data(), silent, setting=SHORT)
    both = [silent, Answers.of(answers("good")[:600], NAMES, name="good")]
    found = learn_from_answers(data(), both, at_prediction=True, setting=SHORT, models=())
    assert found.report.teachers[0].accuracy is None
    assert "too few answers" in str(found.report)
    assert found.report.teachers[0].trust == 0
    again = Taught.from_state(found.state())
    assert again.report == found.report
    json.dumps(found.state().settings, allow_nan=False)


def test_held_out_predictions_are_at_the_step_that_the_other_rows_select() -> None:
    """Against training again: a row's own label, when changed, does not change what is said of it.

    The rows that train the networks are the same, so only the selected step could change.
    """
    gold = school("good").networks.gold
    row = int(gold.inside(0)[0])
    y = gold.y.clone()
    y[row] = (y[row] + 1) % 3
    lesson = Lesson(gold.outside(0), gold.inside(0))
    first, second = (
        trained_networks(gold.x, labels, [lesson], SHORT, n_classes=3)[0] for labels in (gold.y, y)
    )
    place = int((gold.inside(0) == row).nonzero())
    assert torch.equal(first.held_out[place], second.held_out[place])
    assert first.held_out.shape == (len(gold.inside(0)), 3)
    kept = network_log_p(first.network, gold.x[gold.inside(0)])
    loss_kept, loss_others = (
        float(-p.gather(1, gold.y[gold.inside(0)][:, None]).mean()) for p in (kept, first.held_out)
    )
    assert loss_kept <= loss_others + 1e-6  # the kept step is the best for the fold as a whole


def test_pool_weights_are_the_least_of_their_objective() -> None:
    g = torch.Generator().manual_seed(3)
    y = torch.randint(3, (90,), generator=g)
    logs = torch.stack(
        [(k * torch.eye(3)[y] + torch.randn(90, 3, generator=g)).log_softmax(1) for k in (1, 2, 0)]
    ).double()
    found = pool_weights(logs, y)

    def value(w: Tensor) -> Tensor:
        log_p = pooled_log_p(w, logs)
        ce = -log_p.gather(1, y[:, None]).mean()
        return ce + 3 / 90 * (w.sum() - 1) ** 2 + 0.5 / 90 * (w[1:] ** 2).sum()

    best = float(value(found))
    for _ in range(300):
        near = (found + 0.05 * torch.randn(3, generator=g)).clamp(min=0)
        assert float(value(near)) >= best - 1e-9


def test_what_cannot_be_learnt_from_is_refused() -> None:
    x, y = rows()
    few = SemiData(
        x[:60], torch.where(torch.arange(60) < 8, y[:60], -1), class_names=["0", "1", "2"]
    )
    with pytest.raises(ValueError, match="at least 10 gold labels"):
        learn_from_answers(few, y[:60], setting=SHORT)
    with pytest.raises(ValueError, match="no answers given"):
        learn_from_answers(data())
    with pytest.raises(ValueError, match="without a gold label"):
        learn_from_answers(SemiData(x, y), y, setting=SHORT)
    images = SemiData(torch.zeros(40, 1, 8, 8, dtype=torch.uint8), torch.arange(40) % 2)
    with pytest.raises(ValueError, match="needs a table"):
        learn_from_answers(images, torch.arange(40) % 2, setting=SHORT)
    with pytest.raises(ValueError, match="must cover the 600 rows"):
        learn_from_answers(data(), answers("good")[:500], setting=SHORT)
    with pytest.raises(ValueError, match="trained without its teacher"):
        taught("good").predict_log_proba(x[600:], answers("good")[600:])
    with pytest.raises(ValueError, match="columns of training"):
        taught("good").predict_log_proba(x[600:, :2])


def test_students_of_other_answers_are_not_taken_for_these(tmp_path: Path) -> None:
    given, gold = answers("good")[:600], data().labelled_rows
    changed = given.clone()
    changed[gold] = given[gold].roll(1, dims=1)  # imitators learn from other rows: no difference
    learn_from_answers(data(), given, setting=SHORT, out=tmp_path, models=())
    with pytest.raises(ValueError, match=r"students.* has a different run \(surrogate"):
        learn_from_answers(data(), changed, setting=SHORT, out=tmp_path, models=())


def test_arguments_of_another_kind_are_named() -> None:
    with pytest.raises(TypeError, match="data must be a SemiData; got Tensor"):
        learn_from_answers(rows()[0], answers("good"))
    with pytest.raises(TypeError, match="setting must be a NetworkSetting; got dict"):
        learn_from_answers(data(), answers("good")[:600], setting={"steps": 3})
