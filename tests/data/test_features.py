import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

from dessl.data.features import feature_tensor


@pytest.mark.parametrize(
    ("shape", "layout", "order"),
    [
        ((5, 3, 8, 9), None, (0, 1, 2, 3)),
        ((5, 1, 8, 9), None, (0, 1, 2, 3)),
        ((5, 8, 9, 3), None, (0, 3, 1, 2)),
        ((5, 8, 9, 1), None, (0, 3, 1, 2)),
        ((5, 3, 8, 3), "NCHW", (0, 1, 2, 3)),
        ((5, 3, 8, 3), "NHWC", (0, 3, 1, 2)),
        ((5, 8, 9, 4), "NHWC", (0, 3, 1, 2)),
        ((5, 6, 8, 9), "NCHW", (0, 1, 2, 3)),
    ],
)
@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_images_become_channels_first_in_their_own_memory(shape, layout, order, kind) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    given = kind(images)
    tensor = feature_tensor("x", given, layout=layout)
    assert tensor.dtype == torch.uint8
    assert np.array_equal(tensor.numpy(), images.transpose(order))
    assert tensor.data_ptr() == images.ctypes.data


def test_channels_last_images_need_no_other_memory_format() -> None:
    tensor = feature_tensor("x", np.zeros((4, 8, 8, 3), np.uint8))
    assert tensor.is_contiguous(memory_format=torch.channels_last)


def test_grey_images_get_a_channel() -> None:
    images = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)
    tensor = feature_tensor("x", images)
    assert tensor.shape == (2, 1, 4, 5)
    assert tensor.data_ptr() == images.ctypes.data


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.uint8, np.bool_, ">f4"])
def test_tables_become_float32(dtype) -> None:
    table = np.random.default_rng(0).integers(0, 2, (4, 3)).astype(dtype)
    tensor = feature_tensor("x", table)
    assert tensor.dtype == torch.float32
    assert np.array_equal(tensor.numpy(), table.astype(np.float32))


def test_a_float32_table_is_shared_even_when_read_only() -> None:
    table = np.random.default_rng(0).random((4, 3), dtype=np.float32)
    table.flags.writeable = False
    assert feature_tensor("x", table).data_ptr() == table.ctypes.data


def test_a_reversed_array_is_read_rightly() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)[::-1]
    assert np.array_equal(feature_tensor("x", table).numpy(), table)


def test_a_field_of_records_is_read_rightly() -> None:
    records = np.zeros(4, dtype=[("tag", "u1"), ("x", "f4", (3,))])
    records["x"] = np.arange(12).reshape(4, 3)
    assert np.array_equal(feature_tensor("x", records["x"]).numpy(), records["x"])


def test_float_sequences_keep_their_shape() -> None:
    assert feature_tensor("x", np.zeros((4, 7, 2), np.float32)).shape == (4, 7, 2)


@pytest.mark.parametrize(
    ("x", "layout", "error", "message"),
    [
        (np.zeros((5, 3, 8, 3), np.uint8), None, ValueError, "either end could be a channel axis"),
        (np.zeros((5, 4, 8, 8), np.uint8), None, ValueError, "neither end is .* Pass layout="),
        (np.zeros((5, 4, 8, 8), np.uint8), "HWCN", ValueError, "layout must be one of 'NCHW'"),
        (np.zeros((5, 8, 8), np.uint8), "NCHW", ValueError, r"got \(5, 8, 8\) with layout='NCHW'"),
        (np.zeros((5, 1, 1, 8, 8), np.uint8), None, ValueError, r"got \(5, 1, 1, 8, 8\)\."),
        (np.zeros((5, 3)), "NCHW", ValueError, "is for uint8 images; .* Omit layout"),
        (
            np.zeros((5, 8, 8, 3), np.int64),
            None,
            TypeError,
            r"got torch.int64. .*astype\('uint8'\)",
        ),
        (np.zeros((5, 8, 8), np.int64), None, TypeError, "must be uint8 images or floats"),
        (np.zeros(5), None, ValueError, r"one row of features for each sample"),
        (np.zeros((0, 3)), None, ValueError, r"x must not be empty; got shape \(0, 3\)"),
        (np.zeros((5, 0)), None, ValueError, "must not be empty"),
        (np.ma.array([[1.0, 2.0]], mask=[[0, 1]]), None, ValueError, "a masked array. Impute"),
        (scipy.sparse.eye_array(3), None, TypeError, r"got dtype object.* \.toarray\(\)"),
        (torch.eye(3).to_sparse(), None, TypeError, r"dense tensor; got .* \.to_dense\(\)"),
        (np.array([["a", "b"]]), None, TypeError, "real numbers; got dtype <U1. Encode text"),
        (
            torch.zeros(2, 2, dtype=torch.complex64),
            None,
            TypeError,
            "real numbers; got .*complex64",
        ),
        (
            np.array([[1.0, np.nan], [np.nan, 1]]),
            None,
            ValueError,
            r"2 entries .* columns 0, 1\. ",
        ),
        (np.full((2, 9), np.inf), None, ValueError, r"18 entries .* 6, 7, \.\.\. Impute"),
        (
            np.array([[1e300]]),
            None,
            ValueError,
            r"1 entry is too large .*1e\+300, in column 0\. Scale",
        ),
    ],
)
def test_what_cannot_be_features_is_refused(x, layout, error, message) -> None:
    with pytest.raises(error, match=message):
        feature_tensor("x", x, layout=layout)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_digits_that_float32_drops_are_warned_of(dtype: type) -> None:
    seconds = (1_700_000_000 + 10 * np.arange(200)).astype(dtype)
    x = np.column_stack([np.arange(200).astype(dtype), seconds])
    with pytest.warns(UserWarning, match=r"column\(s\) 1 of x differ .* near 1.7e\+09 .* 577"):
        feature_tensor("x", x)


@pytest.mark.parametrize(
    "column",
    [
        np.full(200, 0.1),  # constant
        0.1 + 1e-17 * np.arange(200),  # constant but for rounding
        np.linspace(0.0, 1.0, 200),
        1e6 + np.arange(200.0),  # every whole number up to 2²⁴ is kept
        np.append(np.zeros(199), 1e9),
    ],
)
def test_columns_that_float32_holds_are_not(column: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feature_tensor("x", column[:, None])
