import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from dessl.evaluation.risk_quality import (
    gradient_variance_ratio_over_lambda,
    network_gradient_spread,
)
from dessl.evaluation.risk_quality.network_gradients import ConvolutionsAsProducts
from dessl.models import CNN13
from dessl.surrogates import Entropy, FixMatch, PseudoLabel, Surrogate

LAMS = [0.0, 0.3, 1.0, 2.5]


@pytest.fixture
def network() -> nn.Module:
    """Convolutions, normalisation with statistics of its own, dropout, and a parameter unused."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(24, 3),
    ).double()
    model[1].running_mean.uniform_(-0.5, 0.5)
    model[1].running_var.uniform_(0.5, 2.0)
    model[0].bias.requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(5, dtype=torch.float64)))
    return model


@pytest.fixture
def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(30, 2, 6, 6, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (30,), generator=generator)


def flat_gradient(value: Tensor, model: nn.Module) -> Tensor:
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    pairs = zip(gradients, parameters, strict=True)
    return torch.cat([(0 * p if g is None else g).flatten() for g, p in pairs]).detach()


def entropy_by_hand(logits: Tensor) -> Tensor:
    p = logits.softmax(-1)
    return -(p * p.log()).sum()


def pseudo_label_by_hand(logits: Tensor) -> Tensor:
    p = logits.softmax(-1).max()
    return -p.log() if p > 0.4 else 0 * p


@pytest.mark.parametrize(
    ("term", "by_hand"),
    [(Entropy(), entropy_by_hand), (PseudoLabel(0.4), pseudo_label_by_hand)],
    ids=["entropy", "pseudo_label"],
)
@pytest.mark.parametrize("at_once", [7, 100])
def test_it_is_what_explicit_gradients_give(network, images, term, by_hand, at_once) -> None:
    x, y = images
    spread = network_gradient_spread(network, term, x, y, n_labelled=6, splits=12, at_once=at_once)
    network.eval()
    logits = network(x)
    losses = F.cross_entropy(logits, y, reduction="none")
    g_loss = torch.stack([flat_gradient(loss, network) for loss in losses])
    g_h = torch.stack([flat_gradient(by_hand(z), network) for z in logits])
    expected = gradient_variance_ratio_over_lambda(g_loss, g_h, LAMS, n_labelled=6, splits=12)
    result = spread.over(LAMS)
    torch.testing.assert_close(result.theory, expected.theory)
    torch.testing.assert_close(result.empirical, expected.empirical)
    assert spread.lam == pytest.approx(expected.lam)
    assert result.least == pytest.approx(expected.least)
    centred = g_loss - g_loss.mean(0), g_h - g_h.mean(0)
    cosine = (centred[0] * centred[1]).sum() / (centred[0].norm() * centred[1].norm())
    assert spread.correlation == pytest.approx(float(cosine))


def test_views_that_were_drawn_before_are_a_dimension_of_the_rows(network, images) -> None:
    x, y = images
    weak, strong = x, x + 0.1
    term = FixMatch(0.4, weak=lambda r, _: r[:, 0], strong=lambda r, _: r[:, 1])
    both = torch.stack([weak, strong], dim=1)
    spread = network_gradient_spread(network, term, both, y, n_labelled=6, splits=12)
    network.eval()
    g_loss, g_h = [], []
    for row_weak, row_strong, label in zip(weak, strong, y, strict=True):
        z, z_strong = network(row_weak[None]), network(row_strong[None])
        loss = (F.cross_entropy(z, label[None]) + F.cross_entropy(z_strong, label[None])) / 2
        confidence, guess = z.softmax(-1).max(-1)
        h = F.cross_entropy(z_strong, guess) * float(confidence > 0.4)
        g_loss.append(flat_gradient(loss, network))
        g_h.append(flat_gradient(h, network))
    expected = gradient_variance_ratio_over_lambda(
        torch.stack(g_loss), torch.stack(g_h), LAMS, n_labelled=6, splits=12
    )
    torch.testing.assert_close(spread.over(LAMS).theory, expected.theory)
    torch.testing.assert_close(spread.over(LAMS).empirical, expected.empirical)


def test_a_term_equal_to_the_loss_takes_the_variance_away(network, images) -> None:
    x, _ = images
    network.eval()
    y = network(x).argmax(-1)  # at τ = 0 the pseudo-label's H is then L itself
    network.float()
    spread = network_gradient_spread(network, PseudoLabel(0.0), x.float(), y, n_labelled=6)
    assert spread.correlation == pytest.approx(1.0)
    assert spread.over([spread.lam]).theory.item() == pytest.approx(0.0, abs=1e-6)
    assert spread.over([spread.lam]).empirical.item() == pytest.approx(0.0, abs=1e-6)


def test_a_term_without_gradient_is_the_complete_case(network, images) -> None:
    spread = network_gradient_spread(network, PseudoLabel(1.0), *images, n_labelled=6)
    result = spread.over(LAMS)
    assert (spread.lam, spread.correlation, result.least) == (0.0, 0.0, 1.0)
    assert result.theory.tolist() == result.empirical.tolist() == [1.0] * len(LAMS)


def test_gradients_that_are_the_same_for_all_rows_do_not_vary(network, images) -> None:
    x, y = images
    network.float()
    same = x[:1].float().expand(30, -1, -1, -1)
    spread = network_gradient_spread(network, Entropy(), same, y, n_labelled=6, at_once=7)
    assert (spread.lam, spread.correlation, spread.rows.second) == (0.0, 0.0, 0.0)
    still = network_gradient_spread(network, Entropy(), same, 0 * y, n_labelled=6, at_once=7)
    with pytest.raises(ValueError, match="must vary over the rows"):
        still.over(LAMS)


def test_a_model_without_parameters_to_train_is_refused(network, images) -> None:
    with pytest.raises(ValueError, match=r"it has none. Call model.requires_grad_\(\)"):
        network_gradient_spread(network.requires_grad_(False), Entropy(), *images, n_labelled=6)


def test_the_model_is_left_as_it_came(network, images) -> None:
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network_gradient_spread(network.train(), Entropy(), *images, n_labelled=6, splits=2)
    assert network.training
    assert all(p.grad is None for p in network.parameters())
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": torch.zeros(4, dtype=torch.int64)}, "x and y .*rows"),
        ({"y": torch.arange(30) % 3 - 1}, r"y must .*got from -1 to 1"),
        ({"n_labelled": 30}, "n_labelled must be between 1 and 29"),
        ({"splits": 1}, "splits must be at least 2"),
        ({"at_once": 0}, "at_once must be at least 1"),
    ],
)
def test_what_cannot_be_split_is_refused(network, images, change, complaint) -> None:
    x, y = images
    term: Surrogate = Entropy()
    settings = {"y": y, "n_labelled": 6, "splits": 2} | change
    with pytest.raises(ValueError, match=complaint):
        network_gradient_spread(network, term, x, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"padding": 1},
        {"padding": (0, 2), "stride": (2, 1)},
        {"dilation": 2, "padding": 1, "stride": 3},
        {"padding": "same"},
        {"groups": 2},
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_is_the_convolution_and_has_its_gradients(settings, bias) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4, 9, 11, dtype=torch.float64, requires_grad=True)
    layer = nn.Conv2d(4, 6, (3, 5), bias=bias, dtype=torch.float64, **settings)
    inputs = (x, *layer.parameters())
    expected = layer(x)
    with ConvolutionsAsProducts():
        product = layer(x)
    torch.testing.assert_close(product, expected)
    found, wanted = (torch.autograd.grad(y.sin().sum(), inputs) for y in (product, expected))
    torch.testing.assert_close(found, wanted)


def test_an_image_without_a_batch_is_left_to_pytorch() -> None:
    x, weight = torch.rand(2, 5, 5), torch.rand(3, 2, 3, 3)
    with ConvolutionsAsProducts():
        product = F.conv2d(x, weight)
    assert torch.equal(product, F.conv2d(x, weight))


def test_no_convolution_is_left_in_the_paper_s_network() -> None:
    torch.manual_seed(0)
    model = CNN13().eval()
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x = torch.randn(2, 3, 12, 12)

    def first_logit(at: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        return functional_call(model, at, (row[None],))[0, 0]

    with (
        ConvolutionsAsProducts(),
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile,
    ):
        together = vmap(grad(first_logit), in_dims=(None, 0))(parameters, x)
    called = {event.key for event in profile.key_averages()}
    assert "aten::im2col" in called
    assert not {name for name in called if "convolution" in name}
    one_by_one = [grad(first_logit)(parameters, row) for row in x]
    for name, gradients in together.items():
        torch.testing.assert_close(
            gradients, torch.stack([g[name] for g in one_by_one]), rtol=1e-3, atol=1e-5
        )
