"""Every operation against Pillow, pixel by pixel; then the static path against the sorted one."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from dessl.augment import Operation, RandAugmentDraw, Strong
from dessl.augment.fixed_point import ONE, between
from dessl.augment.operations import drawn_operations, slots
from dessl.augment.randaugment import KIND_OF, after_sorted_slot, after_static_slot, randaugmented

STRENGTHS = (0, 1, 9_999, ONE // 3, ONE // 2, 50_000, ONE - 1, ONE)
RANGES = {
    Operation.BRIGHTNESS: (0.05, 0.95),
    Operation.COLOUR: (0.05, 0.95),
    Operation.CONTRAST: (0.05, 0.95),
    Operation.POSTERIZE: (4, 8),
    Operation.ROTATE: (-30, 30),
    Operation.SHARPNESS: (0.05, 0.95),
    Operation.SHEAR_X: (-0.3, 0.3),
    Operation.SHEAR_Y: (-0.3, 0.3),
    Operation.SOLARIZE: (0, 256),
    Operation.TRANSLATE_X: (-0.3, 0.3),
    Operation.TRANSLATE_Y: (-0.3, 0.3),
}


def affine(image: Image.Image, *coefficients: float, fill: int = 0) -> Image.Image:
    colour = fill if image.mode == "L" else (fill,) * 3
    return image.transform(image.size, Image.Transform.AFFINE, coefficients, fillcolor=colour)


PILLOW: dict[Operation, Callable[[Image.Image, float], Image.Image]] = {
    Operation.AUTOCONTRAST: lambda image, v: ImageOps.autocontrast(image),
    Operation.BRIGHTNESS: lambda image, v: ImageEnhance.Brightness(image).enhance(v),
    Operation.COLOUR: lambda image, v: ImageEnhance.Color(image).enhance(v),
    Operation.CONTRAST: lambda image, v: ImageEnhance.Contrast(image).enhance(v),
    Operation.EQUALIZE: lambda image, v: ImageOps.equalize(image),
    Operation.IDENTITY: lambda image, v: image,
    Operation.POSTERIZE: lambda image, v: ImageOps.posterize(image, int(v)),
    Operation.ROTATE: lambda image, v: image.rotate(v),
    Operation.SHARPNESS: lambda image, v: ImageEnhance.Sharpness(image).enhance(v),
    Operation.SHEAR_X: lambda image, v: affine(image, 1, v, 0, 0, 1, 0),
    Operation.SHEAR_Y: lambda image, v: affine(image, 1, 0, 0, v, 1, 0),
    Operation.SOLARIZE: lambda image, v: ImageOps.solarize(image, v),
    Operation.TRANSLATE_X: lambda image, v: affine(image, 1, 0, v * image.width, 0, 1, 0),
    Operation.TRANSLATE_Y: lambda image, v: affine(image, 1, 0, 0, 0, 1, v * image.height),
}


def as_pillow(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).squeeze(-1).numpy())


def as_tensor(image: Image.Image) -> Tensor:
    pixels = torch.from_numpy(np.array(image))
    return pixels.permute(2, 0, 1) if pixels.ndim == 3 else pixels[None]


def by_pillow(images: Tensor, draw: RandAugmentDraw) -> Tensor:
    results = []
    for image, operations, strengths in zip(images, draw.operation, draw.strength, strict=True):
        picture = as_pillow(image)
        for number, strength in zip(operations, strengths, strict=True):
            operation = Operation(int(number))
            low, high = RANGES.get(operation, (0, 0))
            value = int(between(low, high, strength)) / ONE
            picture = PILLOW[operation](picture, value)
        results.append(as_tensor(picture))
    return torch.stack(results)


@pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.name)
def test_each_operation_equals_pillow_exactly(pictures: Tensor, operation: Operation) -> None:
    n = len(pictures)
    strength = torch.tensor([STRENGTHS[row % len(STRENGTHS)] for row in range(n)])[:, None]
    draw = RandAugmentDraw(torch.full((n, 1), int(operation)), strength)
    assert torch.equal(randaugmented(pictures, draw), by_pillow(pictures, draw))


def test_three_operations_in_a_row_equal_pillow_exactly(pictures: Tensor) -> None:
    generator = torch.Generator().manual_seed(3)
    draw = drawn_operations(len(pictures), 3, generator, torch.device("cpu"))
    assert torch.equal(randaugmented(pictures, draw), by_pillow(pictures, draw))


def test_the_static_path_equals_the_sorted_one_to_the_last_bit(pictures: Tensor) -> None:
    n, _, height, width = pictures.shape
    generator = torch.Generator().manual_seed(4)
    draw = drawn_operations(n, 8, generator, torch.device("cpu"))
    for slot in slots(draw, height=height, width=width):
        static = after_static_slot(pictures, slot, 9)
        assert torch.equal(static, after_sorted_slot(pictures, slot, 9))


def test_ranges_are_those_of_fixmatch() -> None:
    for low, high in RANGES.values():
        ends = between(low, high, torch.tensor([0, ONE])) / ONE
        np.testing.assert_allclose(ends, (low, high), atol=1 / ONE)


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (2, 2), (3, 3), (2, 9)])
def test_tiny_images_equal_pillow(size: tuple[int, int]) -> None:
    images = torch.randint(256, (56, 3, *size), generator=torch.Generator().manual_seed(5))
    images = images.to(torch.uint8)
    draw = RandAugmentDraw(
        (torch.arange(56) % len(Operation))[:, None], torch.arange(0, 56)[:, None] * 1170
    )
    assert torch.equal(randaugmented(images, draw), by_pillow(images, draw))


def test_fill_is_what_comes_in_from_outside(small: Tensor) -> None:
    n = len(small)
    draw = RandAugmentDraw(torch.full((n, 1), int(Operation.SHEAR_X)), torch.full((n, 1), ONE))
    value = int(between(-0.3, 0.3, torch.tensor(ONE))) / ONE
    expected = [as_tensor(affine(as_pillow(x), 1, value, 0, 0, 1, 0, fill=201)) for x in small]
    assert torch.equal(randaugmented(small, draw, fill=201), torch.stack(expected))


def test_an_image_alone_gives_what_it_gives_in_a_batch(small: Tensor) -> None:
    draw = drawn_operations(len(small), 3, torch.Generator().manual_seed(6), torch.device("cpu"))
    together = randaugmented(small, draw)
    for row in range(len(small)):
        alone = RandAugmentDraw(*(part[row : row + 1] for part in draw))
        assert torch.equal(randaugmented(small[row : row + 1], alone)[0], together[row])


def test_input_is_left_alone(small: Tensor) -> None:
    before = small.clone()
    draw = drawn_operations(len(small), 3, torch.Generator().manual_seed(7), torch.device("cpu"))
    randaugmented(small, draw)
    assert torch.equal(small, before)


def test_every_operation_has_a_kind() -> None:
    assert len(KIND_OF) == len(Operation)
    assert [int(operation) for operation in Operation] == list(range(len(Operation)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiles_without_a_break_and_to_the_same_pixels(small: Tensor) -> None:
    strong = Strong(n_ops=2, fill=5, upside_down=True, turn=True)
    images = small[..., :10, :].repeat(8, 1, 1, 1)
    draw = strong.draw(images, torch.Generator().manual_seed(8))
    compiled = torch.compile(strong.levels, fullgraph=True, dynamic=False)
    assert torch.equal(compiled(images, draw), strong.levels(images, draw))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_cuda_gives_the_same_pixels_in_a_graph(
    pictures: Tensor, compiled: bool, turned: bool
) -> None:
    square = pictures.shape[2] == pictures.shape[3]
    strong = Strong(n_ops=3, upside_down=turned, turn=turned and square)
    images = pictures.cuda()
    generator = torch.Generator("cuda").manual_seed(0)
    levels = strong.levels
    if compiled:
        torch.compiler.reset()  # each size a compilation of its own, not a dynamic one
        levels = torch.compile(levels, fullgraph=True, dynamic=False)
    draw = strong.draw(images, generator)
    levels(images, draw)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):  # a host synchronisation would fail here
        draw = strong.draw(images, generator)
        views = levels(images, draw)
    earlier = None
    for _ in range(2):
        graph.replay()
        on_cpu = torch.utils._pytree.tree_map(
            lambda part: part if part is None else part.cpu(), draw
        )
        assert torch.equal(views.cpu(), strong.levels(pictures, on_cpu))
        assert earlier is None or not torch.equal(views, earlier)
        earlier = views.clone()
