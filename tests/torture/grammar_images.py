"""Folders of images that are mostly valid."""

import io
import random

from cases import Case
from damage import damaged_bytes

FORMATS = (
    ("png", "L"), ("png", "RGB"), ("png", "RGBA"), ("png", "P"), ("png", "1"), ("png", "I;16"),
    ("jpg", "L"), ("jpg", "RGB"), ("bmp", "RGB"), ("tiff", "L"), ("webp", "RGB"),
)  # fmt: skip
PILLOW = {"jpg": "JPEG"}
ODD_NAMES = (
    ".hidden",
    "notes.txt",
    "Thumbs.db",
    "é.png",
    "a" * 120 + ".png",
    "x.PNG",
    "dir/in.png",
)


def images_case(chance: random.Random) -> Case:
    """A folder of images in classes, with damage in a third of the cases."""
    classes = chance.choice((("cat", "dog"), ("0", "1", "2"), ("é", "b c"), ("no", "yes")))
    places = [*classes, *(["unlabelled"] if chance.random() < 0.5 else [])]
    same = chance.choice(FORMATS)
    files = {}
    for place in places:
        for number in range(chance.randrange(1, 4)):
            suffix, mode = same if chance.random() < 0.7 else chance.choice(FORMATS)
            files[f"{place}/{number}.{suffix}"] = image(chance, suffix, mode)
    damaged = chance.random() < 0.35
    if damaged:
        name = chance.choice(sorted(files))
        kind = chance.randrange(4)
        if kind == 0:
            odd = chance.choice(ODD_NAMES)
            files[f"{places[0]}/{odd}"] = files[name]
        elif kind == 1:
            files[odd_place(chance)] = files[name]
        else:
            files[name] = damaged_bytes(chance, files[name])
    return Case("images", files, {"later": chance.random() < 0.2}, 2_000_000, damaged)


def odd_place(chance: random.Random) -> str:
    """Where an image does not belong."""
    return chance.choice(("loose.png", "a/b/c.png", "Unlabelled/0.png", ".git/0.png", "nan/0.png"))


def image(chance: random.Random, suffix: str, mode: str) -> bytes:
    """A small image file."""
    from PIL import Image

    width, height = chance.choice((4, 8, 9, 32)), chance.choice((4, 8, 31))
    if mode == "I;16":
        data = chance.randbytes(2 * width * height)
        made = Image.frombytes("I;16", (width, height), data)
    else:
        count = {"RGB": 3, "RGBA": 4}.get(mode, 1) * width * height
        first = "L" if mode in ("P", "1") else mode
        made = Image.frombytes(first, (width, height), chance.randbytes(count)).convert(mode)
    buffer = io.BytesIO()
    made.save(buffer, PILLOW.get(suffix, suffix.upper()))
    return buffer.getvalue()
