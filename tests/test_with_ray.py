"""The example with Ray: Ray Train and Ray Tune train, and resume, what dessl trains alone."""

import json
import runpy
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl import entropy
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


def test_ray_starts_killed_workers_again_and_the_training_resumes(
    example: dict[str, Any], tmp_path: Path
) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    network, make_data, plan = (example[name] for name in ("network", "make_data", "PLAN"))

    def killed_once(config: dict[str, str]) -> None:
        import os
        import signal

        calls, mark = 0, Path(config["out"]).with_name("killed")

        def term(logits: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += 1
            if calls == 40 and torch.distributed.get_rank() == 1 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return entropy(logits)

        train(network, term, make_data(), plan, out=config["out"], progress=False)

    TorchTrainer(
        killed_once,
        train_loop_config={"out": str(tmp_path / "one")},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=str(tmp_path / "train"), failure_config=FailureConfig(max_failures=1)
        ),
    ).fit()
    assert (tmp_path / "killed").exists()
    lines = (tmp_path / "one" / "history.jsonl").read_text().splitlines()
    found = [json.loads(line)["validation"]["cross_entropy"] for line in lines]
    history = train(network, entropy, make_data(), plan, progress=False).history
    expected = [event.validation["cross_entropy"] for event in history]
    assert found == pytest.approx(expected, abs=1e-4)


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
