import io
from collections import Counter
from itertools import islice, permutations
from typing import Any

import pytest
import torch
from scipy import stats

from dessl.data import SemiData, draw_labels
from dessl.data.batches import Batches, RowNumbers, Stream


@pytest.fixture
def data() -> SemiData:
    """Thirteen rows that carry their own id: 4 labelled, 2 held out, 7 unlabelled."""
    ids = torch.arange(13) + 100
    full = SemiData(ids[:, None].float(), torch.arange(13) % 2, ids=ids)
    draw = draw_labels(full.y, 6, n_validation=2, generator=torch.Generator().manual_seed(3))
    return full.with_labels(draw)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 9])
def test_a_stream_is_a_row_of_permutations(size: int) -> None:
    pool = torch.tensor([2, 3, 5, 7])
    stream = Stream(pool, size, seed=0)
    drawn = [stream.draw() for _ in range(12)]
    assert all(rows.shape == (size,) for rows in drawn)
    flat = torch.cat(drawn).tolist()
    epochs = [flat[start : start + 4] for start in range(0, len(flat) - 3, 4)]
    assert all(sorted(epoch) == [2, 3, 5, 7] for epoch in epochs)


def test_every_order_is_equally_likely() -> None:
    stream = Stream(torch.arange(4), 4, seed=0)
    counts = Counter(tuple(stream.draw().tolist()) for _ in range(4800))
    assert stats.chisquare([counts[order] for order in permutations(range(4))]).pvalue > 1e-4


def test_batches_hold_the_rows_they_say(data: SemiData) -> None:
    for batch in islice(Batches(data, 3, 5, seed=0), 10):
        assert torch.equal(batch.x_labelled[:, 0].long(), batch.ids_labelled)
        assert torch.equal(batch.x_unlabelled[:, 0].long(), batch.ids_unlabelled)
        assert torch.equal(batch.y, (batch.ids_labelled - 100) % 2)


@pytest.mark.parametrize("include_labelled", [False, True])
def test_each_stream_draws_from_its_own_rows(data: SemiData, include_labelled: bool) -> None:
    batches = list(islice(Batches(data, 4, 11, seed=0, include_labelled=include_labelled), 6))
    labelled = {int(i) for batch in batches for i in batch.ids_labelled}
    unlabelled = {int(i) for batch in batches for i in batch.ids_unlabelled}
    held_out = {int(data.ids[row]) for row in data.validation_rows}
    assert labelled == {int(data.ids[row]) for row in data.labelled_rows}
    everything = set(data.ids.tolist()) - held_out
    assert unlabelled == (everything if include_labelled else everything - labelled)


def test_the_streams_are_seeded_apart_and_independent() -> None:
    data = SemiData(torch.rand(40, 1), [0, 1] * 10 + [-1] * 20)
    batches = Batches(data, 20, 20, seed=0)
    pairs = [batches.draw() for _ in range(400)]
    assert all(not torch.equal(rows.labelled, rows.unlabelled - 20) for rows in pairs)
    first = [(int(rows.labelled[0]), int(rows.unlabelled[0]) - 20) for rows in pairs]
    table = torch.zeros(2, 2)
    for labelled, unlabelled in first:
        table[labelled // 10, unlabelled // 10] += 1
    assert stats.chi2_contingency(table.numpy()).pvalue > 1e-4


def test_the_size_of_one_stream_does_not_move_the_other(data: SemiData) -> None:
    few, many = Batches(data, 2, 1, seed=5), Batches(data, 2, 6, seed=5)
    for _ in range(5):
        assert torch.equal(few.draw().labelled, many.draw().labelled)


def test_a_seed_gives_one_sequence_and_another_seed_another(data: SemiData) -> None:
    first, again, other = (
        torch.cat([rows.unlabelled for rows in (batches.draw() for _ in range(5))])
        for batches in (Batches(data, 2, 5, seed=seed) for seed in (1, 1, 2))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_saved_state_goes_on_bit_for_bit(data: SemiData, steps: int) -> None:
    batches = Batches(data, 3, 5, seed=0)
    for _ in range(steps):
        next(batches)
    file = io.BytesIO()
    torch.save(batches.state_dict(), file)
    expected = [batches.draw() for _ in range(9)]
    file.seek(0)
    resumed = Batches(data, 3, 5, seed=99)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for rows in expected:
        came = resumed.draw()
        assert torch.equal(came.labelled, rows.labelled)
        assert torch.equal(came.unlabelled, rows.unlabelled)


def test_a_state_does_not_move_with_the_stream_it_was_taken_from(data: SemiData) -> None:
    batches = Batches(data, 3, 5, seed=0)
    state = batches.state_dict()
    expected = [batches.draw().unlabelled for _ in range(4)]
    for _ in range(2):
        batches.load_state_dict(state)
        assert all(torch.equal(batches.draw().unlabelled, rows) for rows in expected)


def test_the_complete_case_sees_no_unlabelled_row(data: SemiData) -> None:
    batch = next(Batches(data, 3, 0, seed=0))
    assert batch.x_unlabelled.shape == (0, 1)
    fully = SemiData(torch.rand(4, 1), [0, 1, 0, 1])
    assert next(Batches(fully, 2, 0, seed=0)).ids_unlabelled.shape == (0,)


def test_fixed_tensors_can_be_refilled_and_gathered_from(data: SemiData) -> None:
    buffers = RowNumbers(torch.zeros(3, dtype=torch.long), torch.zeros(5, dtype=torch.long))
    through, direct = Batches(data, 3, 5, seed=0), Batches(data, 3, 5, seed=0)
    for _ in range(6):
        for buffer, drawn in zip(buffers, through.draw(), strict=True):
            buffer.copy_(drawn)
        for value, expected in zip(through.gather(buffers), next(direct), strict=True):
            assert torch.equal(value, expected)


def test_impossible_batches_are_refused(data: SemiData) -> None:
    fully = SemiData(torch.rand(4, 1), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"unlabelled_size is 3, but data has no unlabelled rows"):
        Batches(fully, 2, 3, seed=0)
    with pytest.raises(ValueError, match="labelled_size must be at least 1; got 0"):
        Batches(data, 0, 3, seed=0)
    with pytest.raises(TypeError, match="seed must be a whole number; got float"):
        Batches(data, 1, 3, seed=0.5)
    bare = SemiData(torch.rand(2, 1), [-1, -1], class_names=["a", "b"])
    with pytest.raises(ValueError, match="must have labelled rows to draw from"):
        Batches(bare, 1, 1, seed=0)


def test_a_state_of_other_data_is_refused(data: SemiData) -> None:
    state = Batches(data, 3, 5, seed=0).state_dict()
    other = Batches(data, 3, 5, seed=0, include_labelled=True)
    with pytest.raises(ValueError, match=r"drew from 7 rows; this one draws from 11"):
        other.load_state_dict(state)
    state["labelled"]["generator"] = torch.zeros(16, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"another kind of device, .* cpu cannot continue"):
        Batches(data, 3, 5, seed=0).load_state_dict(state)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_drawing_never_waits_for_the_device(no_waiting: Any) -> None:
    data = SemiData(torch.rand(1000, 3), [0, 1] * 50 + [-1] * 900).to("cuda")
    batches = Batches(data, 64, 448, seed=0)
    with no_waiting():
        for _ in range(10):
            next(batches)
