from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch


@pytest.fixture(scope="module")
def left_out(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("unlabelled_left_out")


@pytest.mark.parametrize(
    ("mean", "error", "worse"), [(-0.02, 0.005, True), (-0.02, 0.02, False), (0.02, 0.005, False)]
)
def test_only_pools_whose_report_is_clear_are_fitted_again(
    left_out: ModuleType, mean: float, error: float, worse: bool
) -> None:
    gain = {"mean": mean, "standard_error": error}
    report: dict[str, Any] = {
        "n": 30, "members": [], "anchor": 0.5, "without_unlabelled": 0.5, "pooled": 0.5,
        "ensembling": gain, "unlabelled": gain, "total": gain,
    }  # fmt: skip
    assert left_out.clearly_worse({"methods": {"dessl": {"report": report}}}) == worse
    assert not left_out.clearly_worse({"methods": {"dessl": {"report": None}}})


def test_teachers_see_no_unlabelled_rows(left_out: ModuleType) -> None:
    from dessl.data import SemiData
    from dessl.teachers.rows import as_columns

    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    data = SemiData(x, [*[0, 1] * 10, *[-1] * 20])
    folds, anchor = torch.arange(20) % 5, torch.zeros(20, 2, dtype=torch.float64)
    rows = left_out.labelled_alone(data, folds, anchor, None, as_columns, 0)
    assert len(rows.x) == 20
    assert len(rows.x_u) == 0
