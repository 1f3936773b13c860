"""Strong views the usual way: Pillow, one image at a time, in a Dataset for loader workers."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor
from torch.utils.data import Dataset

OPERATIONS: list[tuple[Callable[[Image.Image, float], Image.Image], float, float]] = [
    (lambda image, _: ImageOps.autocontrast(image), 0, 1),
    (lambda image, v: ImageEnhance.Brightness(image).enhance(v), 0.05, 0.95),
    (lambda image, v: ImageEnhance.Color(image).enhance(v), 0.05, 0.95),
    (lambda image, v: ImageEnhance.Contrast(image).enhance(v), 0.05, 0.95),
    (lambda image, _: ImageOps.equalize(image), 0, 1),
    (lambda image, _: image, 0, 1),
    (lambda image, v: ImageOps.posterize(image, int(v)), 4, 8),
    (lambda image, v: image.rotate(v), -30, 30),
    (lambda image, v: ImageEnhance.Sharpness(image).enhance(v), 0.05, 0.95),
    (lambda image, v: _affine(image, 1, v, 0, 0, 1, 0), -0.3, 0.3),
    (lambda image, v: _affine(image, 1, 0, 0, v, 1, 0), -0.3, 0.3),
    (lambda image, v: ImageOps.solarize(image, v), 0, 256),  # type: ignore[arg-type]
    (lambda image, v: _affine(image, 1, 0, v * image.width, 0, 1, 0), -0.3, 0.3),
    (lambda image, v: _affine(image, 1, 0, 0, 0, 1, v * image.height), -0.3, 0.3),
]


def _affine(image: Image.Image, *coefficients: float) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, coefficients)


class PillowViews(Dataset[Tensor]):
    """Strong views of images, one at a time, as training scripts make them in workers."""

    def __init__(self, images: Tensor, mean: Sequence[float], std: Sequence[float]) -> None:
        self.images = images.permute(0, 2, 3, 1).contiguous().numpy()
        self.scale = (1 / (255 * np.array(std))).astype(np.float32)
        self.offset = (np.array(mean) / np.array(std)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> Tensor:
        pixels = self.images[row]
        height, width = pixels.shape[:2]
        rows = _reflected(height, random.randint(-height // 8, height // 8))
        columns = _reflected(width, random.randint(-width // 8, width // 8))
        if random.random() < 0.5:
            columns = width - 1 - columns
        image = Image.fromarray(pixels[rows[:, None], columns])
        for operation, low, high in random.choices(OPERATIONS, k=3):
            image = operation(image, low + (high - low) * random.random())
        side = 0.5 * random.random() * width
        x = int(max(0, random.random() * width - side / 2))
        y = int(max(0, random.random() * height - side / 2))
        corner = (int(min(width, x + side)), int(min(height, y + side)))
        ImageDraw.Draw(image).rectangle(((x, y), corner), (127, 127, 127))
        view = np.asarray(image, dtype=np.float32) * self.scale - self.offset
        return torch.from_numpy(view.transpose(2, 0, 1))


def _reflected(size: int, shift: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return size - 1 - np.abs(size - 1 - np.abs(np.arange(size) + shift))
