import dataclasses
import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def benchmark(script):
    return script("fixmatch_search")


def test_every_candidate_is_a_plan_that_holds_labels_out_and_never_sees_the_test_set(
    benchmark,
) -> None:
    from dessl_paper.specification import cells_of

    for name, changed in benchmark.CANDIDATES.items():
        experiment = benchmark.searched(name, None, smoke=False)
        (cell,) = cells_of(experiment)
        plan = cell.plan(experiment)
        assert (plan.select, plan.risk) == ("last", "debiased")
        assert plan.steps == changed.get("steps", 8_000)
        assert (experiment.data[0].labels, experiment.data[0].validation) == (4000, 1000)
        assert experiment.curve == "validation"
        wanted = changed.get("plan", {})
        assert plan == dataclasses.replace(plan, **wanted), name


def test_a_smoke_run_keeps_what_is_done(benchmark, tmp_path: Path, capsys, no_public_sets) -> None:
    runs, out = tmp_path / "runs", tmp_path / "search.json"
    with no_public_sets():
        benchmark.main(["--smoke", "--runs", str(runs), "--only", "lr-0.1"])
        first = next((runs / "lr-0.1").rglob("*seed0.json"))
        before = first.stat().st_mtime_ns
        benchmark.main(["--smoke", "--runs", str(runs), "--out", str(out)])
    assert first.stat().st_mtime_ns == before
    rows = {row["candidate"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) == {"base", "lr-0.1"}
    assert rows["lr-0.1"]["settings"]["plan"]["learning_rate"] == 0.1
    for row in rows.values():
        record = json.loads(next((runs / row["candidate"]).rglob("*seed0.json")).read_text())
        assert row["accuracy"] == record["history"][-1]["validation"]["accuracy"]
        assert row["validation_labels"] == 10
    assert capsys.readouterr().out.count("| lr-0.1 |") == 2
