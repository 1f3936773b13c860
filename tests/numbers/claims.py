"""What a page claims: its measured numbers, where they stand and beside which words.

Measured is a number of a table, or one in the text that looks it: decimals, ±, %, points, times, a
unit of time, memory or speed, "3 of 5". Settings are not: λ = 0.5, a 95 % interval, a version.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from records import NUMBER, as_caption, numbers, plain, token, value, words

UNIT = (
    r"\s?(?:%|×(?!\s?\d)|x\b|points?\b|times\b|m?s\b|h\b|min\b|seconds?\b|minutes?\b|hours?\b|[GMT]i?B\b|"
    r"(?:[a-z-]+ )?(?:steps?|images|rows|runs)?(?:/s| a second| per second))"
)
MEASURED = re.compile(
    rf"{UNIT}|\s?±|\s(?:out )?of (?:the |all )?\d|\s?(?:to|and|against|or)\s[+-]?[\d.]+{UNIT}"
)
SETTING = re.compile(
    "|".join(
        (
            r"(?:\b[α-ωΑ-Ω]\w*|\b(?!p\b)[A-Za-z]|\bn_\w+|\bseed|\blam)\s?[=<>≤≥]\s?[\d.,]+",
            r"\b\d+ % (?:\w+[- ])?(?:intervals?|half)|nominal \d+ %",
            r"(?:\bon|\bx in|λ in|\bU|∈)\s?\[[^\]]*\]",  # a range of x or λ
            r"(?:\b[Pp]ython|[Tt]orch|CUDA|numpy|scipy|[Vv]ersion|Pillow) \d[\w.+]*",
            r"(?:[Ss]ection|[Tt]heorem|[Ff]igure|[Tt]able|[Aa]ppendix|[Ee]quation)s? \d[\d.]*",
            r"(?:rate|decay|momentum|threshold|dropout|temperature|probability)(?: of)? \d[\d.e-]*",
        )
    )
)
SETTING_COLUMN = re.compile(
    r"λ|τ|m|n|n_l|labels|labelled|seeds?|splits?|folds?|epochs?|steps|batch|storey|exit code|"
    r"range\b.*|.*λ ="
)
UNSEEN = re.compile(  # code, inline code, where links lead, comments
    r"^```\w+\n.*?^```$|`[^`\n]+`|(?<=\])\([^)\s]*\)|https?://\S+|<[^>\n]*>|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
NEAR = 200  # characters: words that far from a number in the text name it
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
BULLET = re.compile(r"\s*(?:[-*]|\d+\.) ")


@dataclass
class Section:
    """The text between two headings; a reader of it has read what its parents say, too."""

    title: str
    parents: tuple["Section", ...]
    text: str = ""

    def links(self) -> list[str]:
        return LINK.findall("".join(section.text for section in (*self.parents, self)))


@dataclass
class Claim:
    """One measured number."""

    line: int
    start: int  # in the page
    shown: str
    mate: str  # what stands at the other side of a ±
    words: frozenset[str]  # that name it
    section: Section
    in_table: bool
    percent: bool  # a file may have it as a share
    about: bool  # rounded to its last digit that is not 0
    below: bool  # p < 0.001
    beside: tuple[float, ...]  # what it may be the difference of: the others of its row


@dataclass
class Block:
    """Lines that belong together: a paragraph, a bullet, a table, the output of a command."""

    start: int
    text: str  # as a reader sees it
    seen: str  # the same without what holds no measured numbers
    section: Section
    caption: str = ""  # the block before
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        first = self.text.lstrip()[:3]
        self.kind = "table" if first[:1] == "|" else "output" if first == "```" else "prose"


def claims(text: str, passages: Sequence[str] = ()) -> list[Claim]:
    """The measured numbers of a page, without those in the given passages."""
    text = seen = plain(text)
    for pattern in (*map(passage_pattern, passages), UNSEEN, SETTING):
        seen = _blank(pattern, seen)
    readers = {"table": _of_table, "output": _of_output, "prose": _of_prose}
    found: list[Claim] = []
    caption = ""
    for block in _blocks(text, seen):
        block.caption = caption
        found += readers[block.kind](block)
        caption = as_caption(block.text, caption)
    for claim in found:
        claim.line = text.count("\n", 0, claim.start) + 1
    return found


def passage_pattern(passage: str) -> re.Pattern[str]:
    """Finds a passage wherever its lines were broken."""
    return re.compile(r"\s+".join(map(re.escape, plain(passage).split())))


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _blocks(text: str, seen: str) -> Iterator[Block]:
    open_sections: list[tuple[int, Section]] = []
    section, start, place, fenced = Section("", ()), 0, 0, False
    for line in [*text.splitlines(keepends=True), ""]:
        heading = not fenced and re.match(r"(#+) ", line)
        ends = heading or not line.strip() or BULLET.match(line) or line.startswith("```")
        if ends and not fenced and place > start:
            yield Block(start, text[start:place], seen[start:place], section)
            start = place
        if line.startswith("```"):
            fenced = not fenced
        if heading:
            level = len(heading[1])
            open_sections = [item for item in open_sections if item[0] < level]
            section = Section(line, tuple(item for _, item in open_sections))
            open_sections.append((level, section))
        section.text += line
        place += len(line)


def _of_table(block: Block) -> Iterator[Claim]:
    place = block.start
    header: list[str] = []
    for line, seen in zip(_lines(block.text), _lines(block.seen), strict=True):
        edges = [found.start() for found in re.finditer(r"(?<!\\)\|", line)]
        cells = list(itertools.pairwise(edges))
        if header:
            measured = _measured_cells(header, cells, seen)
            settings = _settings(line, [found for _, found in measured])
            for title, found in measured:
                named = words(f"{block.section.title} {block.caption} {line} {title}") | settings
                named |= set(map(token, numbers(title)))
                yield _claim(block, place, found, seen, title, named)
        header = header or [line[a + 1 : b].strip() for a, b in cells]
        place += len(line)


def _measured_cells(
    header: list[str], cells: list[tuple[int, int]], seen: str
) -> list[tuple[str, re.Match[str]]]:
    """Numbers with their columns' titles: all of a cell of numbers, else what looks measured."""
    measured = []
    for column, (title, (a, b)) in enumerate(zip(header, cells, strict=False)):
        only_numbers = column > 0 and not words(re.sub("better|worse", "", seen[a:b]))
        if not SETTING_COLUMN.fullmatch(title):
            measured += [
                (title, found)
                for found in NUMBER.finditer(seen, a, b)
                if only_numbers or _looks_measured(found, seen[:b])
            ]
    return measured


def _settings(line: str, measured: list[re.Match[str]]) -> set[str]:
    """The numbers of a row that are not measured: they name it, as words do."""
    places = {found.start() for found in measured}
    others = [found for found in NUMBER.finditer(line) if found.start() not in places]
    return {token(value(found)) for found in others}


def _of_output(block: Block) -> Iterator[Claim]:
    place = block.start
    for line, seen in zip(_lines(block.text), _lines(block.seen), strict=True):
        for found in NUMBER.finditer(seen):
            if _looks_measured(found, seen):
                yield _claim(
                    block, place, found, seen, block.text, words(f"{block.section.title} {line}")
                )
        place += len(line)


def _of_prose(block: Block) -> Iterator[Claim]:
    for found in NUMBER.finditer(block.seen):
        if _looks_measured(found, block.seen):
            near = block.text[max(found.start() - NEAR, 0) : found.end() + NEAR]
            yield _claim(block, block.start, found, block.seen, block.text, words(near))


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _looks_measured(found: re.Match[str], seen: str) -> bool:
    before = seen[: found.start()]
    counted = re.search(r"\d\s(?:out )?of (?:the |all )?$|±\s?$|\bp\s?[=<]\s?$", before)
    return bool(found[3] or found[4] or counted or MEASURED.match(seen, found.end()))


def _claim(
    block: Block, place: int, found: re.Match[str], seen: str, unit: str, named: frozenset[str]
) -> Claim:
    before, in_table = seen[: found.start()], block.kind != "prose"
    differs = in_table and re.search(r"off by|difference|less|minus", unit)
    others = [other for other in NUMBER.finditer(seen) if other.start() != found.start()]
    return Claim(
        line=0,
        start=place + found.start(),
        shown=found[0],
        mate=_mate(found, seen),
        words=named,
        section=block.section,
        in_table=in_table,
        percent=bool(re.search("%|point", unit)),
        about=bool(re.search(r"(?:about|some|near|nearly|almost|~|≈)\s?$", before)),
        below=before.rstrip().endswith("<"),
        beside=tuple(map(value, others)) if differs else (),
    )


def _mate(found: re.Match[str], seen: str) -> str:
    if after := re.match(r"\s?±\s?", seen[found.end() :]):
        mate = NUMBER.match(seen, found.end() + after.end())
    else:
        before = re.search(r"(\S+)\s?±\s?$", seen[: found.start()])
        mate = NUMBER.search(before[1]) if before else None
    return mate[0] if mate else ""
