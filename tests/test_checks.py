"""Numbers in every array that NumPy can make come through as they are."""

import numpy as np
import pytest
import torch

from dessl import _checks


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0)[::-1],
        np.arange(6.0).astype(">f8"),
        np.arange(6, dtype=">i2")[::-2],
        np.arange(6.0).astype(np.longdouble),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.broadcast_to(np.float16(0.5), (3, 2)),
        np.arange(6.0).astype(np.float32).reshape(3, 2).T,
        np.array([True, False]),
    ],
)
def test_arrays_of_every_layout(array: np.ndarray) -> None:
    found = _checks.float64("p", array, ndim=(1, 2))
    assert found.dtype == torch.float64
    assert found.tolist() == array.astype(float).tolist()


def test_a_plain_array_is_not_copied() -> None:
    array = np.arange(6.0)
    assert _checks.float64("p", array, ndim=1).data_ptr() == array.ctypes.data


def test_what_is_no_number_is_refused() -> None:
    for wrong in (["a"], np.array(["a"]), None, [[1], [1, 2]], np.array([1.0, "a"], dtype=object)):
        with pytest.raises(TypeError, match="p must be an array or a tensor of numbers"):
            _checks.float64("p", wrong, ndim=1)
    assert _checks.float64("p", np.array([1, 0.5], dtype=object), ndim=1).tolist() == [1, 0.5]
    with pytest.raises(ValueError, match=r"p must have 1 dimension\(s\); got shape \(\)"):
        _checks.float64("p", 3.0, ndim=1)


@pytest.mark.parametrize("power", [400, 5000])
def test_whole_numbers_beyond_all_floats_are_refused(power: int) -> None:
    huge = 10**power
    for check in (_checks.number, _checks.scalar):
        with pytest.raises(ValueError, match="lam must be finite; got "):
            check("lam", huge)
    with pytest.raises(ValueError, match="n must be between 0 and 5"):
        _checks.whole_number("n", huge, high=5)


@pytest.mark.parametrize("value", [True, 1j])
def test_booleans_and_complex_numbers_are_refused_in_tensors_too(value: complex) -> None:
    for given in (value, torch.tensor(value)):
        with pytest.raises(TypeError, match=r"lam must be a (real )?number or a .*tensor of .*got"):
            _checks.scalar("lam", given)
    for given in (torch.tensor(2), torch.tensor(0.5, dtype=torch.float64)):
        assert _checks.scalar("lam", given) is given
