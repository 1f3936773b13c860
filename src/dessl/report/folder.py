"""A run folder on disk, as ``dessl fit`` and ``dessl demo`` leave it.

RUN/facts.json        what dessl.report.facts.RunFacts holds
RUN/report.html       made from facts.json alone; ``dessl report RUN`` makes it again
RUN/model/            the model that ``dessl predict`` and ``dessl evaluate`` use
RUN/complete-case/    its twin, trained on the labelled rows alone
RUN/training/         histories and checkpoints, one folder for each method and seed
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dessl._files import write_whole
from dessl.data import DataError
from dessl.report.facts import RunFacts

FACTS = "facts.json"
REPORT = "report.html"
MODEL = "model"
TWIN = "complete-case"
TRAINING = "training"


def write_facts(folder: Path, facts: RunFacts) -> None:
    """Write ``facts.json`` into a run folder."""
    text = json.dumps(facts.as_dict(), indent=1, allow_nan=False, ensure_ascii=False)
    write_whole(folder / FACTS, text + "\n")


def read_facts(folder: Path) -> RunFacts:
    """Read a run folder's ``facts.json``.

    Raises:
        DataError: There is none, or it is damaged.
    """
    path = folder / FACTS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError.of(
            folder,
            expected=f"the folder of a run, with {FACTS}",
            got=f"no {FACTS}",
            do="Give the folder that dessl fit or dessl demo wrote with --out, or that of dessl "
            "reproduce.",
        ) from error
    except (OSError, ValueError) as error:
        raise DataError.of(
            path, expected="JSON", got=str(error)[:200], do="The file is damaged: train again."
        ) from error
    return RunFacts.from_dict(entries, source=path)


@contextmanager
def shown_from(*paths: Path) -> Iterator[None]:
    """Name the files whose entries a report could not be made from.

    Entries are checked as they are read; this is for what lies so deep that it is seen in use.

    Raises:
        DataError: In place of the error that they caused.
    """
    try:
        yield
    except DataError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError.of(
            " or ".join(map(str, paths)),
            expected="what dessl wrote there",
            got=f"entries that cannot be shown ({type(error).__name__}: {error})",
            do="The file is damaged: run again what wrote it.",
        ) from error
