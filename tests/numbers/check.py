"""Whether every measured number of a page stands in a committed result that the page links to.

``python tests/numbers/check.py [PAGE ...]`` prints what is wrong.

A number's sources are the files, or folders of runs, under results/ and benchmarks/results/ that
its section links to, or the text under the headings above it; and the paper's numbers, where the
section speaks of the paper. One of them must hold the number, rounded to the digits shown, in a
record that shares the number's words: in a table those of its row and column, in the text those
near it. Both sides of a ± must stand together.
"""

import itertools
import math
import sys
import tomllib
from functools import cache
from pathlib import Path

from claims import Claim, claims
from derived import DERIVED
from records import SUFFIXES, Record, records

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FOLDERS = ("results", "benchmarks/results")
PAPER = ROOT / "src" / "dessl_paper" / "experiments" / "targets.toml"
EXCEPTIONS = Path(__file__).parent / "settings.toml"
SETTINGS: dict[str, dict[str, str]] = tomllib.loads(EXCEPTIONS.read_text(encoding="utf-8"))
TELLING = math.log(1.5)  # a word in two of three records, or fewer, tells them from the others
ALIKE = 0.9  # of the likeness to a table's row that the most alike record has


def problems(page: Path, text: str) -> list[str]:
    """One message for each measured number of the page without a source."""
    return [
        f"{_name(page)}:{claim.line}: {why}"
        for claim in page_claims(page, text)
        if (why := fault(page, claim))
    ]


def page_claims(page: Path, text: str) -> list[Claim]:
    """The page's measured numbers, without those that are listed as settings or as derived."""
    return claims(text, [*SETTINGS.get(_name(page), {}), *DERIVED.get(_name(page), {})])


def fault(page: Path, claim: Claim) -> str:
    """What is wrong with a claim; nothing if it has its source."""
    files = sources(page, claim)
    if not files:
        return (
            f"{claim.shown} looks measured, but its section links to nothing in "
            f"{' or '.join(FOLDERS)}. Link its source there; if it is a setting, list it in "
            f"{_name(EXCEPTIONS)}."
        )
    if any(_holds(file, claim) for file in files) or _is_difference(claim):
        return ""
    near = [value for file in files for record in _named(file, claim) for value in record.numbers]
    nearest = min(near, key=lambda value: abs(value - _value(claim.shown)), default="none")
    return (
        f"{claim.shown} is not in {', '.join(map(_name, files))} beside its words "
        f"({', '.join(sorted(claim.words)[:12])}); the nearest there is {nearest}."
    )


def sources(page: Path, claim: Claim) -> list[Path]:
    """What the claim may come from."""
    linked = [(page.parent / link).resolve() for link in claim.section.links()]
    files = [
        file
        for file in dict.fromkeys(linked)
        if (file.suffix in SUFFIXES or file.is_dir())
        and any(file.is_relative_to(ROOT / folder) for folder in FOLDERS)
    ]
    return [*files, PAPER] if PAPER.exists() and "paper" in claim.section.text else files


def agrees(value: float, shown: str, claim: Claim) -> bool:
    """Whether the value, rounded to the digits shown, is what is shown."""
    mantissa, _, exponent = shown.replace(",", "").partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if claim.about and "." not in mantissa:
        digits -= len(mantissa) - len(mantissa.rstrip("0"))
    if shown[0] not in "+-":
        value = abs(value)
    if claim.below:
        return value < _value(shown)
    reach = 0.5 * 10.0**-digits * (1 + 1e-9)
    scales = (1, 100) if claim.percent else (1,)
    return any(abs(value * scale - _value(shown)) <= reach for scale in scales)


def _holds(file: Path, claim: Claim) -> bool:
    named = _named(file, claim)

    def rows(shown: str) -> set[str]:
        return {r.row for r in named if any(agrees(value, shown, claim) for value in r.numbers)}

    return bool(rows(claim.shown) & rows(claim.mate) if claim.mate else rows(claim.shown))


def _named(file: Path, claim: Claim) -> list[Record]:
    """The records that share the claim's words; a table's cell is looked for in tables first."""
    rarity = _rarity(file)
    all_of = records(file)
    chosen = [record for record in all_of if not (claim.in_table and record.prose)] or all_of
    shared = {record: [rarity[word] for word in record.words & claim.words] for record in chosen}
    if claim.in_table:
        least = ALIKE * max(map(sum, shared.values()), default=0)
        likeness = {record: sum(rarities) for record, rarities in shared.items()}
    else:
        least = min(TELLING, max(rarity.values(), default=0))
        likeness = {record: max(rarities, default=0) for record, rarities in shared.items()}
    alone = len(shared) == 1  # nothing to tell it from
    return [one for one in shared if likeness[one] >= least and (likeness[one] > 0 or alone)]


@cache
def _rarity(file: Path) -> dict[str, float]:
    """How well each word tells the file's records from each other."""
    counts: dict[str, int] = {}
    for word in itertools.chain.from_iterable(record.words for record in records(file)):
        counts[word] = counts.get(word, 0) + 1
    return {word: math.log(len(records(file)) / count) for word, count in counts.items()}


def _is_difference(claim: Claim) -> bool:
    """Whether it is the difference of two others of its row, where the header says so."""
    step = 10.0 ** -len(claim.shown.partition(".")[2])
    return any(
        abs(a - b - _value(claim.shown)) <= step * 1.001  # all three were rounded
        for a, b in itertools.permutations(claim.beside, 2)
    )


def _value(shown: str) -> float:
    return float(shown.replace(",", ""))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


if __name__ == "__main__":
    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    wrong = [line for page in chosen for line in problems(page, page.read_text(encoding="utf-8"))]
    print("\n".join(wrong) or "Every measured number has its source.")
    sys.exit(bool(wrong))
