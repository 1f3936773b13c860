from functools import partial
from typing import Any

import pytest
import torch
from tests.tokens import Reader
from torch import nn

from dessl.surrogates import (
    ICT,
    UPS,
    VAT,
    Combine,
    Entropy,
    FixMatch,
    MeanTeacher,
    MixMatch,
    PiModel,
    PseudoLabel,
    ReMixMatch,
    Smooth,
    Surrogate,
    as_is,
)
from dessl.surrogates.codes import noise_on_codes

TOKENS = torch.randint(20, (30, 6), generator=torch.Generator().manual_seed(0)).float()


@pytest.mark.parametrize(
    ("surrogate", "views_help"),
    [
        (VAT(), False),
        (ICT(), False),
        (MixMatch(), False),
        (ReMixMatch(), False),
        (Smooth(VAT(), epsilon=0.1), False),
        (Combine([Entropy(), PiModel()], weights=[1.0, 1.0]), True),
        (PiModel(), True),
        (MeanTeacher(), True),
        (FixMatch(), True),
    ],
)
def test_noise_on_tokens_is_warned_of(surrogate: Surrogate, views_help: bool) -> None:
    said = noise_on_codes(Reader(), surrogate, TOKENS)
    assert said is not None
    assert ("Pass views for such rows" in said) == views_help
    assert said.endswith("such as 'entropy' or 'pseudo_label'.")


@pytest.mark.parametrize(
    "surrogate",
    [Entropy(), PseudoLabel(), UPS(), PiModel(view=as_is), FixMatch(weak=as_is, strong=as_is)],
)
def test_terms_that_change_no_token_are_fine(surrogate: Surrogate) -> None:
    assert noise_on_codes(Reader(), surrogate, TOKENS) is None


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (Reader(), TOKENS + 0.5),  # measurements
        (Reader(), torch.zeros(5, 1, 8, 8, dtype=torch.uint8)),
        (nn.Linear(6, 2), TOKENS),  # a table of counts
    ],
)
def test_other_rows_are_no_codes(model: nn.Module, x: Any) -> None:
    assert noise_on_codes(model, VAT(), x) is None


def test_views_by_partial_are_not_looked_into() -> None:
    view = partial(lambda scale, x, generator: x * scale, 1.0)
    assert noise_on_codes(Reader(), PiModel(view=view), TOKENS) is None
