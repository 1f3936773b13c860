"""What flips and turns bring to the defaults of `dessl fit` on images.

For each data set and draw of benchmarks/image_default.py: the default, and the same without flips
and turns, on the publisher's test rows. Where the probe finds none safe, both are the same, and
only one is fitted. Writes one JSON file per fit in --runs, those of the default as image_default.py
does; a fit that already has its file is skipped.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/image_symmetries.py --runs RUNS --out FILE
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dessl._files import write_whole
from image_default import CASES, DRAWS, measured, spread

Pair = Mapping[str, Mapping[str, Any]]


def pair(
    runs: Path, name: str, n: int, draw: int, device: str, steps: int | None, *, late: bool = False
) -> Pair | None:
    """The records of a default with and without flips and turns.

    One that has no file is fitted, or, if it is late, the pair is None.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for which, ending in (("with", ""), ("without", "-still")):
        if which == "without" and not found["with"]["symmetries"]:
            return {**found, "without": found["with"]}
        place = runs / f"{name}-{n}-{device}-{draw}{ending}.json"
        if not place.exists():
            if late:
                return None
            record = measured(name, n, draw, device, steps, probe=which == "with")
            write_whole(place, json.dumps(record) + "\n")
            print(f"{place.stem} {record['scores']['default']}", flush=True)
        found[which] = json.loads(place.read_text())
    return found


def table(pairs: Sequence[Pair]) -> str:
    """A line for each set, number of labels and device; differences are paired over draws."""
    grouped: dict[tuple[str, int, str], list[Pair]] = defaultdict(list)
    for one in pairs:
        own = one["with"]
        grouped[own["set"], own["labels"], own["device"]].append(one)
    head = ["set", "labels", "device", "draws", "flips", "upside down", "turns", "accuracy, %"]
    head += ["accuracy gained", "cross-entropy", "cross-entropy added", "Brier added"]
    head += ["processor seconds", "times as many"]
    lines = [f"| {' | '.join(head)} |", "|---|---:|---|" + "---:|" * (len(head) - 3)]
    for (name, labels, device), its in sorted(grouped.items()):
        cells = [name, f"{labels:,}", device, str(len(its))]
        for symmetry in ("flip", "upside_down", "turn"):
            cells += [str(sum(symmetry in one["with"]["symmetries"] for one in its))]
        for metric, scale, digits in (("accuracy", 100, 1), ("cross_entropy", 1, 3)):
            ours = [scale * one["with"]["scores"]["default"][metric] for one in its]
            cells += [spread(ours, digits), spread(gains(its, metric, scale), digits, "+")]
        cells += [spread(gains(its, "brier", 1), 3, "+")]
        used, before = (
            sum(one[which]["processor_seconds"] for one in its) / len(its)
            for which in ("with", "without")
        )
        cells += [f"{used:.0f}", f"{used / before:.2f}"]
        lines += [f"| {' | '.join(cells)} |"]
    return "\n".join(lines) + "\n"


def gains(pairs: Sequence[Pair], metric: str, scale: float) -> list[float]:
    """The default minus the same without flips and turns, for each draw."""
    both = [(one["with"]["scores"], one["without"]["scores"]) for one in pairs]
    return [scale * (ours["default"][metric] - still["default"][metric]) for ours, still in both]


def main(argv: Sequence[str] | None = None) -> None:
    """Fit what has no file yet, then print all that there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, required=True, help="folder with one file per fit")
    parser.add_argument("--out", type=Path, help="Markdown file; records beside it")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none later")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--sets", nargs="+", default=sorted({name for name, _ in CASES}))
    parser.add_argument("--steps", type=int, help="for a try")
    options = parser.parse_args(argv)
    options.runs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    found = [
        pair(
            options.runs, name, n, draw, options.device, options.steps, late=time.monotonic() >= end
        )
        for draw in range(options.draws)
        for name, n in CASES
        if name in options.sets
    ]
    pairs = [one for one in found if one]
    text = table(pairs)
    print(text)
    if options.out:
        write_whole(options.out, "# Flips and turns\n\n" + text)
        write_whole(options.out.with_suffix(".json"), json.dumps(pairs, indent=1) + "\n")


if __name__ == "__main__":
    main()
