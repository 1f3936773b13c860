"""Batched augmentation on the device: an independent draw per image, results equal to Pillow's."""

from dessl.augment.mixup import Mixed, mixup
from dessl.augment.noise import noisy, translated
from dessl.augment.operations import Operation, RandAugmentDraw
from dessl.augment.symmetries import Symmetries
from dessl.augment.views import Strong, StrongDraw, Weak, WeakDraw

__all__ = [
    "Mixed",
    "Operation",
    "RandAugmentDraw",
    "Strong",
    "StrongDraw",
    "Symmetries",
    "Weak",
    "WeakDraw",
    "mixup",
    "noisy",
    "translated",
]
