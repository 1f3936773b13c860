"""Command lines that are mostly valid, over small files that lie beside them."""

import random
from functools import cache

from cases import Case
from damage import ODD
from grammar_saved import CORPUS

from dessl.cli.app import COMMANDS

DATA = ("people.csv", "people.csv", "people.csv", "missing.csv", "fit", "notes.txt", "toy", ".")
TEXTS = (
    "",
    "-",
    "--",
    "-1",
    "é",
    "a" * 300,
    "\udc80",
    "~/x",
    "../x",
    "/dev/null",
    "nan",
    "=1",
    "'",
)

ODD_SITES = ("[/red]:smile:", "\x1b]0;x\x07", "=1+1|<script>")

# What comes on standard input: a file of the case, mostly.
PIPED = ("people.csv", "people.csv", "people.csv", "notes.txt", "fit/facts.json", "")


@cache
def files() -> dict[str, bytes]:
    """The folder of a run and its table."""
    people = (CORPUS / "people.csv").read_bytes()
    found = {"people.csv": people, "odd.csv": _odd_sites(people), "notes.txt": b"nothing\n"}
    for name in ("model", "complete-case"):
        for file in (CORPUS / "fit" / name).iterdir():
            found[f"fit/{name}/{file.name}"] = file.read_bytes()
    found["fit/facts.json"] = (CORPUS / "fit" / "facts.json").read_bytes()
    return found


def arguments_case(chance: random.Random) -> Case:
    """A command line, with one odd argument in a quarter of the cases."""
    line = chance.choice(
        (_predict, _piped, _evaluate, _report, _datasets, _reproduce, _help, _fit, _audit, _plan,
         _predict, _evaluate, _plan, _help, _export)
    )(chance)  # fmt: skip
    damaged = chance.random() < 0.25
    if damaged:
        odd = chance.choice((*TEXTS, *map(str, ODD), "--json", "--help", "--out", "--seed"))
        kind, at = chance.randrange(3), chance.randrange(len(line) + 1)
        if kind == 0:
            line.insert(at, odd)
        elif kind == 1 and at < len(line):
            line[at] = odd
        elif at < len(line):
            del line[at]
    if "demo" in line and "--help" not in line:
        line.append("--help")  # what it does takes longer than a case may
    line = [part.replace("\x00", "") for part in line]  # no process can be given one
    options = {"arguments": line, "piped": PIPED[chance.randrange(len(PIPED))]}
    return Case("arguments", files(), options, 60_000_000, damaged)


def _data(chance: random.Random) -> str:
    kind = chance.random()
    return DATA[0] if kind < 0.6 else "odd.csv" if kind < 0.8 else chance.choice(DATA)


def _odd_sites(table: bytes) -> bytes:
    """The table with sites whose names mean something to a terminal, a page or a spreadsheet."""
    head, *rows = table.decode().splitlines()
    lines = [head]
    for row in rows:
        age, dose, site, outcome = row.split(",")
        lines.append(f"{age},{dose},{ODD_SITES['abc'.index(site)]},{outcome}")
    return "\n".join(lines).encode() + b"\n"


def _predict(chance: random.Random) -> list[str]:
    out = chance.choice(("p.csv", "p.parquet", "sub/p.csv"))
    more = [flag for flag in ("--json", "--complete-case") if chance.random() < 0.3]
    return ["predict", "fit", _data(chance), "--out", out, *more]


def _piped(chance: random.Random) -> list[str]:
    """Rows from standard input, and often predictions to standard output."""
    line = ["predict", "fit", "-", "--out", chance.choice(("-", "-", "p.csv", "p.jsonl"))]
    for name, values in (
        ("--keep", ("age", "age,site", "outcome", "nothing")),
        ("--at-least", ("0", "0.9", "1")),
    ):
        if chance.random() < 0.3:
            line += [name, chance.choice(values)]
    return [*line, *(["--keep-all"] if chance.random() < 0.2 else [])]


def _evaluate(chance: random.Random) -> list[str]:
    line = ["evaluate", "fit", _data(chance)]
    line += [flag for flag in ("--json", "--complete-case") if chance.random() < 0.3]
    for name, values in (
        ("--metric", ("auc", "macro_f1", "brier", "nothing")),
        ("--class", ("yes", "no", "é")),
        ("--by", ("site", "age", "nothing")),
        ("--sets", ("0.9", "0.5", "2")),
        ("--strata", ("site", "outcome")),
        ("--propensity", ("dose", "nothing")),
    ):
        if chance.random() < 0.12:
            line += [name, chance.choice(values)]
    return line


def _audit(chance: random.Random) -> list[str]:
    line = ["audit", _data(chance), "--label", "outcome"]
    if chance.random() < 0.9:
        line.append("--cheap")
    for name, values in (
        ("--out", ("a.html", "a.txt", "sub/a.html")),
        ("--ignore", ("age", "site", "nothing")),
        ("--test-file", ("people.csv", "notes.txt")),
        ("--seed", ("0", str(2**63 - 1), str(2**63))),
    ):
        if chance.random() < 0.25:
            line += [name, chance.choice(values)]
    return line


def _plan(chance: random.Random) -> list[str]:
    line = ["plan", _data(chance), "--label", "outcome"]
    if chance.random() < 0.8:
        line += chance.choice((["--width", "0.02"], ["--difference", "0.05"], ["--width", "0.5"]))
    if chance.random() < 0.3:
        rows = chance.choice(("1", "5", "30", "31", str(10**12)))
        line += ["--rows", rows, "--out", chance.choice(("next.csv", "next.txt"))]
    if chance.random() < 0.3:
        line += ["--metric", chance.choice(("accuracy", "cross_entropy"))]
    return [*line, *(["--json"] if chance.random() < 0.3 else [])]


def _report(chance: random.Random) -> list[str]:
    runs = ["fit"] * chance.choice((1, 1, 2))
    return ["report", *runs, "--out", "page.html", *(["--json"] if chance.random() < 0.3 else [])]


def _datasets(chance: random.Random) -> list[str]:
    line = chance.choice((["list"], ["list"], ["fetch", "toy"], ["fetch", "digits"]))
    return ["datasets", *line, "--root", "data", *(["--json"] if chance.random() < 0.5 else [])]


def _reproduce(chance: random.Random) -> list[str]:
    return ["reproduce", "list", *(["--json"] if chance.random() < 0.5 else [])]


def _help(chance: random.Random) -> list[str]:
    names = tuple(COMMANDS)
    return [chance.choice(names), "--help"] if chance.random() < 0.9 else ["--version"]


def _fit(chance: random.Random) -> list[str]:
    """What ends before anything is trained: --labels is above the labels there are."""
    line = ["fit", _data(chance), "--label", "outcome", "--out", "new", "--labels", "100000"]
    for name, values in (
        ("--steps", ("1", "5")),
        ("--lam", ("auto", "0.5", "0")),
        ("--seed", ("0", str(2**63 - 1))),
        ("--hold-out", ("0.2", "0.5")),
        ("--surrogate", ("entropy", "fixmatch", "nothing")),
        ("--ignore", ("age", "site", "nothing")),
        ("--device", ("cpu", "cuda", "x")),
        ("--teacher", ("site", "nothing")),
        ("--propensity", ("estimate-x", "estimate-y", "dose", "nothing")),
        ("--networks", ("1", "5", "6", "0")),
        ("--margin", ("0", "0.01", "-1", "nan")),
        ("--missing-label", ("?", "no", "-1")),
        ("--test-file", ("people.csv", "notes.txt", "missing.csv")),
        ("--risk", ("debiased", "ssl", "nothing")),
        ("--size", ("8", "3")),
        ("--sheet", ("first",)),
    ):
        if chance.random() < 0.15:
            line += [name, chance.choice(values)]
    flags = ("--stream", "--no-stream", "--refit", "--no-refit", "--pool", "--no-pool", "--json",
             "--no-resume", "--no-missing-label", "--teacher-at-prediction")  # fmt: skip
    return [*line, *(flag for flag in flags if chance.random() < 0.1)]


def _export(chance: random.Random) -> list[str]:
    """Of models that cannot be exported, or to places that cannot be written."""
    out = chance.choice(("m.txt", "m", "sub/m.json"))
    return ["export", chance.choice(("fit", "people.csv", "nothing")), "--out", out]
