"""State of terms: which ids, which precision, and whether it is there."""

from typing import Any

import pytest
import torch
from torch import nn

from dessl.surrogates import Entropy
from dessl.surrogates.state import (
    check_fine_enough,
    checked_ids,
    device_of,
    move_towards,
    prepared,
)


def test_the_device_is_that_of_the_first_parameter() -> None:
    assert device_of(nn.Linear(2, 2, device="meta")) == torch.device("meta")
    assert device_of(nn.Flatten()) == torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_ids_become_indices(dtype: torch.dtype) -> None:
    found = checked_ids(torch.tensor([0, 4, 4], dtype=dtype), n=3, n_rows=5)
    assert found.dtype == torch.int64
    assert found.tolist() == [0, 4, 4]


def test_a_byte_is_compared_with_many_rows() -> None:
    ids = torch.tensor([200], dtype=torch.uint8)
    assert checked_ids(ids, n=1, n_rows=1000).tolist() == [200]


@pytest.mark.parametrize(
    ("ids", "kind", "says"),
    [
        (torch.zeros(2), TypeError, "whole numbers, one for each row; got torch.float32"),
        (torch.ones(2, dtype=torch.bool), TypeError, "got torch.bool"),
        ([0, 1], TypeError, "got list"),
        (torch.zeros(2, 1).long(), ValueError, r"each of the 2 rows, shape \(2,\); got \(2, 1\)"),
        (torch.tensor([0, 5]), ValueError, r"ids must lie in \[0, 4\]; got from 0 to 5"),
    ],
)
def test_other_ids_are_refused(ids: Any, kind: type, says: str) -> None:
    with pytest.raises(kind, match=says):
        checked_ids(ids, n=2, n_rows=5)


@pytest.mark.parametrize("value", [torch.float64, torch.float32, torch.bfloat16])
def test_an_average_moves_in_its_own_precision(value: torch.dtype) -> None:
    average = torch.tensor([0.0, 2.0], dtype=torch.float64)
    place = average.data_ptr()
    move_towards(average, torch.tensor([1.0, 4.0], dtype=value), share=0.25)
    assert average.tolist() == [0.25, 2.5]
    assert average.data_ptr() == place


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_average_in_half_precision_is_refused(dtype: torch.dtype) -> None:
    average = torch.zeros(2, dtype=dtype)
    with pytest.raises(TypeError, match=f"float32 or float64.*got {dtype}"):
        move_towards(average, torch.ones(2), share=0.5)
    assert not average.any()
    check_fine_enough(average.float())


def test_state_must_be_there_and_have_the_model_s_classes() -> None:
    term = Entropy()
    term.register_buffer("memory", None)
    with pytest.raises(RuntimeError, match=r"Entropy has no state yet\. Call prepare"):
        prepared(term, "memory")
    term.memory = torch.zeros(4, 3)
    assert prepared(term, "memory") is term.memory
    assert prepared(term, "memory", torch.zeros(7, 3)) is term.memory
    with pytest.raises(ValueError, match="Entropy was prepared for 3 classes; the model has 2"):
        prepared(term, "memory", torch.zeros(7, 2))
