"""Passes that leave no trace: on copies of the buffers, or in evaluation mode."""

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates import ICT, Combine, FixMatch, MeanTeacher, Smooth, Surrogate
from dessl.surrogates.passes import evaluated, side_pass, slow_statistics
from dessl.surrogates.smooth import SmoothedModel, smoothed


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def test_same_logits_and_gradients_but_no_trace() -> None:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    quiet, loud = normed(), normed()
    before = [buffer.clone() for buffer in quiet.buffers()]
    side_pass(quiet)(x).square().sum().backward()
    loud(x).square().sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(before, quiet.buffers(), strict=True))
    assert loud[1].num_batches_tracked == 1
    for mine, other in zip(quiet.parameters(), loud.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


def test_it_reaches_through_smoothing() -> None:
    x, model = torch.randn(8, 4), normed()
    smoothed = SmoothedModel(model, 0.1)
    quiet = side_pass(smoothed)(x)
    assert model[1].num_batches_tracked == 0
    assert torch.equal(quiet, smoothed(x))
    assert model[1].num_batches_tracked == 1


def test_a_plain_function_is_itself() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x

    assert side_pass(model) is model


X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model[1].running_mean += 1
    return model


def test_it_is_evaluation_mode_without_gradient_or_trace() -> None:
    model, reference = network(), network().eval()
    before = [buffer.clone() for buffer in model.buffers()]
    logits = evaluated(model)(X)
    assert torch.equal(logits, reference(X))
    assert not logits.requires_grad
    assert all(map(torch.equal, before, model.buffers()))


def test_every_part_gets_its_own_mode_back() -> None:
    model = network()
    model[1].eval()
    evaluated(model)(X)
    assert [module.training for module in model.modules()] == [True, True, False, True, True]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        evaluated(model)(X[:, :2])
    assert [module.training for module in model.modules()] == [True, True, False, True, True]


def test_it_compiles_whole_and_once() -> None:
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return evaluated(model)(x), model[:2](x)

    model, reference = network(), network()
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(both, backend="aot_eager", fullgraph=True, dynamic=False)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), both_of(reference))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    torch.testing.assert_close(model.state_dict(), reference.state_dict())


def both_of(model: nn.Module) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        guessed = model.eval()(X)
    return guessed, model.train()[:2](X)


def test_smoothed_models_and_plain_functions_do_as_before() -> None:
    model = network()
    expected = smoothed(evaluated(model)(X), 0.1)
    assert torch.equal(evaluated(SmoothedModel(model, 0.1))(X), expected)
    x = X.clone().requires_grad_()
    assert not evaluated(lambda rows: 2 * rows)(x).requires_grad


def test_slow_batch_statistics_are_named_where_targets_depend_on_them() -> None:
    slow, quick = (nn.Sequential(nn.BatchNorm2d(3, momentum=m)) for m in (0.001, 0.1))
    apart = FixMatch(targets="apart")
    found = slow_statistics(slow, apart)
    assert found is not None
    assert "momentum of 0.001" in found
    assert "targets='joint'" in found
    assert slow_statistics(quick, apart) is None
    assert slow_statistics(nn.Linear(2, 2), apart) is None
    assert slow_statistics(nn.BatchNorm2d(3, 0.001, track_running_stats=False), apart) is None
    assert slow_statistics(slow, FixMatch(targets="joint")) is None
    cumulative = nn.BatchNorm2d(3, momentum=None)  # the mean since the first step
    assert "momentum of 0," in (slow_statistics(cumulative, Smooth(apart, epsilon=0.1)) or "")


@pytest.mark.parametrize("surrogate", [MeanTeacher(), ICT()])
def test_slow_batch_statistics_are_named_for_averaged_teachers(surrogate: Surrogate) -> None:
    slow, quick = (nn.Sequential(nn.BatchNorm2d(3, momentum=m)) for m in (0.01, 0.1))
    found = slow_statistics(slow, surrogate)
    assert found is not None
    assert "momentum of 0.01," in found
    assert "targets='joint'" not in found
    both = Combine([FixMatch(targets="apart"), surrogate])
    assert "targets='joint'" not in (slow_statistics(slow, both) or "")
    assert slow_statistics(quick, surrogate) is None
    slow[0].eval()  # frozen
    assert slow_statistics(slow, surrogate) is None
