"""One thread inside, the user's number outside."""

import threading
from collections.abc import Iterator

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from dessl.training.threads import one_thread, threads_outside


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_torch_and_linear_algebra_compute_in_one() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
        blas = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
        assert blas
        assert set(blas) == {1}
    assert torch.get_num_threads() == 3


def test_the_users_number_is_known_inside() -> None:
    assert threads_outside() == 3
    with one_thread(), one_thread():
        assert threads_outside() == 3


def test_linear_algebra_gets_back_the_number_it_had_just_before() -> None:
    def blas() -> set[int]:
        return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

    for number in (2, 3):  # not the one of the first block
        with threadpool_limits(number, user_api="blas"):
            with one_thread():
                assert blas() == {1}
            assert blas() == {number}


def test_nothing_changes_if_it_is_not_wanted() -> None:
    with one_thread(when=False):
        assert torch.get_num_threads() == 3


def test_a_block_within_a_block_leaves_the_outer_one_alone() -> None:
    with one_thread():
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
        torch.set_num_threads(2)
        with one_thread():
            assert torch.get_num_threads() == 2  # what is set inside is the user's
    assert torch.get_num_threads() == 3


def test_an_error_restores_the_number() -> None:
    def fail() -> None:
        with one_thread():
            raise RuntimeError("inside")

    for _ in range(2):  # and the next block is no inner one
        with pytest.raises(RuntimeError, match="inside"):
            fail()
        assert torch.get_num_threads() == 3
    with one_thread():
        assert torch.get_num_threads() == 1


def test_blocks_of_two_threads_that_overlap_restore_what_was_before_both() -> None:
    """As of two fits at once: the first to begin is the first to end."""
    second_is_inside, first_is_done = threading.Event(), threading.Event()
    ends: list[int] = []

    def second() -> None:
        with one_thread():
            second_is_inside.set()
            first_is_done.wait(10)
        ends.append(torch.get_num_threads())

    other = threading.Thread(target=second)
    with one_thread():
        other.start()
        assert second_is_inside.wait(10)
    first_is_done.set()
    other.join()
    later = threading.Thread(target=lambda: ends.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert [*ends, torch.get_num_threads()] == [3, 3, 3]
