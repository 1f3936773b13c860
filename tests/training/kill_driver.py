"""Train a small job in processes that are killed at random moments, and compare how they end.

    python kill_driver.py FOLDER KILLS

Each process is a fork of this one, which has run no computation itself. A job that ends before its
kill is compared with the unbroken one, and the next one begins in a folder of its own.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import torch
import torch._dynamo  # which every optimiser imports at its first step: once here, not in each fork
from torch import nn

from dessl import SemiData
from dessl.surrogates import Combine, FixMatch, MeanTeacher
from dessl.training import TrainPlan, train

PLAN = TrainPlan(
    steps=48,
    labelled_batch=8,
    unlabelled_batch=24,
    learning_rate=0.05,
    lam=0.4,
    schedule="cosine",
    ramp="ramp",
    ema=0.9,
    select="cross_entropy",
    evaluate_every=3,
    seed=5,
)


def job(out: Path) -> None:
    """Train to the end and leave the final weights."""
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (160,), generator=generator)
    x = torch.randn(160, 4, generator=generator) + 1.5 * y[:, None]
    labels = torch.where(torch.arange(120) < 20, y[:120], -1)
    data = SemiData(x[:120], labels, validation=(x[120:], y[120:]))
    surrogate = Combine([FixMatch(0.6), MeanTeacher()], weights=[1.0, 0.5])

    def model() -> nn.Module:
        return nn.Sequential(
            nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2)
        )

    result = train(model, surrogate, data, PLAN, out=out, progress=False)
    save_file(result.model.state_dict(), out / "final.safetensors")


def started(out: Path) -> int:
    """The number of a process that runs the job."""
    out.mkdir(exist_ok=True)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            job(out)
            code = 0
        finally:  # a failure is printed by the interpreter's hook, and the fork ends here
            if code:
                sys.excepthook(*sys.exc_info())
            os._exit(code)
    return process


def ended(process: int) -> bool:
    """Whether a process, now over, came to its own end."""
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status):
        sys.exit("a resumed job failed")
    return True


def alike(out: Path, unbroken: Path) -> bool:
    """Whether weights are the same bits and histories the same lines, but for the clock."""

    def lines(folder: Path) -> list[dict[str, object]]:
        text = (folder / "history.jsonl").read_text()
        read = [json.loads(line) for line in text.splitlines()]
        return [{k: v for k, v in line.items() if k != "steps_per_second"} for line in read]

    final = [(folder / "final.safetensors").read_bytes() for folder in (out, unbroken)]
    return final[0] == final[1] and lines(out) == lines(unbroken)


def main(folder: Path, kills: int) -> None:
    """Kill so many times, then let the last job end."""
    unbroken = folder / "unbroken"
    began = time.monotonic()
    ended(started(unbroken))
    seconds = time.monotonic() - began
    chance = random.Random(0)
    killed = finished = identical = 0
    while killed < kills or not finished:
        out = folder / f"run-{finished}"
        process = started(out)
        if killed < kills:
            time.sleep(chance.uniform(0, seconds / 2))
            os.kill(process, signal.SIGKILL)
        if ended(process):
            identical += alike(out, unbroken)
            finished += 1
        else:
            killed += 1
    print(json.dumps({"kills": killed, "finished": finished, "identical": identical}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
