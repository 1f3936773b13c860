"""FlexMatch's thresholds against counts made by hand, and its H at them."""

import math

import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from dessl.surrogates import FlexMatch, Rows, Scores

MODEL = nn.Linear(1, 1)


def step(flexmatch: FlexMatch, ids: list[int], p: list[list[float]]) -> None:
    """One step whose weak views had the probabilities p."""
    logits = torch.tensor(p).log().expand(2, -1, -1)
    rows = Rows(torch.zeros(len(ids), 1), torch.tensor(ids))
    flexmatch.after_step(MODEL, rows, Scores(torch.zeros(len(ids)), logits))


def ready(*, warm_up: bool = True, n_rows: int = 4) -> FlexMatch:
    flexmatch = FlexMatch(0.9, warm_up=warm_up)
    flexmatch.prepare(MODEL, n_rows=n_rows, n_classes=3)
    return flexmatch


ZERO, ONE, UNSURE = [0.95, 0.03, 0.02], [0.02, 0.95, 0.03], [0.02, 0.89, 0.09]


def test_thresholds_follow_the_counts() -> None:
    flexmatch = ready()
    assert flexmatch.thresholds.tolist() == [0, 0, 0]
    step(flexmatch, [0, 1, 2], [ZERO, ONE, UNSURE])
    assert flexmatch.last_label.tolist() == [0, 1, -1, -1]
    # σ = (1, 1, 0) and two rows were never confident: β = ½, M(½) = ⅓
    assert flexmatch.thresholds.tolist() == pytest.approx([0.3, 0.3, 0])
    step(flexmatch, [0, 1, 2], [UNSURE, ZERO, ZERO])  # row 0 keeps its label, row 1 changes it
    assert flexmatch.last_label.tolist() == [0, 0, 0, -1]
    assert flexmatch.thresholds.tolist() == pytest.approx([0.9, 0, 0])
    step(flexmatch, [3], [ONE])
    assert flexmatch.thresholds.tolist() == pytest.approx([0.9, 0.9 * (1 / 3) / (2 - 1 / 3), 0])


def test_rows_that_no_step_draws_are_not_counted() -> None:
    flexmatch = ready(n_rows=50)
    flexmatch.draws_from(torch.tensor([0, 1, 2, 3]))
    step(flexmatch, [0, 1, 2], [ZERO, ONE, UNSURE])
    assert flexmatch.last_label[:4].tolist() == [0, 1, -1, -1]
    assert flexmatch.thresholds.tolist() == pytest.approx([0.3, 0.3, 0])  # as of four rows


def test_without_warm_up_the_commonest_class_has_the_full_threshold() -> None:
    flexmatch = ready(warm_up=False, n_rows=100)
    step(flexmatch, [7], [UNSURE])
    assert flexmatch.thresholds.tolist() == [0, 0, 0]
    step(flexmatch, [7], [ONE])
    assert flexmatch.thresholds.tolist() == pytest.approx([0, 0.9, 0])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_a_row_that_comes_twice_counts_once_in_any_order(order: list[int]) -> None:
    flexmatch = ready()
    p = [ZERO, ONE, UNSURE]
    step(flexmatch, [2, 2, 2], [p[i] for i in order])
    assert flexmatch.last_label.tolist() == [-1, -1, 1, -1]


def test_H_is_fixmatch_at_the_class_thresholds() -> None:
    logits = 2 * torch.randn(50, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def weak(x: Tensor, generator: torch.Generator) -> Tensor:
        return x[:, :3]

    def strong(x: Tensor, generator: torch.Generator) -> Tensor:
        return x[:, 3:]

    flexmatch = FlexMatch(0.9, weak=weak, strong=strong)
    flexmatch.prepare(MODEL, 50, 3)
    step(flexmatch, [*range(20)], [ZERO] * 14 + [ONE] * 6)
    # 30 rows were never confident: β = (14/30, 6/30, 0)
    thresholds = [0.9 * b / (2 - b) for b in (14 / 30, 6 / 30, 0.0)]
    flexmatch.thresholds.mul_(2)  # so that they bind on these logits
    expected = []
    for z in logits.numpy():
        p, k = softmax(z[:3]), z[:3].argmax()
        expected.append(-math.log(softmax(z[3:])[k]) if p[k] > 2 * thresholds[k] else 0.0)
    h = flexmatch(lambda x: x, Rows(logits, torch.arange(50))).h
    assert h.tolist() == pytest.approx(expected, rel=1e-12)
    assert 0 < expected.count(0.0) < 50


def test_state_goes_round() -> None:
    flexmatch, other = ready(), ready()
    step(flexmatch, [0, 1], [ZERO, ONE])
    other.load_state_dict(flexmatch.state_dict())
    assert torch.equal(other.last_label, flexmatch.last_label)
    assert torch.equal(other.thresholds, flexmatch.thresholds)


def test_a_word_is_not_taken_for_true() -> None:
    with pytest.raises(TypeError, match="warm_up must be True or False; got 'no'"):
        FlexMatch(warm_up="no")  # type: ignore[arg-type]
