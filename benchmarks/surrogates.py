"""Every surrogate on real digits with 100 labels: usual and debiased, against the complete case.

scikit-learn's 8 × 8 digits, 1,437 training and 360 test rows. 100 labels are drawn completely at
random; a network 64-256-256-10 with dropout is trained on 80 of them, and 20 are used to select the
step (lowest validation cross-entropy). Each run is compared with a complete-case run with the same
seed, labels and views, so that the difference is the effect of H. The test rows are used once, at
the end of a run. λ was fixed in advance for each method, the same for both risks.

    PYTHONPATH=src python benchmarks/surrogates.py --out results/surrogates-digits
    PYTHONPATH=src python benchmarks/surrogates.py --smoke     # a few steps of a few methods
"""

import argparse
import copy
import json
import math
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dessl.augment import Strong, Weak
from dessl.data import Batches, SemiData, draw_labels, load
from dessl.evaluation import evaluate
from dessl.models import MLP
from dessl.objective import RiskKind, objective
from dessl.surrogates import SURROGATES, Entropy, FixMatch, Rows, Surrogate
from machine import cores, machine
from surrogates_table import table

N_LABELLED, N_VALIDATION, SEEDS = 100, 20, 5
SCALE = {"mean": 0.3, "std": 0.38}  # of the digits' levels in [0, 1]
PLAIN = Weak(flip=False, shift=0, **SCALE)
WEAK = Weak(flip=False, shift=1, **SCALE)
STRONG = Strong(flip=False, shift=1, **SCALE)
BOTH = {"weak": WEAK, "strong": STRONG}


class Method(NamedTuple):
    """How a surrogate is built, its λ, and the views that its L sees."""

    lam: float
    views: str
    options: dict[str, Any]


class Setting(NamedTuple):
    """How long and how wide to train."""

    steps: int = 300
    labelled: int = 32
    unlabelled: int = 96
    ramp: int = 50  # steps over which λ grows from zero
    look: int = 25  # steps between two looks at the validation rows
    lr: float = 2e-3


METHODS = {
    "entropy": Method(0.3, "plain", {"view": PLAIN}),
    "pseudo_label": Method(0.5, "plain", {"view": PLAIN}),
    "ups": Method(0.5, "plain", {"view": PLAIN}),
    "uda": Method(0.5, "weak, strong", BOTH),
    "fixmatch": Method(0.5, "weak, strong", BOTH),
    "fixmatch_star": Method(0.5, "weak", BOTH),
    "flexmatch": Method(0.5, "weak, strong", BOTH),
    "freematch": Method(0.5, "weak, strong", BOTH),
    "softmatch": Method(0.5, "weak, strong", BOTH),
    "mixmatch": Method(5.0, "weak", {"view": WEAK}),
    "remixmatch": Method(0.5, "weak, strong", BOTH),
    "pi_model": Method(1.0, "weak", {"view": WEAK}),
    "mean_teacher": Method(1.0, "weak", {"view": WEAK, "decay": 0.95}),
    "temporal_ensembling": Method(1.0, "weak", {"view": WEAK}),
    "vat": Method(0.3, "plain", {"view": PLAIN, "epsilon": 2.0}),
    "vat_entropy": Method(0.3, "plain", {"view": PLAIN, "epsilon": 2.0}),
    "ict": Method(1.0, "plain", {"view": PLAIN, "decay": 0.95}),
    "teacher": Method(0.5, "plain", {"view": PLAIN}),
    "combine": Method(0.3, "weak", {"weights": (1.0, 3.0)}),  # entropy and Mean Teacher
    "smooth": Method(0.5, "weak", {"epsilon": 0.1}),  # of FixMatch*
}


@dataclass(frozen=True)
class Result:
    """One run: what it was, and what the kept model is worth on the test rows."""

    method: str
    risk: str
    views: str
    seed: int
    lam: float
    kept_step: int
    finite: bool
    accuracy: float
    cross_entropy: float
    ece: float


def built(name: str, data: SemiData, seed: int) -> Surrogate:
    """The surrogate of a method, for these data."""
    kind, options = SURROGATES[name], dict(METHODS[name].options)
    if name == "teacher":
        return kind(cross_fitted(data, seed), seed=seed, **options)
    if name == "combine":
        average = SURROGATES["mean_teacher"](view=WEAK, decay=0.95, seed=seed + 1)
        return kind([Entropy(view=WEAK, seed=seed), average], **options)
    if name == "smooth":
        threshold = 0.9 * 0.95 + 0.1 / 10  # 0.95 on the unsmoothed confidence
        return kind(SURROGATES["fixmatch_star"](threshold, **BOTH, seed=seed), **options)
    return kind(seed=seed, **options)


def complete_case(views: str, seed: int) -> Surrogate:
    """A surrogate whose L sees these views; its H is not used."""
    if views == "weak, strong":
        return FixMatch(**BOTH, seed=seed)
    return Entropy(view=PLAIN if views == "plain" else WEAK, seed=seed)


def cross_fitted(data: SemiData, seed: int, folds: int = 5) -> "np.ndarray[Any, Any]":
    """Soft labels (n_rows, classes) from logistic regressions that never saw the row's label.

    Every row, labelled or not, is randomly assigned to a fold and predicted by a model trained on
    the labels of the other folds, so that labelled and unlabelled rows have the same kind of
    teacher.
    """
    from sklearn.linear_model import LogisticRegression

    x, y = data.x.flatten(1).numpy() / 255, data.y.numpy()
    fold = np.random.default_rng(seed).integers(folds, size=len(x))
    table = np.zeros((len(x), data.n_classes))
    known = np.zeros(len(x), dtype=bool)
    known[data.labelled_rows.numpy()] = True
    for number in range(folds):
        use = known & (fold != number)
        fitted = LogisticRegression(max_iter=500).fit(x[use], y[use])
        columns = table[:, fitted.classes_]  # a class without a label here keeps probability 0
        columns[fold == number] = fitted.predict_proba(x[fold == number])
        table[:, fitted.classes_] = columns
    return table


def shown(x: Tensor) -> Tensor:
    """What a model sees of rows at evaluation."""
    return PLAIN(x, torch.Generator())


def trained(
    surrogate: Surrogate, data: SemiData, risk: RiskKind, lam: float, seed: int, setting: Setting
) -> tuple[nn.Module, int, bool]:
    """Train; give the model of the best step on validation rows, that step, and finiteness."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), MLP(64, 10, hidden=(256, 256), dropout=0.3))
    surrogate.prepare(model, len(data), data.n_classes)
    surrogate.draws_from(data.ids[torch.cat([data.labelled_rows, data.unlabelled_rows])])
    alone = risk == "complete_case"
    batches = Batches(data, setting.labelled, 0 if alone else setting.unlabelled, seed=seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=setting.lr, weight_decay=1e-2)
    best, kept, kept_step, finite = math.inf, copy.deepcopy(model), 0, True
    for step in range(1, setting.steps + 1):
        batch = next(batches)
        rows = Rows(
            torch.cat([batch.x_labelled, batch.x_unlabelled]),
            torch.cat([batch.ids_labelled, batch.ids_unlabelled]),
        )
        scores = surrogate(model, rows)
        value = objective(scores, batch.y, lam * min(1.0, step / setting.ramp), risk=risk).value
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        surrogate.after_step(model, rows, scores)
        if step % setting.look == 0:
            finite = finite and math.isfinite(value.item())
            found = evaluate(model, *data.validation, transform=shown).cross_entropy
            if found < best:
                best, kept, kept_step = found, copy.deepcopy(model), step
    return kept, kept_step, finite


def data_of(seed: int) -> SemiData:
    """Digits with 100 labels drawn at random, 20 of them held out."""
    data = load("digits")
    generator = torch.Generator().manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class may be left out: it is chance's
        draw = draw_labels(data.y, N_LABELLED, n_validation=N_VALIDATION, generator=generator)
    return data.with_labels(draw)


class Job(NamedTuple):
    """One run: its seed, method, risk and views of L."""

    seed: int
    name: str
    risk: RiskKind
    views: str


def jobs_of(names: Sequence[str], seeds: int) -> list[Job]:
    """Every run, seed by seed: the complete cases, then each method with both risks."""
    jobs: list[tuple[str, RiskKind, str]] = [
        ("complete_case", "complete_case", views)
        for views in dict.fromkeys(METHODS[name].views for name in names)
    ]
    for name in names:
        jobs += [(name, risk, METHODS[name].views) for risk in ("ssl", "debiased")]
    return [Job(seed, *job) for seed in range(seeds) for job in jobs]


def run(job: Job, setting: Setting) -> Result:
    """Train and look at the test rows, on one core."""
    torch.set_num_threads(1)
    seed, name, risk, views = job
    data = data_of(seed)
    alone = risk == "complete_case"
    surrogate = complete_case(views, seed) if alone else built(name, data, seed)
    lam = 0.0 if alone else METHODS[name].lam
    model, step, finite = trained(surrogate, data, risk, lam, seed, setting)
    found = evaluate(model, *data.test, transform=shown)
    scores = (found.accuracy, found.cross_entropy, found.ece)
    return Result(name, risk, views, seed, lam, step, finite, *scores)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print, and write results.json and table.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for results.json and table.md")
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--smoke", action="store_true", help="two seeds, a few steps")
    options = parser.parse_args(arguments)
    setting = Setting(steps=4, ramp=2, look=2) if options.smoke else Setting()
    begin, results = time.perf_counter(), []
    jobs = jobs_of(options.only, 2 if options.smoke else SEEDS)
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(partial(run, setting=setting), jobs):
            results.append(asdict(result))
            print(
                f"{time.perf_counter() - begin:6.0f} s  seed {result.seed}  {result.method:20s}"
                f"{result.risk:14s} accuracy {result.accuracy:.3f}  ce {result.cross_entropy:.3f}",
                flush=True,
            )
    measured_on = machine(cpus=cores(), seconds=round(time.perf_counter() - begin))
    page = table(results, measured_on)
    print(page)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        report = {"machine": measured_on, "setting": setting._asdict(), "results": results}
        (options.out / "results.json").write_text(json.dumps(report, indent=1) + "\n")
        (options.out / "table.md").write_text(page)


if __name__ == "__main__":
    main()
