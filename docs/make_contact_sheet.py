"""Draw the contact sheet of docs/augmentation.md from scikit-learn's two sample photographs.

python docs/make_contact_sheet.py
"""

from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_sample_images
from torch import Tensor

from dessl.augment import Operation, RandAugmentDraw, Strong, Weak
from dessl.augment.fixed_point import fixed
from dessl.augment.randaugment import GEOMETRIC, randaugmented

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
VIEWS = 5
TARGET = Path(__file__).parent / "images" / "augmentation.png"


def photographs(side: int = 64) -> Tensor:
    """Return square crops of the two photographs, uint8 (2, 3, side, side)."""
    china, flower = load_sample_images().images
    crops = torch.stack(
        [torch.tensor(china[40:400, 20:380]), torch.tensor(flower[20:380, 150:510])]
    )
    small = torch.nn.functional.interpolate(
        crops.permute(0, 3, 1, 2).float(), size=side, mode="bicubic", antialias=True
    )
    return small.round().clamp(0, 255).to(torch.uint8)


def one_operation(image: Tensor, operation: Operation) -> Tensor:
    """Return an image under one operation, at each strength: uint8 (strengths, 3, side, side)."""
    strengths = torch.tensor([[fixed(strength)] for strength in STRENGTHS])
    draw = RandAugmentDraw(torch.full_like(strengths, int(operation)), strengths)
    return randaugmented(image.expand(len(STRENGTHS), -1, -1, -1), draw)


def rows(images: Tensor) -> dict[str, Tensor]:
    """Return the rows of the sheet: floats in [0, 1] (pictures, 3, side, side), by name."""
    generator = torch.Generator().manual_seed(1)
    sheet = {}
    for name, view in {"weak view": Weak(), "strong view": Strong()}.items():
        for subject, image in zip(("pagoda", "dahlia"), images, strict=True):
            views = view(image.expand(VIEWS, -1, -1, -1), generator)
            sheet[f"{name}, {subject}"] = torch.cat([image[None] / 255, views])
    for operation in Operation:
        # The pagoda's light sky shows where a move brings in black; the dahlia shows colours.
        image = images[0] if operation in GEOMETRIC else images[1]
        views = one_operation(image, operation) / 255
        sheet[operation.name.lower().replace("_", " ")] = torch.cat([image[None] / 255, views])
    return sheet


def main() -> None:
    """Draw the sheet and write it."""
    mpl.use("agg")
    sheet = rows(photographs())
    blocks = [list(sheet.items())[:9], list(sheet.items())[9:]]
    figure, axes = plt.subplots(9, 2 * 6 + 1, figsize=(13.5, 9.6), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for block, entries in enumerate(blocks):
        for line, (name, pictures) in enumerate(entries):
            for column, picture in enumerate(pictures):
                axis = axes[line, block * 7 + column]
                axis.imshow(picture.permute(1, 2, 0).numpy(), interpolation="nearest")
            axes[line, block * 7].set_title(name, loc="left", fontsize=9, pad=3)
    figure.subplots_adjust(left=0.01, right=0.99, bottom=0.01, top=0.97, wspace=0.04, hspace=0.28)
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, dpi=80, metadata={"Software": None})


if __name__ == "__main__":
    main()
