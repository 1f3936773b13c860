"""Schedules: their formulas, their ends, and their trip through JSON."""

import json
import math

import numpy as np
import pytest

from dessl.schedules import (
    SCHEDULES,
    Constant,
    Cosine,
    FixMatchCosine,
    Linear,
    LinearRamp,
    Ramp,
    Schedule,
    Steps,
    WarmUp,
    schedule_dict,
    schedule_from,
)

EXAMPLES: list[Schedule] = [
    Constant(),
    Cosine(),
    FixMatchCosine(),
    Linear(end=0.1),
    Steps(at=(0.25, 0.75), factor=0.1),
    WarmUp(5, then=Cosine()),
    Ramp(until=0.3),
    LinearRamp(until=0.3),
]


def test_every_schedule_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(SCHEDULES.values())


@pytest.mark.parametrize("schedule", EXAMPLES, ids=lambda schedule: type(schedule).__name__)
def test_a_schedule_is_the_same_after_json(schedule: Schedule) -> None:
    described = json.loads(json.dumps(schedule_dict(schedule)))
    assert schedule_from(described) == schedule


@pytest.mark.parametrize("schedule", EXAMPLES, ids=lambda schedule: type(schedule).__name__)
def test_shares_lie_between_zero_and_one(schedule: Schedule) -> None:
    assert all(0 <= schedule(step, 40) <= 1 for step in range(41))


def test_the_formulas() -> None:
    steps = 2**20
    for k in (0, 1000, 524288, 1048575):
        assert FixMatchCosine()(k, steps) == pytest.approx(math.cos(7 * math.pi * k / (16 * steps)))
    assert [Cosine()(k, 4) for k in range(5)] == pytest.approx(
        [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0]
    )
    # Oliver et al.: exp(−5(1 − min(1, step / 200,000))²) in a run of 500,000 steps
    for k in (0, 50_000, 199_999, 200_000, 400_000):
        expected = math.exp(-5 * (1 - min(1, k / 200_000)) ** 2)
        assert Ramp(until=0.4)(k, 500_000) == pytest.approx(expected)
    # and a learning rate of a fifth from step 400,000 on
    assert Steps(at=(0.8,), factor=0.2)(399_999, 500_000) == 1
    assert Steps(at=(0.8,), factor=0.2)(400_000, 500_000) == pytest.approx(0.2)


@pytest.mark.parametrize("steps", [25, 29, 100, 1000])
def test_a_step_comes_at_its_share_of_the_run_and_not_one_later(steps: int) -> None:
    for k in range(1, steps):
        schedule = Steps(at=(k / steps,), factor=0.5)
        assert (schedule(k - 1, steps), schedule(k, steps)) == (1, 0.5)


@pytest.mark.parametrize(
    "schedule",
    [
        Linear(end=np.float32(0.5)),
        Steps(at=np.array([0.5], dtype=np.float32), factor=np.float32(0.5)),
        WarmUp(np.int64(5)),
        Ramp(until=np.float32(0.5)),
        LinearRamp(until=np.float32(0.5)),
    ],
    ids=lambda schedule: type(schedule).__name__,
)
def test_numbers_of_numpy_become_json(schedule: Schedule) -> None:
    assert schedule_from(json.loads(json.dumps(schedule_dict(schedule)))) == schedule


def test_warm_up_rises_to_one_and_hands_over() -> None:
    warm = WarmUp(10, then=Linear())
    assert [warm(k, 30) for k in range(10)] == pytest.approx([(k + 1) / 10 for k in range(10)])
    assert [warm(k, 30) for k in (10, 20, 29)] == pytest.approx([1, 0.5, 0.05])
    assert WarmUp(10)(20, 5) == 1  # a warm-up longer than the run divides by no zero


@pytest.mark.parametrize(
    ("description", "error", "message"),
    [
        ("cosin", ValueError, "must be one of 'constant', 'cosine'"),
        ({"name": "linear", "ends": 0}, ValueError, "'linear' takes end; got ends"),
        ({"name": "cosine", "end": 0}, ValueError, "'cosine' takes no numbers; got end"),
        ({"end": 0}, TypeError, "a name .*or a dict"),
        (3, TypeError, "a name .*or a dict"),
        ({"name": "ramp", "until": 0}, ValueError, r"until must lie in \(0, 1\]"),
        ({"name": "linear_ramp", "until": 1.5}, ValueError, r"until must lie in \(0, 1\]"),
        ({"name": "linear", "end": 2}, ValueError, r"end must lie in \[0, 1\]"),
        ({"name": "steps", "at": [2]}, ValueError, r"at must lie in \[0, 1\]"),
        ({"name": "steps", "at": 0.8}, TypeError, r"such as \(0.5, 0.8\); got 0.8"),
        ({"name": "steps", "factor": math.inf}, ValueError, r"factor must lie in \[0, inf\)"),
        ("warm_up", ValueError, "'warm_up' needs its number of steps"),
        ({"name": "warm_up", "warm_up": 0}, ValueError, "warm_up must be at least 1"),
    ],
)
def test_wrong_schedules_are_refused(
    description: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        schedule_from(description)


def test_a_schedule_of_one_s_own_is_refused() -> None:
    """It has no name that a plan could be written and read back with."""

    class Mine(Cosine):
        pass

    for taken in (schedule_from, schedule_dict):
        with pytest.raises(TypeError, match=r"must be one of dessl\.schedules.*got .*Mine"):
            taken(Mine())
