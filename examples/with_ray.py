"""Ray Train for one training run on several workers, Ray Tune for a grid of runs.

    python examples/with_ray.py runs/ray

Every run has its own folder, from which dessl resumes: if you restart the script, or Ray restarts a
failed worker, finished runs are read from disk and others resume from their last checkpoint. Needs
``pip install 'dessl[ray]'``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train.torch import TorchTrainer, get_device
from ray.tune import TuneConfig, Tuner, grid_search

from dessl import SemiData, TrainPlan, train
from dessl.models import MLP

PLAN = TrainPlan(steps=60, labelled_batch=20, unlabelled_batch=60, lam=0.5, evaluate_every=20)
GRID = {
    "surrogate": grid_search(["entropy", "fixmatch"]),
    "lam": grid_search([0.1, 0.5]),
    "seed": grid_search([0, 1]),
}


def make_data() -> SemiData:
    """Return your own data here; each worker loads it once."""
    x = torch.randn(700, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + x[:, 1] > 0).long()
    labels = torch.where(torch.arange(600) < 60, y[:600], -1)
    return SemiData(x[:600], labels, validation=(x[600:], y[600:]))


def network() -> torch.nn.Module:
    """Return the network; the plan's seed determines its initial weights."""
    return MLP(4, 2, hidden=(16,), dropout=0.0)


def one_training(config: dict[str, Any]) -> None:
    """Train on all workers together, as under torchrun; Ray has created the process group."""
    data = make_data().to(get_device())
    result = train(network, "fixmatch", data, PLAN, out=config["out"], progress=False)
    ray.train.report(dict(result.history[-1].validation))  # by every worker


def train_on_workers(out: Path, workers: int = 2, *, gpu: bool = False) -> dict[str, Any]:
    """Run one training with Ray Train and return its last validation metrics."""
    trainer = TorchTrainer(
        one_training,
        train_loop_config={"out": str(out / "one")},
        scaling_config=ray.train.ScalingConfig(num_workers=workers, use_gpu=gpu),
        run_config=ray.train.RunConfig(
            storage_path=str(out / "train"),
            failure_config=ray.train.FailureConfig(max_failures=3),
        ),
    )
    trainer.fit()
    *_, last = (out / "one" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    return dict(json.loads(last)["validation"])


def one_cell(config: dict[str, Any]) -> None:
    """Train one cell of the grid; if called again, it resumes or returns immediately."""
    plan = TrainPlan.from_dict({**PLAN.as_dict(), "lam": config["lam"], "seed": config["seed"]})
    name = "{surrogate}-{lam}-{seed}".format(**config)
    out = Path(config["out"], name)
    result = train(network, config["surrogate"], make_data(), plan, out=out, progress=False)
    ray.tune.report(dict(result.history[-1].validation))


def tune_grid(out: Path, *, cpus: float = 1, gpus: float = 0) -> Any:
    """Run the grid λ × seeds × surrogates with Ray Tune; return a data frame, one row for each."""
    tuner = Tuner(
        ray.tune.with_resources(one_cell, {"cpu": cpus, "gpu": gpus}),
        param_space={**GRID, "out": str(out / "grid")},
        tune_config=TuneConfig(metric="cross_entropy", mode="min"),
        run_config=ray.tune.RunConfig(storage_path=str(out / "tune")),
    )
    return tuner.fit().get_dataframe()


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    print(train_on_workers(folder)["accuracy"])
    table = tune_grid(folder)
    print(table.groupby(["config/surrogate", "config/lam"])["cross_entropy"].mean())
