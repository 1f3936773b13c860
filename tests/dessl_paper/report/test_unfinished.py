"""A folder can be reported while its experiment still runs, and when some runs diverged."""

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from dessl.results.record import Record
from dessl_paper.report.figures.all import figures_of
from dessl_paper.report.findings.all import findings_of
from dessl_paper.report.results import Results, read_results
from dessl_paper.report.summary import summary_entries
from dessl_paper.report.tables.all import tables_of
from dessl_paper.report.titles import made_with, run_count

NAMES = ["mnist", "medmnist", "consistency-cifar10", "toy", "risk-quality", "lambda-opt"]


def dead(record: Record) -> Record:
    return dataclasses.replace(
        record, metrics={}, arrays={}, history=[], training={"diverged": "the risk is NaN"}
    )


@pytest.mark.parametrize("name", NAMES)
def test_any_part_of_the_records_can_be_reported(smoke: Callable[[str], Path], name: str) -> None:
    full = read_results(smoke(name))
    source = random.Random(0)
    for _ in range(12):
        some = source.sample(full.records, source.randint(1, len(full.records)))
        records = tuple(dead(one) if source.random() < 0.3 else one for one in some)
        results = Results(full.experiment, records)
        assert all(table.rows for table in tables_of(results))
        assert all(finding.text for finding in findings_of(results))
        summary = json.loads(
            json.dumps(summary_entries(results, findings_of(results)), allow_nan=False)
        )
        assert all(mean["n"] for mean in summary["means"])  # of nothing there is no mean


@pytest.mark.parametrize("name", NAMES)
def test_one_run_alone_or_only_diverged_ones_can_be_drawn(
    smoke: Callable[[str], Path], name: str
) -> None:
    full = read_results(smoke(name))
    assert figures_of(Results(full.experiment, full.records[:1]))
    figures_of(Results(full.experiment, tuple(map(dead, full.records))))


def test_what_is_missing_is_counted(smoke: Callable[[str], Path]) -> None:
    full = read_results(smoke("mnist"))
    assert run_count(full) == "10 runs"
    part = Results(full.experiment, (dead(full.records[0]), *full.records[1:4]))
    assert run_count(part) == "4 of 10 runs, 1 of them diverged"


def test_every_machine_and_commit_is_named(smoke: Callable[[str], Path]) -> None:
    full = read_results(smoke("mnist"))
    *rest, last = full.records
    other = last.made_with | {"device": "NVIDIA H200", "commit": "0123456789abcdef"}
    moved = dataclasses.replace(last, made_with=other)
    line = made_with(Results(full.experiment, (*rest, moved)))
    assert "on NVIDIA H200 and cpu; " in line
    assert "commit 0123456789ab" in line
