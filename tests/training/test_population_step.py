"""The rows of many runs, drawn ahead."""

import pytest
import torch

from dessl.data import Batches, LabelDraw, SemiData, draw_labels
from dessl.training.population_step import RowsAhead


def table(n: int = 150) -> SemiData:
    x = torch.randn(n, 5, generator=torch.Generator().manual_seed(0))
    return SemiData(x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long())


def drawn(data: SemiData, split: int) -> LabelDraw:
    g = torch.Generator().manual_seed(split)
    return draw_labels(data.y, 30, n_validation=12, generator=g)


@pytest.mark.parametrize("ahead", [1, 3, 7])
def test_rows_ahead_are_what_single_draws_give(ahead: int) -> None:
    data = table(40)
    parts = [data.with_labels(drawn(data, split)) for split in range(2)]
    make = [lambda k=k: Batches(parts[k], 7, 11, seed=k) for k in range(2)]
    rows = RowsAhead([one() for one in make], steps=ahead)
    singles = [one() for one in make]
    for step in range(10):
        place = rows.advance()
        expected = [torch.cat(batches.draw()) for batches in singles]
        assert torch.equal(rows.rows[place], torch.stack(expected))
        if step == 4:
            state = rows.state_dict()
            rows = RowsAhead([one() for one in make], steps=ahead)
            rows.load_state_dict(state)
    with pytest.raises(ValueError, match="Resume with the runs it was started with"):
        RowsAhead([make[0]()], steps=ahead).load_state_dict(rows.state_dict())
