"""Teachers cross-fitted in the background: the same predictions, the same errors, no leftovers."""

import threading
from functools import partial

import pytest
import torch
from sklearn.datasets import make_moons
from torch import Tensor

from dessl import SemiData
from dessl.teachers import pooled
from dessl.teachers.crossing import Crossing, in_background

FOLDS = torch.arange(40) % 5


@pytest.fixture(scope="module")
def data() -> SemiData:
    x, y = (torch.from_numpy(part) for part in make_moons(200, noise=0.2, random_state=0))
    return SemiData(x.float(), torch.where(torch.arange(200) < 40, y, -1))


def constant(x: Tensor) -> Tensor:
    return torch.full((len(x), 2), 0.5).log()


def test_a_pool_is_the_same_if_its_teachers_are_fitted_meanwhile(data: SemiData) -> None:
    anchor = constant(data.x[:40])
    before = pooled(data, FOLDS, anchor, constant)
    with in_background() as later:
        crossing = Crossing.of(data, FOLDS, later=later)
        after = pooled(data, FOLDS, anchor, constant, crossing=crossing)
    assert after.report == before.report
    assert after.weights == before.weights
    assert after.predict_log_proba(data.x).equal(before.predict_log_proba(data.x))


def test_jobs_run_in_order_in_another_thread() -> None:
    ran: list[tuple[int, str]] = []

    def job(number: int) -> dict[str, Tensor]:
        ran.append((number, threading.current_thread().name))
        return {str(number): torch.tensor(number)}

    with in_background() as later:
        second, first = (later(partial(job, number)) for number in (2, 1))
        assert list(first()) == ["1"]
        assert list(second()) == ["2"]
    assert [number for number, _ in ran] == [2, 1]
    assert all(name.startswith("dessl-teachers") for _, name in ran)


def test_an_error_is_raised_where_the_result_is_needed() -> None:
    def fail() -> dict[str, Tensor]:
        raise ValueError("of a teacher")

    with in_background() as later:
        found = later(fail)
        with pytest.raises(ValueError, match="of a teacher"):
            found()


def test_what_has_not_begun_is_dropped_if_the_networks_fail() -> None:
    begun, go_on, ran = threading.Event(), threading.Event(), []

    def first() -> dict[str, Tensor]:
        begun.set()
        go_on.wait(10)
        ran.append("first")
        return {}

    def networks() -> None:
        with in_background() as later:
            later(first)
            later(lambda: ran.append("second") or {})
            begun.wait(10)
            threading.Timer(0.2, go_on.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        networks()
    assert ran == ["first"]
    assert not [one for one in threading.enumerate() if one.name.startswith("dessl-teachers")]
