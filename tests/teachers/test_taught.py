"""A student that learnt: what it predicts with, and how it is stored."""

import dataclasses
import json
from functools import cache

import pytest
import torch
from tests.teachers.three_clouds import NAMES, SHORT, answers, data, rows, taught

from dessl.teachers import Answers, Taught, learn_from_answers
from dessl.teachers.base import State
from dessl.teachers.fold_networks import network_log_p


@pytest.mark.parametrize("debiased", [False, True])
def test_state_there_and_back_through_json(*, debiased: bool) -> None:
    found = taught("good", at_prediction=True, debiased=debiased)
    tensors, settings = found.state()
    again = Taught.from_state(State(tensors, json.loads(json.dumps(settings))))
    x, said = rows()[0][600:], answers("good")[600:]
    assert again.report == found.report
    assert torch.equal(again.predict_log_proba(x), found.predict_log_proba(x))
    assert torch.equal(again.predict_log_proba(x, said), found.predict_log_proba(x, said))
    with pytest.raises(ValueError, match="reads format"):
        Taught.from_state(State(tensors, {**settings, "format": 99}))


def test_predictions_are_the_weighed_members() -> None:
    """Against loops: the geometric mean of each kind's networks, weighed, in probabilities."""
    found = taught("good", at_prediction=True)
    x = rows()[0][600:605]
    inside = found.space(x)
    groups = [found.networks["complete_case"]]
    groups += [found.networks["students"][k : k + 5] for k in (0, 5)]
    groups += [found.networks["imitators"]]
    used = found.report.student.used
    assert len(used) == len(groups)
    total = torch.zeros(5, 3, dtype=torch.float64)
    for weight, group in zip(used, groups, strict=True):
        total += weight * sum(network_log_p(one, inside) for one in group) / len(group)
    expected = total.exp() / total.exp().sum(1, keepdim=True)
    torch.testing.assert_close(found.predict_log_proba(x).exp(), expected)


def test_answers_that_were_not_kept_change_nothing() -> None:
    found = taught("good", at_prediction=True)
    more = found.report.with_answers
    assert more is not None
    worse = dataclasses.replace(more, pooled_loss=more.without_loss + 1)
    deaf = dataclasses.replace(found, report=dataclasses.replace(found.report, with_answers=worse))
    assert (deaf.heard, found.heard) == (None, more)
    x, said = rows()[0][600:], answers("good")[600:]
    assert torch.equal(deaf.predict_log_proba(x, said), found.predict_log_proba(x))


def test_answers_to_new_rows_are_doubted_as_far_as_gold_rows_could_not_tell() -> None:
    """Without the doubt, the pool; with it, a mean with the student in probabilities."""
    found = taught("good", at_prediction=True)
    choice = found.report.with_answers
    assert choice is not None
    assert choice.doubt == 1 / (found.report.n_gold + 2)  # every gold row has an answer
    assert found.report.student.doubt == 0
    sure = dataclasses.replace(choice, doubt=0.0)
    pool = dataclasses.replace(found, report=dataclasses.replace(found.report, with_answers=sure))
    x, said = rows()[0][600:], answers("good")[600:]
    alone, heard = found.predict_log_proba(x).exp(), pool.predict_log_proba(x, said).exp()
    expected = heard + (alone - heard) * choice.doubt
    torch.testing.assert_close(found.predict_log_proba(x, said).exp(), expected)
    assert not torch.equal(heard, expected)


def test_what_is_evaluated_is_doubted_too() -> None:
    """A gold row's loss is at most that of ε times what predicts without answers."""
    found = taught("good", at_prediction=True)
    choice, seen = found.report.with_answers, found.evaluated
    assert choice is not None
    assert seen is not None
    assert seen.with_answers is not None
    alone = seen.taught if found.report.student.kept else seen.without
    least = alone.exp() * choice.doubt
    assert bool((seen.with_answers.exp() >= least - 1e-12).all())
    losses = -seen.with_answers.gather(1, seen.y.clamp(min=0)[:, None])[seen.y >= 0]
    assert float(losses.mean()) == pytest.approx(choice.pooled_loss)


def test_a_row_without_an_answer_is_predicted_by_the_student_alone() -> None:
    found = taught("good", at_prediction=True)
    x, said = rows()[0][600:], answers("good")[600:]
    some = said.clone()
    some[::2] = torch.nan
    heard = found.predict_log_proba(x, some)
    assert torch.equal(heard[::2], found.predict_log_proba(x)[::2])
    assert torch.equal(heard[1::2], found.predict_log_proba(x, said)[1::2])


def test_without_any_answer_the_student_predicts_alone() -> None:
    found = taught("good", at_prediction=True)
    x = rows()[0][600:603]
    for none in ([None] * 3, torch.full((3, 3), torch.nan)):
        assert torch.equal(found.predict_log_proba(x, none), found.predict_log_proba(x))
    assert torch.equal(found.predict_log_proba(x[:1], [None]), found.predict_log_proba(x[:1]))


def test_a_student_of_the_first_format_is_read() -> None:
    tensors, settings = taught("good", at_prediction=True).state()
    old = json.loads(json.dumps(settings))
    for name in ("student", "with_answers"):
        for new in ("weights_without", "without_loss", "n"):
            del old["report"][name][new]
    found = Taught.from_state(State(tensors, {**old, "format": 1}))
    choice = found.report.student
    assert choice.without_loss == choice.gold_only_loss
    assert choice.weights_without == (1.0, *[0.0] * (len(choice.weights) - 1))
    assert choice.n == found.report.n_gold == 60


@cache
def of_two() -> Taught:
    """A student of a good and of a bad teacher, both of which answer new rows."""
    both = {kind: answers(kind)[:600] for kind in ("good", "shuffled")}
    return learn_from_answers(data(), both, at_prediction=True, setting=SHORT, models=())


def test_answers_of_several_teachers_are_matched_by_name() -> None:
    x, good, bad = rows()[0][600:], answers("good")[600:], answers("shuffled")[600:]
    expected = of_two().predict_log_proba(x, [good, bad])  # in the order of training
    for given in ({"good": good, "shuffled": bad}, {"shuffled": bad, "good": good}):
        assert torch.equal(of_two().predict_log_proba(x, given), expected)
    named = [Answers.of(bad, NAMES, name="shuffled"), Answers.of(good, NAMES, name="good")]
    assert torch.equal(of_two().predict_log_proba(x, named), expected)
    assert not torch.allclose(of_two().predict_log_proba(x, [bad, good]), expected)


def test_a_teacher_that_is_not_given_has_no_answers() -> None:
    x, good = rows()[0][600:], answers("good")[600:]
    none = torch.full_like(good, torch.nan)
    found = of_two().predict_log_proba(x, {"good": good})
    assert torch.equal(found, of_two().predict_log_proba(x, [good, none]))


def test_other_teachers_than_those_of_training_are_refused() -> None:
    x, good = rows()[0][600:], answers("good")[600:]
    with pytest.raises(ValueError, match="were 'good', 'shuffled'; got answers of 'new'"):
        of_two().predict_log_proba(x, {"good": good, "new": good})
    with pytest.raises(ValueError, match=r"answers of 2 teachers are needed.*'shuffled'; got 1"):
        of_two().predict_log_proba(x, good)


@cache
def of_classes() -> Taught:
    """A student of a teacher that gave classes in training."""
    said = Answers.of([NAMES[c] for c in answers("good")[:600].argmax(1)], NAMES, name="llm")
    return learn_from_answers(data(), said, at_prediction=True, setting=SHORT, models=())


def test_answers_of_another_form_than_in_training_are_refused() -> None:
    x, said = rows()[0][600:], answers("good")[600:]
    classes = [NAMES[c] for c in said.argmax(1)]
    with pytest.raises(ValueError, match=r"^teacher 'good' gave probabilities in training and "
                       r"classes now\..* pass probabilities \(n, classes\)"):  # fmt: skip
        taught("good", at_prediction=True).predict_log_proba(x, classes)
    with pytest.raises(ValueError, match=r"^teacher 'llm' gave classes in training and "
                       r"probabilities now\..* pass classes \(n,\)"):  # fmt: skip
        of_classes().predict_log_proba(x, said)
    with pytest.raises(ValueError, match=r"^teacher 'shuffled' gave probabilities"):
        of_two().predict_log_proba(x, {"shuffled": classes})


def test_the_form_of_the_answers_counts_not_their_values() -> None:
    """Probabilities of 0 and 1 are probabilities; no answer at all has no form."""
    x, said = rows()[0][600:], answers("good")[600:]
    found = taught("good", at_prediction=True)
    sure = torch.eye(3)[said.argmax(1)]
    assert torch.isfinite(found.predict_log_proba(x, sure)).all()
    with pytest.raises(ValueError, match="gave classes in training"):
        of_classes().predict_log_proba(x, sure)
    none = torch.full((300, 3), torch.nan)
    assert torch.equal(of_classes().predict_log_proba(x, none), of_classes().predict_log_proba(x))


@pytest.mark.parametrize(("name", "called"), [("teacher", "the teacher"), ("teacher 2",) * 2])
def test_a_teacher_without_a_name_is_called_by_its_number(name: str, called: str) -> None:
    (quality,) = of_classes().report.teachers
    report = dataclasses.replace(
        of_classes().report, teachers=(dataclasses.replace(quality, name=name),)
    )
    unnamed = dataclasses.replace(of_classes(), report=report)
    with pytest.raises(ValueError, match=f"^{called} gave classes in training"):
        unnamed.predict_log_proba(rows()[0][600:], answers("good")[600:])
