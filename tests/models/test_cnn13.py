import torch
import torch.nn.functional as F

from dessl.models import CNN13


def test_cnn13_counts(parameter_count, linear_count) -> None:
    layers = [(3, 128, 9), (128, 128, 9), (128, 128, 9), (128, 256, 9), (256, 256, 9)]
    layers += [(256, 256, 9), (256, 512, 9), (512, 256, 1), (256, 128, 1)]
    weights = sum(a * b * area for a, b, area in layers)
    norms = sum(3 * b for _, b, _ in layers)  # a length, a scale and a shift for each map
    assert parameter_count(CNN13(10)) == weights + norms + linear_count(128, 10) + 10


def test_cnn13_normalises_its_weights_and_is_their_function(images) -> None:
    model, x = CNN13(4).double().eval(), images(2, 3, 12, 16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.mul_(1.5 if "length" in name else 0.7)  # apart from where they start
    state = model.state_dict()
    maps, layers = x, [(0, 1), (3, 1), (6, 1), (11, 1), (14, 1), (17, 1), (22, 0), (25, 0), (28, 0)]
    for number, (place, padding) in enumerate(layers):
        length, direction = state[f"maps.{place}.length"], state[f"maps.{place}.weight"]
        kernel = length * direction / direction.square().sum((1, 2, 3), keepdim=True).sqrt()
        maps = F.conv2d(maps, kernel, padding=padding) / (1 + 1e-5) ** 0.5  # fresh statistics: 0, 1
        maps = 0.7 * maps  # batch normalisation's scale; its shift is 0
        maps = torch.where(maps > 0, maps, 0.1 * maps)
        if number in (2, 5):
            maps = F.max_pool2d(maps, 2)
    assert maps.shape[2:] == (1, 2)  # the seventh layer is not padded: 3 × 4 became 1 × 2
    weight = F.normalize(state["head.weight"], dim=1) * state["head.length"]
    expected = maps.mean((2, 3)) @ weight.T + state["head.bias"]
    torch.testing.assert_close(model(x), expected)


def test_cnn13_starts_as_if_its_weights_were_not_normalised(images) -> None:
    layer, x = CNN13(4).double().maps[0], images(2, 3, 12, 12)
    torch.testing.assert_close(layer(x), F.conv2d(x, layer.weight, padding=1))
