"""Write a small file of every kind that dessl writes, as a release leaves them for later ones.

    python tests/corpus/make.py

makes ``tests/corpus/VERSION`` with the version that is installed. Make it once for each release and
never again: ``tests/test_older_versions.py`` reads the files of all of them.

people.csv        the table that ``dessl fit`` was trained on
fit/              the folder of a run, with a pool, its checkpoints and its facts
networks/         a saved model of networks alone
estimator/        what ``DeSSLClassifier.save`` wrote
taught/           the same, of a student of an outside teacher
checkpoint/       a training stopped half-way
population/       the same, of several runs trained as one
divided/          the same, of a network whose weights were divided among ranks
reproduction/     an experiment and its records
expected.json     what each of the models answered
"""

import contextlib
import json
import shutil
import sys
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from dessl import DeSSLClassifier, SemiData, TrainPlan, __version__, train
from dessl.cli.main import main
from dessl.recipes import fit as fit_recipe
from dessl.recipes import recipe_for
from dessl.saved import SavedModel, load_model, save_model

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.with_name("torture")))
from trainings import KINDS, stopped, trained  # noqa: E402

sys.path.remove(str(HERE.with_name("torture")))
PLAN = TrainPlan(
    steps=8, labelled_batch=6, unlabelled_batch=12, learning_rate=0.05, lam=0.5, ema=0.9,
    select="cross_entropy", evaluate_every=2, seed=3,
)  # fmt: skip
STOPPED_AT = 4


def table(n: int = 90) -> str:
    """A table of which two thirds are labelled."""
    chance = np.random.default_rng(0)
    rows = ["age,dose,site,outcome"]
    for row in range(n):
        sick = bool(chance.random() < 0.5)
        numbers = f"{40 + 10 * sick + 8 * chance.normal():.1f},{2 + sick + chance.normal():.2f}"
        label = ("yes" if sick else "no") if row < 2 * n // 3 else ""
        rows.append(f"{numbers},{'abc'[chance.integers(3)]},{label}")
    return "\n".join(rows) + "\n"


def rows(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes, the later half without labels (-1)."""
    chance = np.random.default_rng(1)
    y = np.arange(n) % 2
    x = chance.normal(size=(n, 3)).astype(np.float32) + 1.5 * y[:, None].astype(np.float32)
    return x, np.where(np.arange(n) < n // 2, y, -1)


def network() -> nn.Module:
    """The network of the checkpoint."""
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))


def checkpoint_data() -> SemiData:
    """The data of the checkpoint."""
    x, y = rows()
    return SemiData(x[:60], y[:60], validation=(x[:20], y[:20]))


def command(*arguments: object) -> None:
    """Run ``dessl``."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as left:
        if left.code:
            sys.exit(f"dessl {arguments[0]} ended with {left.code}")


def write_checkpoint(out: Path) -> None:
    """Train, and stop half-way as Ctrl-C does."""

    def stop(event: object) -> None:
        if event.step == STOPPED_AT:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    try:
        train(network, "pseudo_label", checkpoint_data(), PLAN, out=out, callbacks=[stop])
    except KeyboardInterrupt:
        return
    sys.exit("the training was to be stopped")


def write_stopped(kind: Literal["population", "divided"], out: Path) -> None:
    """Write the folder of another kind of training, stopped half-way."""
    for name, content in stopped(kind).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)


def write_models(out: Path) -> None:
    """Save networks, an estimator and a taught student."""
    x, y = rows()
    data = SemiData(x, y)
    recipe = recipe_for(data, steps=6, teachers=None, lam=0.5, surrogate="entropy")
    fitted = fit_recipe(data, recipe)
    saved = SavedModel(fitted.model, ("0", "1"), (3,), image=False, architecture=recipe.model)
    save_model(out / "networks", saved)
    DeSSLClassifier(steps=6, random_state=0).fit(x, y).save(out / "estimator")
    answers = np.where(np.random.default_rng(2).random(len(y)) < 0.8, np.arange(len(y)) % 2, 0)
    teacher = {"teachers": [answers], "at_prediction": True}
    DeSSLClassifier(steps=6, random_state=0).fit(x, y, **teacher).save(out / "taught")


def answers(out: Path) -> dict[str, list[list[float]]]:
    """What each model says of the first five rows, or of zeros for the model of the table."""
    x = rows()[0][:5]
    said = {name: load_model(out / name).predict_proba(x) for name in MODELS}
    for name in ("fit/model", "fit/complete-case"):
        model = load_model(out / name)
        said[name] = model.predict_proba(torch.zeros(2, *model.shape))
    return {name: proba.tolist() for name, proba in said.items()}


MODELS = ("networks", "estimator", "taught")
__all__ = ["KINDS", "trained"]  # of the stopped trainings, for the tests that resume them


def write_corpus(out: Path) -> None:
    """Write all of it."""
    out.mkdir()
    (out / "people.csv").write_text(table(), encoding="utf-8")
    with contextlib.chdir(out):  # paths are written into files
        options = {"--label": "outcome", "--out": "fit", "--steps": 6, "--networks": 1}
        command("fit", "people.csv", *chain.from_iterable(options.items()))
        command("reproduce", "toy", "--profile", "smoke", "--out", "reproduction")
    (out / "fit" / "report.html").unlink()
    write_models(out)
    write_checkpoint(out / "checkpoint")
    for kind in ("population", "divided"):
        write_stopped(kind, out / kind)
    for lock in out.rglob("lock"):
        lock.unlink()
    reproduction = out / "reproduction"
    for path in reproduction.iterdir():
        if path.name not in ("experiment.json", "runs"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    text = json.dumps({"stopped_at": STOPPED_AT, "answers": answers(out)}, indent=1)
    (out / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_corpus(HERE / __version__)
