"""What new users type in their first minutes, and what they see: docs/first-minutes.md.

    PYTHONPATH=src python benchmarks/first_minutes.py     # three minutes on two cores

A table of patients is made from scikit-learn's breast cancer set, with an id, a date, a text
category and gaps; 100 rows of 569 keep their label. Each command runs in a process of its own.
"""

import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-minutes.md"
RESULTS = Path(__file__).parent / "results" / "first_minutes.json"
LABELS = 100
SKLEARN = """
import pandas as pd
from dessl import DeSSLClassifier

frame = pd.read_csv("patients.csv", parse_dates=["visit"])
loaded = DeSSLClassifier.from_pretrained("runs/patients")   # what the command line trained
print(loaded.predict(frame.head(4)))
print(round(float(loaded.predict_proba(frame.head(1)).max()), 3))
"""


class Line(NamedTuple):
    """What used to go wrong or was missing, what to type, and which lines of the answer to show."""

    what: str
    command: str
    shown: str = ""


LINES = (
    Line(
        "A misspelt column", "dessl fit patients.csv --label Diagnosis --out runs/patients", "Did"
    ),
    Line(
        "NA among the labels",
        "dessl fit na.csv --label diagnosis --out runs/na",
    ),
    Line("Is it safe to use the unlabelled rows?", "dessl audit patients.csv --label diagnosis"),
    Line(
        "Intervals, a verdict, and a model retrained on all labels",
        "dessl fit patients.csv --label diagnosis --out runs/patients",
    ),
    Line(
        "The same command again",
        "dessl fit patients.csv --label diagnosis --out runs/patients",
        "already finished",
    ),
    Line(
        "Predictions next to your own columns, with an option to abstain",
        "dessl predict runs/patients patients.csv --keep patient,ward --at-least 0.9 "
        "--out predictions.csv",
    ),
    Line(
        "A language model's answers for all rows, checked against gold labels",
        "dessl fit answers.csv --label diagnosis --teacher llm --out runs/answers",
    ),
    Line(
        "Two runs side by side", "dessl report runs/patients runs/answers --out both.html", "Report"
    ),
    Line(
        "Embeddings, and a file of labels",
        "dessl fit vectors.npy --labels labels.csv --out runs/vectors",
        "Expected accuracy",
    ),
    Line("How many labels are needed?", "dessl plan patients.csv --label diagnosis --width 0.02"),
    Line("An ONNX graph for other programs", "dessl export runs/patients --out model.onnx"),
    Line("The same model in scikit-learn, with a data frame", "python"),
    Line("Help, without loading torch", "dessl fit --help", "Usage"),
)


def write_patients(folder: Path) -> None:
    """Write patients.csv, na.csv with NA in place of empty labels, and what comes of both."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    cancer, rng = load_breast_cancer(), np.random.default_rng(1)
    names = [name.replace(" ", "_") for name in cancer.feature_names]
    rows = [["patient", "visit", "ward", *names, "diagnosis"]]
    for k, i in enumerate(rng.permutation(len(cancer.target))):
        numbers = ["" if rng.random() < 0.02 else f"{value:.5g}" for value in cancer.data[i]]
        visit = f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}"
        label = str(cancer.target_names[cancer.target[i]]) if k < LABELS else ""
        rows.append([f"p{i:04d}", visit, str(rng.choice(["north", "south"])), *numbers, label])
    for file, mark in (("patients.csv", ""), ("na.csv", "NA")):
        with (folder / file).open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([*row[:-1], row[-1] or mark] for row in rows)
    write_answers(folder, rows, {f"p{i:04d}": int(y) for i, y in enumerate(cancer.target)})


def write_answers(folder: Path, rows: list[list[str]], truth: dict[str, int]) -> None:
    """Write answers.csv, with a model that is right six times in seven; and the numbers as npy."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    cancer, rng = load_breast_cancer(), np.random.default_rng(2)
    names = [str(name) for name in cancer.target_names]
    head, *patients = rows
    with (folder / "answers.csv").open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out)
        table.writerow([*head, "llm"])
        for row in patients:
            wrong = rng.random() < 1 / 7
            table.writerow([*row, names[truth[row[0]] ^ wrong]])
    np.save(folder / "vectors.npy", cancer.data.astype(np.float32))
    lines = [f"{int(row[0][1:])},{row[-1]}" for row in patients if row[-1]]
    (folder / "labels.csv").write_text("\n".join(["row,diagnosis", *lines]) + "\n")


def answers(folder: Path) -> Iterator[tuple[Line, str, int]]:
    """Run every command; yield its line, what it printed, and its exit code."""
    for line in LINES:
        words = line.command.split()
        own = (
            [sys.executable, "-m", *words]
            if words[0] == "dessl"
            else [sys.executable, "-c", SKLEARN]
        )
        run = subprocess.run(own, cwd=folder, capture_output=True, text=True, check=False)
        yield line, (run.stderr + run.stdout).strip(), run.returncode


def cut(text: str, shown: str) -> str:
    """The part of an answer that the page shows: a paragraph's start, or all but long lists."""
    lines = text.splitlines()
    if shown:
        lines = [line for line in lines if shown in line][:1]
    lines = [re.sub(r"; got ('[^']+', ){3}.* and \d+ more", "; got ...", line) for line in lines]
    return "\n".join(line.rstrip() for line in lines)


def page(found: list[tuple[Line, str, int]]) -> str:
    """The page in Markdown."""
    parts = [
        "# The first minutes",
        "What new users type, and what they see. The table has 569 patients, 100 of them with a "
        "diagnosis, an id, a date, a ward and gaps. The page is written by "
        "`python benchmarks/first_minutes.py`, from what the commands printed "
        "([all of it](../benchmarks/results/first_minutes.json)).",
    ]
    for line, text, code in found:
        typed = SKLEARN.strip() if line.command == "python" else f"$ {line.command}"
        exit_code = f" (exit code {code})" if code else ""
        parts += [f"## {line.what}", f"```text\n{typed}\n```", f"It prints{exit_code}:"]
        parts += [f"```text\n{cut(text, line.shown)}\n```"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run the commands and write the page."""
    with tempfile.TemporaryDirectory() as name:
        write_patients(Path(name))
        found = list(answers(Path(name)))
    entries = [
        {"what": line.what, "command": line.command, "exit_code": code, "printed": text}
        for line, text, code in found
    ]
    RESULTS.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
