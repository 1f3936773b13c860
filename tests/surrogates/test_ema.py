"""The averaged teacher against averages kept by hand."""

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates.ema import EMATeacher


def with_norm_and_dropout() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))


def floats(model: nn.Module) -> list[Tensor]:
    tensors = [*model.parameters(), *model.buffers()]
    return [tensor.detach().double().clone() for tensor in tensors if tensor.is_floating_point()]


@pytest.mark.parametrize("decay", [0.0, 0.7, 0.999])
def test_weights_and_statistics_are_averaged_and_counts_copied(decay: float) -> None:
    model = with_norm_and_dropout()
    teacher = EMATeacher(model, decay)
    expected = floats(model)
    for t in range(1, 6):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn_like(parameter)
        model(torch.randn(8, 4))
        teacher.follow(model)
        kept = min(decay, 1 - 1 / (t + 1))
        pairs = zip(expected, floats(model), strict=True)
        expected = [kept * mine + (1 - kept) * other for mine, other in pairs]
    for got, wanted in zip(floats(teacher.model), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)
    assert teacher.model[1].num_batches_tracked == model[1].num_batches_tracked == 5


def test_infinite_entries_of_buffers_are_copied_and_finite_ones_averaged() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(3))
    model.register_buffer("limits", torch.tensor([torch.inf, -torch.inf, 1.0, 4.0]))
    teacher = EMATeacher(model, 0.9)
    teacher.follow(model)
    assert torch.equal(teacher.model.mask, model.mask)
    model.limits.copy_(torch.tensor([2.0, torch.inf, -torch.inf, 10.0]))
    teacher.follow(model)  # its share is 1/3
    assert teacher.model.limits.tolist() == [2.0, torch.inf, -torch.inf, 6.0]


def test_early_steps_are_a_plain_mean_of_all_weights_so_far() -> None:
    model = nn.Linear(1, 1, bias=False)
    teacher = EMATeacher(model, 0.999)
    seen = [model.weight.item()]
    for value in (3.0, -2.0, 7.0):
        model.weight.data.fill_(value)
        teacher.follow(model)
        seen.append(value)
    assert float(teacher.model.weight) == pytest.approx(sum(seen) / len(seen), rel=1e-5)


def test_the_teacher_stays_in_evaluation_mode() -> None:
    model, x = with_norm_and_dropout(), torch.randn(8, 4)
    teacher = EMATeacher(model, 0.9)
    teacher.train()
    assert not any(module.training for module in teacher.modules())
    assert model.training
    alone = torch.cat([teacher(row.unsqueeze(0)) for row in x])
    torch.testing.assert_close(teacher(x), alone)
    assert not teacher(x).requires_grad


def test_steps_are_counted_in_whole_numbers_and_read_from_older_states() -> None:
    model = nn.Linear(1, 1)
    teacher = EMATeacher(model, 0.999)
    state = teacher.state_dict()
    assert state["steps"].dtype == torch.int64
    teacher.load_state_dict({**state, "steps": torch.tensor(300.0)})
    teacher.double().follow(model.double())
    assert teacher.steps.tolist() == 301
    assert teacher.steps.dtype == torch.int64


def test_the_teacher_is_a_copy() -> None:
    model = nn.Linear(2, 2)
    teacher = EMATeacher(model, 0.9)
    before = teacher.model.weight.clone()
    model.weight.data.fill_(5.0)
    assert torch.equal(teacher.model.weight, before)
    assert model.weight.requires_grad


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_outside_of_its_interval_is_refused(decay: float) -> None:
    with pytest.raises(ValueError, match=r"decay must lie in \[0, 1\)"):
        EMATeacher(nn.Linear(1, 1), decay)


def test_trained_weights_in_half_precision_are_refused() -> None:
    """Their average would stand still: a share of 1/1000 of a difference rounds to nothing."""
    for dtype in (torch.bfloat16, torch.float16):
        model = nn.Linear(1, 1, dtype=dtype)
        with pytest.raises(TypeError, match=rf"float32 or float64.*got {dtype}. Keep the model"):
            EMATeacher(model, 0.999).follow(model)


def test_what_is_frozen_in_half_precision_is_copied() -> None:
    model = nn.Sequential(nn.Linear(2, 2).half().requires_grad_(False), nn.Linear(2, 1))
    model.register_buffer("table", torch.zeros(2, dtype=torch.bfloat16))
    teacher = EMATeacher(model, 0.999)
    model.table.fill_(7)
    model[0].weight.fill_(3)
    model[1].weight.data += 1
    before = teacher.model[1].weight.clone()
    teacher.follow(model)
    assert torch.equal(teacher.model.table, model.table)
    assert torch.equal(teacher.model[0].weight, model[0].weight)
    torch.testing.assert_close(teacher.model[1].weight, before + 0.5)
