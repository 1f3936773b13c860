"""The example with Ray: Ray Train and Ray Tune train, and resume, what dessl trains alone."""

import runpy
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dessl.training import TrainResult, train

pytestmark = [
    pytest.mark.slow,  # starts Ray; tests/training/test_ranks.py trains on several ranks without it
    pytest.mark.skipif(not find_spec("ray"), reason="no ray"),
    pytest.mark.enable_socket,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield runpy.run_path(str(Path(__file__).parents[1] / "examples" / "with_ray.py"))
        ray.shutdown()


def alone(example: dict[str, Any], surrogate: str, lam: float, **more: Any) -> TrainResult:
    plan = replace(example["PLAN"], lam=lam)
    return train(
        example["network"], surrogate, example["make_data"](), plan, progress=False, **more
    )


def test_two_workers_of_ray_train_end_where_one_process_does(
    example: dict[str, Any], tmp_path: Path
) -> None:
    found = example["train_on_workers"](tmp_path)
    expected = alone(example, "fixmatch", 0.5).history[-1].validation
    assert found["cross_entropy"] == pytest.approx(expected["cross_entropy"], abs=1e-4)
    assert found["accuracy"] == pytest.approx(expected["accuracy"], abs=0.011)  # a row of 100


class StoppedError(Exception):
    pass


def stop(event: Any) -> None:
    if event.step == 20:
        raise StoppedError


def test_a_grid_of_ray_tune_resumes_what_there_is(example: dict[str, Any], tmp_path: Path) -> None:
    from ray.tune import grid_search

    example["GRID"]["seed"] = grid_search([0])
    grid = tmp_path / "grid"
    with pytest.raises(StoppedError):
        alone(example, "entropy", 0.1, out=grid / "entropy-0.1-0", callbacks=[stop])
    alone(example, "entropy", 0.5, out=grid / "entropy-0.5-0")
    finished = {file: file.stat().st_mtime_ns for file in (grid / "entropy-0.5-0").rglob("*.pt")}
    begun = len((grid / "entropy-0.1-0" / "history.jsonl").read_text().splitlines())
    assert finished
    assert begun == 1

    table = example["tune_grid"](tmp_path).set_index(["config/surrogate", "config/lam"])
    assert sorted(table.index) == [
        (surrogate, lam) for surrogate in ("entropy", "fixmatch") for lam in (0.1, 0.5)
    ]
    for surrogate, lam in table.index:
        expected = alone(example, surrogate, lam).history[-1].validation["cross_entropy"]
        assert table.loc[(surrogate, lam), "cross_entropy"] == expected
        lines = (grid / f"{surrogate}-{lam}-0" / "history.jsonl").read_text().splitlines()
        assert len(lines) == 3
    assert {file: file.stat().st_mtime_ns for file in finished} == finished
