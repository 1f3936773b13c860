"""The cost of two large pools on 8 GPUs: steps, bytes and hours, from the rates of image_sizes.py.

This is arithmetic only: it assumes that 8 GPUs are 8 times as fast as the measured one, and ignores
the time to read rows. The price of a GPU hour is an assumption.

    PYTHONPATH=src python benchmarks/scale_plan.py --out benchmarks/results/scale_plan.md
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
GPUS = 8
PRICE = 3.0  # dollars for an hour of one GPU


@dataclass(frozen=True)
class Pool:
    """Rows to train on, and how often."""

    title: str
    case: str  # of image_sizes.py
    rows: int
    passes: int


POOLS = (
    Pool("1.3 million images, 224 px", "ResNet-50, 224 px", 1_300_000, 100),
    Pool("100 million images, 64 px", "WRN-37-2, 64 px", 100_000_000, 5),
)


def costs(pool: Pool, case: dict[str, Any]) -> dict[str, float]:
    """Return a pool's costs by name.

    Args:
        pool: What is trained on.
        case: What one GPU did, as image_sizes.py writes it.
    """
    rows = GPUS * case["unlabelled rows of a step"]
    steps = pool.passes * pool.rows / rows
    hours = steps / case["steps/s"] / 3600
    # dessl.train computes the views of all rows on each GPU: add those of the other GPUs' rows.
    others = (1 - 1 / GPUS) * case["seconds of views of 8 GPUs' rows"]
    drawn = rows + GPUS * case["labelled rows of a step"]
    return {
        "GB of rows": pool.rows * case["bytes of an image"] / 1e9,
        "unlabelled rows of a step": rows,
        "labelled rows of a step": GPUS * case["labelled rows of a step"],
        "passes": pool.passes,
        "training steps": steps,
        "steps/s": case["steps/s"],
        "seconds of a step": 1 / case["steps/s"],
        "seconds of all views on each GPU": case["seconds of views of 8 GPUs' rows"],
        "hours on 8 GPUs": hours,
        "hours with dessl.train": steps * (1 / case["steps/s"] + others) / 3600,
        "GPU hours": GPUS * hours,
        "dollars": GPUS * hours * PRICE,
        "GB/s to read": drawn * case["bytes of an image"] * case["steps/s"] / 1e9,
        "MB of gradients a step": 4 * case["parameters"] / 1e6,
        "GiB of memory of a GPU": case["memory GiB"],
    }


def shown(value: float) -> str:
    """Return a number with three significant digits, or as an integer if it is large."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(measured: dict[str, Any]) -> str:
    """Return the costs as Markdown, one row for each quantity."""
    columns = [costs(pool, measured["cases"][pool.case]) for pool in POOLS]
    lines = [
        "# Two large pools on 8 GPUs\n",
        f"Computed by benchmarks/scale_plan.py from image-sizes-h200.json, measured on one "
        f"{measured['machine']['device']}; {PRICE:g} dollars for an hour of a GPU is assumed.\n",
        "| | " + " | ".join(f"{pool.title} ({pool.case.split(',')[0]})" for pool in POOLS) + " |",
        "|---|" + "---:|" * len(POOLS),
    ]
    lines += [
        f"| {name} | " + " | ".join(shown(column[name]) for column in columns) + " |"
        for name in columns[0]
    ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=Path, default=RESULTS / "image-sizes-h200.json")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    made = table(json.loads(options.rates.read_text(encoding="utf-8")))
    print(made)
    if options.out:
        options.out.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
