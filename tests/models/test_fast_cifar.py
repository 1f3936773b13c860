import pytest
import torch

from dessl.models import FastCifar


@pytest.mark.parametrize("width", [8, 64])
def test_fast_cifar_counts(width: int, parameter_count) -> None:
    w = width
    pairs = [(3, w), (w, 2 * w), (2 * w, 2 * w), (2 * w, 2 * w)]
    pairs += [(2 * w, 4 * w), (4 * w, 8 * w), (8 * w, 8 * w), (8 * w, 8 * w)]
    assert len(pairs) + 1 == 9
    assert (
        parameter_count(FastCifar(width=w)) == sum(9 * a * b + 2 * b for a, b in pairs) + 8 * w * 10
    )


def test_each_residual_pair_adds_two_convolutions(parameter_count) -> None:
    plain, deep = FastCifar(width=8, residuals=(0, 0, 0)), FastCifar(width=8, residuals=(2, 1, 3))
    added = sum(2 * pairs * (9 * w * w + 2 * w) for pairs, w in ((2, 16), (1, 32), (3, 64)))
    assert parameter_count(deep) - parameter_count(plain) == added
    assert deep(torch.rand(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.parametrize("residuals", [(1, 1), (1, 0, -1)])
def test_residuals_that_cannot_be_are_refused(residuals: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"such as \(1, 0, 1\)"):
        FastCifar(residuals=residuals)


def test_fast_cifar_reads_any_size() -> None:
    model = FastCifar(width=8)
    for side in (8, 28, 32, 96):
        assert model(torch.rand(2, 3, side, side)).shape == (2, 10)


def test_fast_cifar_starts_with_small_logits() -> None:
    torch.manual_seed(0)
    assert FastCifar()(torch.randn(16, 3, 32, 32)).std() < 0.3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_compiled_in_half_precision_it_has_the_eager_gradients() -> None:
    """The gradient of amax was NaN here: compiled, it compared bf16 with what was not rounded."""
    torch.manual_seed(0)
    model, x = FastCifar(width=8), torch.randn(24, 3, 32, 32)

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            return model(x).float().square().mean()

    found = []
    for compute in (loss, torch.compile(loss, dynamic=False)):
        model.zero_grad()
        compute().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    eager, compiled = found
    assert compiled.isfinite().all()
    assert torch.cosine_similarity(eager, compiled, dim=0) > 0.98
