"""Every command that writes, as a small job that a forked process runs in a folder of its own."""

import contextlib
import dataclasses
import functools
import hashlib
import http.server
import importlib.util
import io
import os
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from grammar_saved import CORPUS
from PIL import Image
from ranks import on_ranks
from safetensors.torch import save
from torch import nn
from trainings import trained

from dessl import DeSSLClassifier, SemiData, TrainPlan, train
from dessl._files import write_whole
from dessl.cli import sources
from dessl.cli.main import main
from dessl.data import DATASETS, download
from dessl.data.publishers import RemoteFile
from dessl.surrogates import Combine, FixMatch, MeanTeacher
from dessl.training.ranks import process_group
from dessl.training.stacked_runs import Population

ARCHIVE = random.Random(0).randbytes(300_000)
SERVED = "train-images.bin"


class Job(NamedTuple):
    """A job.

    Attributes:
        run: Does it, in the present folder.
        inputs: With what it begins, from the corpus of files.
        share: How often it is chosen: long ones less.
        command: Whether it is a command, which has manners when it is interrupted.
        needs: A package that may be missing; the job is left out then.
        in_python: Whether it is Python, where a rank tells by an exception that another has gone.
    """

    run: Callable[[], object]
    inputs: tuple[str, ...] = ()
    share: float = 1.0
    command: bool = True
    needs: str = "torch"
    in_python: bool = False


def estimator() -> None:
    """Fit and save, unless it is saved already."""
    chance = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = chance.normal(size=(60, 3)) + y[:, None]
    classifier = DeSSLClassifier(steps=4, teachers=None, lam=0.5, random_state=0)
    classifier.fit(x, np.where(np.arange(60) < 40, y, -1))
    with contextlib.suppress(FileExistsError):
        classifier.save("model")


def training() -> None:
    """Train a network with batch norm, an average and a chosen step; leave its weights."""
    chance = torch.Generator().manual_seed(0)
    y = torch.arange(80) % 2
    x = torch.randn(80, 4, generator=chance) + 1.5 * y[:, None]
    data = SemiData(x[:60], torch.where(torch.arange(60) < 20, y[:60], -1), validation=(x, y))
    plan = TrainPlan(
        steps=24, labelled_batch=8, unlabelled_batch=16, learning_rate=0.05, lam=0.4, ema=0.9,
        select="cross_entropy", evaluate_every=2, seed=5,
    )  # fmt: skip

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))

    surrogate = Combine([FixMatch(0.6), MeanTeacher()], weights=[1.0, 0.5])
    result = train(model, surrogate, data, plan, out="run", progress=False)
    write_whole(Path("weights.safetensors"), save(result.model.state_dict()))


def _npz() -> bytes:
    """Rows of two classes, a third of them without labels."""
    y = np.arange(90) % 2
    x = np.random.default_rng(1).normal(size=(90, 3)) + 1.2 * y[:, None]
    buffer = io.BytesIO()
    np.savez(buffer, x=x.astype(np.float32), y=np.where(np.arange(90) < 60, y, -1))
    return buffer.getvalue()


def _answers() -> bytes:
    """The table of the corpus, with the answers of a teacher who is mostly right."""
    chance = random.Random(2)
    head, *rows = (CORPUS / "people.csv").read_text().splitlines()
    lines = [f"{head},llm"]
    for row in rows:
        right = row.rpartition(",")[2] or chance.choice(("no", "yes"))
        lines.append(f"{row},{right if chance.random() < 0.8 else 'no'}")
    return "\n".join(lines).encode() + b"\n"


def divided() -> None:
    """Train a network whose weights are divided among the ranks."""
    with process_group():
        trained("divided", Path("run"))


def _picture(name: str) -> bytes:
    """An image of a class, or of none."""
    chance = random.Random(name)
    dark, *_ = "cat" in name, chance.random()
    levels = bytes(chance.randrange(90) + (0 if dark else 120) for _ in range(64))
    buffer = io.BytesIO()
    Image.frombytes("L", (8, 8), levels).save(buffer, "PNG")
    return buffer.getvalue()


COUNTS = {"cat": 12, "dog": 12, "unlabelled": 9}
PICTURES = tuple(f"pictures/{place}/{k}.png" for place, n in COUNTS.items() for k in range(n))
MADE: dict[str, Callable[[], bytes]] = {"rows.npz": _npz, "answers.csv": _answers} | {
    name: functools.partial(_picture, name) for name in PICTURES
}
FIT = ("fit", "people.csv", "--label", "outcome", "--out", "out", "--steps", "6", "--networks", "1")
ROWS = ("fit", "rows.npz", "--out", "out", "--steps", "6", "--networks", "1")
TAUGHT = ("fit", "answers.csv", "--label", "outcome", "--teacher", "llm", "--out", "out")
PLAN = ("plan", "people.csv", "--label", "outcome", "--rows", "5", "--out", "next.csv")
AUDIT = ("audit", "people.csv", "--label", "outcome", "--out", "audit.html")
RUN = ("fit", "people.csv")
DEBIASED = ("--surrogate", "entropy", "--lam", "0.5")
ON_DISK = ("fit", "pictures", "--stream", "--out", "out", "--steps", "4", "--networks", "1")
TOY = ("reproduce", "toy", "--profile", "smoke", "--out", "out")


def _job(*arguments: str, inputs: tuple[str, ...] = (), share: float, needs: str = "torch") -> Job:
    return Job(functools.partial(main, arguments), inputs, share, needs=needs)


def _ranked(*arguments: str, share: float, **more: Any) -> Job:
    """A command that two ranks share; there torchrun has the manners, and SIGKILL alone comes."""
    work = functools.partial(main, arguments)
    return Job(functools.partial(on_ranks, work), share=share, command=False, **more)


TABLE: dict[str, Any] = {"inputs": ("people.csv",), "needs": "pyarrow"}
OF_RUN: dict[str, Any] = {"inputs": RUN, "needs": "pyarrow"}
JOBS = {
    "fit": _job(*FIT, "--no-pool", **TABLE, share=2),
    "fit from disk": _job(*FIT, "--stream", "--lam", "0.5", **TABLE, share=2),
    "fit with a pool": _job(*FIT, "--pool", **TABLE, share=1),
    "fit an npz file": _job(*ROWS, "--no-pool", inputs=("rows.npz",), share=2),
    "fit with a teacher": _job(
        *TAUGHT, "--steps", "6", inputs=("answers.csv",), needs="pyarrow", share=1
    ),
    "fit with a teacher that stays": _job(
        *TAUGHT,
        "--teacher-at-prediction",
        "--steps",
        "6",
        inputs=("answers.csv",),
        needs="pyarrow",
        share=0.5,
    ),
    "fit images from disk": _job(*ON_DISK, *DEBIASED, inputs=PICTURES, share=1.5),
    "fit on two ranks": _ranked(*FIT, *DEBIASED, **TABLE, share=1.5),
    "fit spread over ranks": _ranked(*FIT[:-1], "2", "--no-pool", **TABLE, share=1.5),
    "reproduce on two ranks": _ranked(*TOY, share=0.5),
    "train divided": Job(
        functools.partial(on_ranks, divided), share=2, command=False, in_python=True
    ),
    "audit": _job(*AUDIT, **TABLE, share=2),
    "plan": _job(*PLAN, **TABLE, share=3),
    "demo": _job("demo", "--out", "out", "--steps", "2", share=0.5),
    "reproduce": _job(*TOY, share=1),
    "predict to Parquet": _job("predict", *RUN, "--out", "p.parquet", **OF_RUN, share=2),
    "predict": _job("predict", *RUN, "--out", "p.csv", **OF_RUN, share=8),
    "evaluate": _job("evaluate", *RUN, **OF_RUN, share=2),
    "export": _job("export", "fit", "--out", "model.onnx", inputs=("fit",), needs="onnx", share=1),
    "report": _job("report", "fit", inputs=("fit",), share=2),
    "datasets": _job("datasets", "fetch", "mnist", "--root", "data", share=8),
    "train": Job(training, (), 8, command=False, in_python=True),
    "estimator": Job(estimator, (), 4, command=False, in_python=True),
}


def available(job: Job) -> bool:
    """Whether the package that a job needs is installed."""
    return importlib.util.find_spec(job.needs) is not None


def prepare(job: Job, folder: Path) -> None:
    """Put the inputs of a job into its folder."""
    folder.mkdir(parents=True)
    for name in job.inputs:
        if name in MADE:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(MADE[name]())
            continue
        place = CORPUS / name
        copy = shutil.copytree if place.is_dir() else shutil.copyfile
        copy(place, folder / name)
    if "fit" in job.inputs:
        shutil.rmtree(folder / "fit" / "training")


def settle(port: int) -> None:
    """Prepare this forked process: a clock that stands still, checkpoints often, a near publisher.

    With the clock stopped, files that tell seconds are the same bits in every run.
    """
    time.perf_counter = time.process_time = lambda: 0.0  # type: ignore[assignment]
    Population.save_seconds = 0.0
    download.CHUNK = 20_000
    sources.SAMPLE = 5  # rows in memory, where the others stay on disk
    digest = hashlib.sha256(ARCHIVE).hexdigest()
    file = RemoteFile(SERVED, (f"http://127.0.0.1:{port}/{SERVED}",), f"sha256:{digest}")
    DATASETS["mnist"] = dataclasses.replace(DATASETS["mnist"], remote=(file,))


class Publisher(http.server.BaseHTTPRequestHandler):
    """Serves one file, from any byte on."""

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start >= len(ARCHIVE):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        if wanted:
            size = len(ARCHIVE)
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(len(ARCHIVE) - start))
        self.end_headers()
        with contextlib.suppress(OSError):  # who asked may be killed
            self.wfile.write(ARCHIVE[start:])

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def serve() -> tuple[int, int]:
    """Start a publisher in a process of its own; return its number and its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    server.daemon_threads = True
    process = os.fork()
    if process == 0:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        server.serve_forever()
    server.socket.close()
    return process, server.server_port
