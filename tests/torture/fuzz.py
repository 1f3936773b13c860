"""Fuzz every reader with inputs made by a grammar, most of them valid, and count.

    python tests/torture/fuzz.py --seconds 300 --seed 7      adds to benchmarks/results/torture.json

An input must be accepted, or refused with an error that the reader documents, within 20 s and twice
the memory of its content. One that fails is written to tests/torture/corpus.
"""

import argparse
import hashlib
import importlib.util
import itertools
import os
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

# A fork of a process that has used threads may hang, and sums depend on their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from cases import Case, judged
from counts import RESULTS, add_counts
from grammar_answers import answers_case
from grammar_arguments import arguments_case
from grammar_arrays import (
    cifar10_case,
    cifar100_case,
    idx_case,
    medmnist_case,
    mnist_case,
    npz_case,
    records_file_case,
    stl10_case,
    svhn_case,
)
from grammar_entries import experiment_case, facts_case, records_case
from grammar_excel import excel_case
from grammar_frames import frame_case
from grammar_images import images_case
from grammar_npy import large_npy_case, npy_case
from grammar_resume import resume_case
from grammar_saved import checkpoint_case, estimator_case, model_case, run_case
from grammar_stored import stored_case
from grammar_tables import csv_case, large_table_case, parquet_case
from limits import HangError, Watch, cap_memory

CORPUS = Path(__file__).parent / "corpus"
# Each grammar with its share: those whose reader is fast are asked most.
GRAMMARS: dict[str, tuple[Callable[[random.Random], Case], float]] = {
    "csv": (csv_case, 8),
    "parquet": (parquet_case, 5),
    "excel": (excel_case, 6),
    "frame": (frame_case, 5),
    "answers": (answers_case, 5),
    "npy": (npy_case, 12),
    "large table": (large_table_case, 3),
    "large npy": (large_npy_case, 5),
    "stored": (stored_case, 8),
    "npz": (npz_case, 14),
    "idx": (idx_case, 40),
    "mnist": (mnist_case, 4),
    "cifar": (records_file_case, 20),
    "cifar10": (cifar10_case, 1),
    "cifar100": (cifar100_case, 1),
    "stl10": (stl10_case, 0.6),
    "medmnist": (medmnist_case, 4),
    "svhn": (svhn_case, 1.5),
    "images": (images_case, 4),
    "model": (model_case, 6),
    "checkpoint": (checkpoint_case, 5),
    "resume": (resume_case, 1),
    "estimator": (estimator_case, 4),
    "run": (run_case, 20),
    "facts": (facts_case, 5),
    "records": (records_case, 1),
    "experiment": (experiment_case, 6),
    "arguments": (arguments_case, 0.8),
}
TABLES = ("csv", "parquet", "excel", "answers", "arguments", "npy", "large table", "large npy",
          "stored")  # fmt: skip
NEEDS = {**dict.fromkeys(TABLES, "pyarrow"), "frame": "pandas"}  # that may be missing
MINUTE = 60.0
PLACE = "/dev/shm"  # files in memory: a million need not go through a disk


def readable(names: list[str]) -> list[str]:
    """Formats whose packages are installed; the others are told."""
    missing = [
        name for name in names if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None
    ]
    if missing:
        packages = ", ".join(sorted({NEEDS[name] for name in missing}))
        print(f"SKIPPED {', '.join(missing)}: no {packages}", flush=True)
    return [name for name in names if name not in missing]


def fuzzed(
    seconds: float, seed: int, only: list[str], corpus: Path = CORPUS
) -> Iterator[dict[str, Counter[str]]]:
    """Fuzz for so long; yield the new counts of each format about every minute."""
    names = readable(only or list(GRAMMARS))
    weights = [GRAMMARS[name][1] for name in names]
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    root = Path(tempfile.mkdtemp(dir=PLACE if Path(PLACE).is_dir() else None))
    os.environ.update(DESSL_DATA=str(root / "none"), XDG_CACHE_HOME=str(root / "cache"))
    watch = Watch()
    for name in names:  # imports and caches are not a case's memory
        for number in range(10):
            _warm(GRAMMARS[name][0](random.Random(f"warm {name} {number}")), root / "warm")
    cap_memory()
    end, due = time.monotonic() + seconds, time.monotonic() + MINUTE
    chance = random.Random(seed)
    for number in itertools.count():
        if time.monotonic() > min(end, due):
            yield counts
            counts, due = {name: Counter() for name in names}, time.monotonic() + MINUTE
            if time.monotonic() > end:
                break
        name = chance.choices(names, weights)[0]
        case = GRAMMARS[name][0](random.Random(f"{seed} {number}"))
        _judged(case, root, watch, counts[name], corpus)
    watch.disarm()
    shutil.rmtree(root)


def _warm(case: Case, folder: Path) -> None:
    case.write(folder)
    with suppress(Exception):  # judged later
        judged(case, folder)
    shutil.rmtree(folder)


def _judged(case: Case, root: Path, watch: Watch, counts: Counter[str], corpus: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=root))
    case.write(folder)
    began = time.process_time()
    outcome = "refused"
    try:
        with watch.limited(case.decoded):
            accepted = judged(case, folder)
        outcome = "accepted" if accepted else "refused"
    except (Exception, HangError) as error:  # noqa: BLE001 (whatever comes is what is looked for)
        outcome = "failed"
        _keep(case, error, corpus)
    finally:
        _remove(folder, case)
    counts["inputs"] += 1
    counts[outcome] += 1
    counts["damaged"] += case.damaged
    counts["damaged and accepted"] += case.damaged and outcome == "accepted"
    counts["microseconds"] += round(1e6 * (time.process_time() - began))


def _remove(folder: Path, case: Case) -> None:
    """Remove the folder of a case, fast where only its own files are in it."""
    try:
        for name in case.files:
            (folder / name).unlink()
        for place in {(folder / name).parent for name in case.files} - {folder}:
            place.rmdir()
        folder.rmdir()
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(case: Case, error: BaseException, corpus: Path) -> None:
    """Save a failure under a name of where it arose, so that one fault is kept once or twice."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f for f in reversed(frames) if "dessl" in f.filename), frames[-1])
    where = f"{Path(place.filename).stem}_{place.name}_{type(error).__name__}".strip("_")
    name = f"{case.format}-{where}"
    if sum(1 for _ in corpus.glob(f"{name}*")) >= 2:
        return
    digest = hashlib.sha256(repr(sorted(case.files.items())).encode()).hexdigest()[:6]
    why = f"{type(error).__name__}: {error}"[:300]
    print(f"FAILED {name}-{digest}: {why}", flush=True)
    corpus.mkdir(exist_ok=True)
    case.save(corpus / f"{name}-{digest}.json", why)


def main() -> None:
    """Read the arguments, fuzz, add to the counts, print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], choices=GRAMMARS)
    parser.add_argument("--dry", action="store_true", help="do not add to the counts")
    parser.add_argument("--counts", type=Path, default=RESULTS, help="where counts are added")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where failures are kept")
    given = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    for new in fuzzed(given.seconds, given.seed, given.only, given.corpus):
        if not given.dry:
            add_counts("fuzz", new, given.counts)
        for name, its in new.items():
            counts.setdefault(name, Counter()).update(its)
    for name, its in counts.items():
        valid = its["accepted"] / max(1, its["inputs"])
        pace = its["microseconds"] / max(1, its["inputs"]) / 1000
        print(f"{name:11} {its['inputs']:8,} inputs {valid:6.1%} accepted {its['failed']:4} failed "
              f"{pace:6.2f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
