"""L and H of rows, against one row at a time by hand, and without a trace."""

import math
from typing import Any

import pytest
import torch

from dessl.surrogates import Entropy, FixMatch, Rows, losses_and_terms


def test_they_are_those_of_each_row_by_hand(make_network: Any, softmax: Any) -> None:
    model = make_network().double().eval()
    x = torch.randn(11, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = torch.arange(11) % 3
    term = FixMatch(0.5, weak=lambda x, g: x, strong=lambda x, g: x + 0.3)
    loss, h, confidence = losses_and_terms(model, term, Rows(x, torch.arange(11)), y, at_once=4)
    assert loss.dtype == h.dtype == torch.float64
    for row in range(11):
        weak, strong = (softmax(model(z[None])[0]) for z in (x[row], x[row] + 0.3))
        label, label_y = max(range(3), key=weak.__getitem__), int(y[row])
        expected = -math.log(strong[label]) if weak[label] > 0.5 else 0.0
        torch.testing.assert_close(float(h[row]), expected)
        both = -(math.log(weak[label_y]) + math.log(strong[label_y])) / 2
        torch.testing.assert_close(float(loss[row]), both)
        torch.testing.assert_close(float(confidence[row]), weak[label])


def test_half_precision_is_widened_and_no_draw_is_used(make_network: Any, make_rows: Any) -> None:
    model, rows = make_network().eval(), make_rows()
    term = FixMatch(0.5)
    term(model, rows)
    before = term.generator(rows.x.device).get_state()
    half = lambda x: model(x).bfloat16()  # noqa: E731
    found = losses_and_terms(half, term, rows, torch.arange(len(rows.x)) % 3)
    assert all(part.dtype == torch.float32 and not part.requires_grad for part in found)
    assert torch.equal(before, term.generator(rows.x.device).get_state())


def test_one_logit_has_the_confidence_of_two_classes() -> None:
    rows, y = Rows(torch.tensor([[0.0], [2.0], [-1.0]]), torch.arange(3)), torch.tensor([0, 1, 0])
    two = Rows(torch.cat([torch.zeros(3, 1), rows.x], dim=1), rows.ids)
    single, double = (losses_and_terms(lambda x: x, Entropy(), its, y) for its in (rows, two))
    for one, other in zip(single, double, strict=True):
        torch.testing.assert_close(one, other)


def test_no_rows_are_refused() -> None:
    nothing = Rows(torch.zeros(0, 2), torch.arange(0))
    with pytest.raises(ValueError, match="rows must have at least one row; got none"):
        losses_and_terms(lambda x: x, Entropy(), nothing, torch.arange(0))
