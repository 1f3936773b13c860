from itertools import pairwise

import numpy as np
import pytest
import torch

from dessl.models import MLP, ToyMLP


def test_the_table_network_is_its_matrices() -> None:
    model = MLP(4, 3, hidden=(6, 5)).double().eval()
    x = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = [p.detach().numpy() for p in model.parameters()]
    hidden = x.numpy()
    for weight, bias in zip(values[:-2:2], values[1:-2:2], strict=True):
        hidden = np.maximum(hidden @ weight.T + bias, 0)
    expected = hidden @ values[-2].T + values[-1]
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("hidden", [(), (10,), (256, 256, 256)])
def test_its_parameters_are_counted(hidden: tuple[int, ...]) -> None:
    widths = [4, *hidden, 3]
    expected = sum((a + 1) * b for a, b in pairwise(widths))
    assert sum(p.numel() for p in MLP(4, 3, hidden=hidden).parameters()) == expected


def test_dropout_is_for_training_only() -> None:
    model, x = MLP(4, 3, dropout=0.5), torch.rand(8, 4)
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


def test_the_toy_network_is_the_papers() -> None:
    layers = [p.shape for p in ToyMLP().parameters() if p.ndim == 2]
    assert layers == [(20, 1), (100, 20), (20, 100), (1, 20)]
    assert sum(p.numel() for p in ToyMLP().parameters()) == 40 + 2100 + 2020 + 21


def test_two_logits_say_what_one_sigmoid_says() -> None:
    model, x = ToyMLP(), torch.linspace(0, 10, 50)[:, None]
    probability = model(x).softmax(1)[:, 1]
    torch.testing.assert_close(probability, model.score(x)[:, 0].sigmoid())


def test_impossible_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="n_features must be at least 1; got 0"):
        MLP(0, 2)
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\); got 1"):
        MLP(2, 2, dropout=1)
