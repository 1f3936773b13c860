"""Every measured number in README and docs comes from a committed result, and the check bites."""

import dataclasses
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from check import (
    PAGES,
    PAPER,
    ROOT,
    SETTINGS,
    agrees,
    fault,
    page_claims,
    problems,
    sources,
)
from claims import Claim, claims, passage_pattern
from derived import DERIVED
from records import NUMBER, plain

PASSAGES = [(page, passage) for page in DERIVED for passage in DERIVED[page]]
README = ROOT / "README.md"


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def changed(shown: str, draws: random.Random) -> str:
    """The number with another digit in one place."""
    place = draws.choice([i for i, character in enumerate(shown) if character.isdigit()])
    digit = draws.choice([digit for digit in "0123456789" if digit != shown[place]])
    return shown[:place] + digit + shown[place + 1 :]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_measured_number_has_its_source(page: Path) -> None:
    wrong = problems(page, page.read_text(encoding="utf-8"))
    assert not wrong, "\n".join([f"{len(wrong)} numbers without a source:", *wrong[:30]])


def test_sources_are_committed() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    cited = {
        (name(page), name(file))
        for page in PAGES
        for claim in page_claims(page, page.read_text(encoding="utf-8"))
        for file in sources(page, claim)
    }
    for page, file in sorted(cited):
        there = any(path == file or path.startswith(f"{file}/") for path in listed)
        assert there, f"{page} has numbers from {file}, which is not committed."


@pytest.mark.parametrize(("page", "passage"), PASSAGES, ids=lambda text: text[:40])
def test_derived_numbers_are_what_they_are_derived_from(page: str, passage: str) -> None:
    [claim] = claims("0.5")
    shown = [found[0] for found in NUMBER.finditer(plain(passage))]
    values = DERIVED[page][passage]()
    assert len(shown) == len(values)
    for text, value in zip(shown, values, strict=True):
        assert agrees(value, text, claim), f"{page} says {text} in {passage!r}, but it is {value}."


@pytest.mark.parametrize("page", sorted({*SETTINGS, *DERIVED}))
def test_exceptions_are_on_their_pages(page: str) -> None:
    text = plain((ROOT / page).read_text(encoding="utf-8"))
    for passage in [*SETTINGS.get(page, {}), *DERIVED.get(page, {})]:
        times = len(passage_pattern(passage).findall(text))
        assert times == 1, f"{passage!r} is {times} times on {page}: take it from the list."


@pytest.mark.parametrize(
    "sentence",
    [
        "Training is 12.3 % faster.",
        "It takes 41 s.",
        "A step takes 8.1 ms.",
        "That is 51 times the eager loop.",
        "It runs at 120 steps a second.",
        "The interval held in 139 of 156 cells.",
        "Accuracy rises by 2 points.",
        "| method | wins |\n|---|---|\n| ours | 7 |",
        "```\nours  0.912\n```",
    ],
)
def test_a_measured_number_without_a_source_is_found(sentence: str) -> None:
    wrong = problems(README, f"# A page\n\n{sentence}\n")
    assert wrong
    assert re.match(r"README.md:[345]: \S+ looks measured, but its section links to no", wrong[0])


@pytest.mark.parametrize(
    "sentence",
    [
        "With λ = 0.5, τ = 0.95 and n_l = 4,000 labels, seed = 3.",
        "Means and 95 % intervals over 5 seeds, ± half of the 95 % t-interval.",
        "Python 3.11, torch 2.13.0+cpu; see theorem 3.1 and figure 1.",
        "SGD with learning rate 0.1, 25,000 rows of CIFAR-10 as 3 × 32 × 32 bytes.",
        "x is uniform on [1.2, 2.8]; `lam=0.5` is code; [a page](https://x.org/1.5).",
        "| λ | labels | term |\n|---|---|---|\n| 0.5 | 100 | `a` |",
        "```python\nx = 0.25\n```",
    ],
)
def test_settings_are_not_measured(sentence: str) -> None:
    assert [claim.shown for claim in claims(sentence)] == []


def test_a_wrong_number_is_named_with_the_files_that_were_searched() -> None:
    text = "# Toy\n\nEntMin gives 0.076 ([numbers](results/toy/table.md)).\n"
    [wrong] = problems(README, text)
    assert wrong.startswith("README.md:3: 0.076 is not in results/toy/table.md beside its words")
    assert "the nearest there is 0.075" in wrong
    assert problems(README, text.replace("0.076", "0.075")) == []


def test_sources_do_not_reach_into_the_next_section() -> None:
    link = "See [numbers](results/toy/table.md)."
    claim = "EntMin gives 0.075."
    assert problems(README, f"# Page\n\n{link}\n\n## Part\n\n{claim}\n") == []
    assert problems(README, f"# Page\n\n## One\n\n{link}\n\n## Two\n\n{claim}\n")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("docs/reproduction.md", marks=pytest.mark.slow),
        pytest.param("docs/surrogates.md", marks=pytest.mark.slow),
        "docs/networks-measured.md",
    ],
    ids=str,
)
def test_a_changed_digit_in_a_table_is_found(page: str) -> None:
    path, draws = ROOT / page, random.Random(0)
    text = plain(path.read_text(encoding="utf-8"))
    rows = [claim for claim in page_claims(path, text) if claim.in_table]
    for claim in draws.sample(rows, 3):
        before, after = text[: claim.start], text[claim.start + len(claim.shown) :]
        mutants = [before + changed(claim.shown, draws) + after for _ in range(3)]
        found = [f"{page}:{claim.line}: " in "\n".join(problems(path, one)) for one in mutants]
        assert sum(found) >= 2  # now and then a digit makes another true number of the row


def found_share(claims_of: dict[Path, list[Claim]]) -> float:
    """The share of numbers whose change by a digit is found."""
    draws = random.Random(0)
    found = [
        bool(fault(page, dataclasses.replace(claim, shown=changed(claim.shown, draws))))
        for page, chosen in claims_of.items()
        for claim in chosen
        for _ in range(5)
    ]
    return sum(found) / len(found)


@pytest.mark.slow
@pytest.mark.parametrize(("in_table", "least"), [(True, 0.95), (False, 0.6)])
def test_most_changed_digits_are_found(in_table: bool, least: float) -> None:
    # Names pin a table's number to a few of a file; in running text they are less sure.
    pages = [page for page in PAGES if page.name != "reproduction.md"]
    everything = {page: page_claims(page, page.read_text(encoding="utf-8")) for page in pages}
    kind = {p: [c for c in found if c.in_table == in_table] for p, found in everything.items()}
    assert found_share(kind) >= least


def test_the_paper_is_a_source_where_it_is_named() -> None:
    table = "| method | accuracy, % |\n|---|---|\n| DeFixMatch | 95.44 ± 0.10 |\n"
    heading = "# FixMatch on CIFAR-10\n\n"
    assert PAPER.is_file()
    assert problems(README, f"{heading}As the paper has it:\n\n{table}") == []
    assert problems(README, f"{heading}As we have it:\n\n{table}")
    wrong = problems(README, f"{heading}As the paper has it:\n\n{table.replace('0.10', '0.13')}")
    assert len(wrong) == 2  # 0.13 is FixMatch's: both sides of the ± stand alone


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [
        ("0.25", 0.2549, True),
        ("0.25", 0.2551, False),
        ("-0.25", 0.25, False),
        ("0.25", -0.25, True),
        ("95.4 %", 0.9544, True),
        ("95.4", 0.9544, False),
        ("about 15,900 s", 15883.1, True),
        ("15,900 s", 15883.1, False),
        ("6.5 × 10⁻⁵", 6.46e-5, True),
        ("6.5 × 10⁻⁵", 6.4e-5, False),
        ("p < 0.001", 0.0004, True),
        ("p < 0.001", 0.002, False),
    ],
)
def test_rounding(text: str, value: float, right: bool) -> None:
    [claim] = claims(text)
    assert agrees(value, claim.shown, claim) is right
