import pytest
import torch
from torch import nn

from dessl.evaluation import Mirrored, evaluate
from dessl.models import FastCifar


def test_the_logits_are_the_mean_over_both_images() -> None:
    torch.manual_seed(0)
    model, x = FastCifar(width=8), torch.rand(5, 3, 16, 16)
    model(x)  # statistics to normalise by
    model.eval()
    expected = (model(x) + model(torch.flip(x, [3]))) / 2
    torch.testing.assert_close(Mirrored(model).eval()(x), expected)
    torch.testing.assert_close(Mirrored(model).eval()(x.flip(3)), expected)


def test_a_network_in_evaluation_mode_is_mirrored_at_once() -> None:
    x = torch.tensor([[[[5.0, 1.0]]]])
    model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(2, 1, bias=False)).eval()
    expected = (model(x) + model(x.flip(3))) / 2
    torch.testing.assert_close(Mirrored(model)(x), expected)
    model.train()[1].eval()  # a module's own mode stays
    assert Mirrored(model).training
    assert not model[1].training


def test_it_trains_as_the_network_does() -> None:
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), torch.rand(3, 1, 2, 2)
    mirrored = Mirrored(model)
    assert torch.equal(mirrored.train()(x), model(x))
    assert list(mirrored.parameters()) == list(model.parameters())


def test_evaluate_takes_it_and_leaves_the_mode_alone() -> None:
    """Brightness on the left alone decides; the mirror image says the opposite."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 3.0]]))
    x, y = torch.tensor([[[[1.0, 0.0]]], [[[0.0, 1.0]]]]), torch.tensor([0, 1])
    mirrored = Mirrored(model).train()
    plain, both = (evaluate(m, x, y, transform=lambda x: x) for m in (model, mirrored))
    assert plain.accuracy == 1
    assert both.cross_entropy == pytest.approx(torch.log(torch.tensor(2.0)).item())
    assert mirrored.training


def test_rows_of_a_table_have_no_mirror_image() -> None:
    with pytest.raises(ValueError, match=r"only images .* got shape \(2, 3\)"):
        Mirrored(nn.Linear(3, 2)).eval()(torch.zeros(2, 3))
