"""The four experiments of ``dessl demo``, and their results.

harm        usual and debiased SSL on two overlapping classes with a known posterior
gain        ``dessl fit`` with its defaults on digits with few labels
bad_advice  the same labels, and a teacher that answers at random
interval    the accuracy from few test labels, compared with that from all
"""

import dataclasses
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import torch
from torch import Tensor

from dessl import _checks
from dessl._entries import EntryError, read_as, read_toml
from dessl.data import SemiData, load
from dessl.evaluation import compare_models, estimate_metric
from dessl.evaluation.debiased.proxies import MetricName
from dessl.evaluation.verdict import OVER_ROWS, Comparison
from dessl.recipes import recipe_for
from dessl.recipes.split import split
from dessl.recipes.trial import Trial, run_trial
from dessl.results.trial import TWIN
from dessl.risk import COMPLETE_CASE
from dessl.teachers import Answers, NetworkSetting, PoolReport, relative_slope
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.debiased_student import debiased_lessons
from dessl.teachers.fold_networks import Lesson, ensemble_log_p
from dessl.teachers.school import School
from dessl_paper.toy_training import ToyPlan, trained_toy, warm_start

TERM = "pseudo_label"  # of the toy example
TRUTH = 0.25  # its p(1|x) on [1, 3]
THINNED = 4  # every fourth point of the toy's grid is drawn
ALONE, GUARDED, BELIEVED = "labels alone", "dessl with the teacher", "believing the teacher"
METRIC: MetricName = "accuracy"


@dataclass(frozen=True)
class HarmPlan:
    """Settings of the toy example, as :class:`ToyPlan` has them."""

    n_labelled: int
    n_unlabelled: int
    threshold: float
    learning_rate: float
    batch: int
    warm_steps: int
    steps: int


@dataclass(frozen=True)
class GainPlan:
    """A data set of the catalogue that has a test part, and how many labels are kept."""

    data: str
    labels: int


@dataclass(frozen=True)
class AdvicePlan:
    """How often the teacher is right whose λ is shown for comparison."""

    right: float


@dataclass(frozen=True)
class IntervalPlan:
    """How many test labels are known, how often they are drawn, and the nominal coverage."""

    labels: int
    draws: int
    confidence: float


@dataclass(frozen=True)
class DemoPlan:
    """The contents of ``demo.toml``; ``most_steps`` limits every training run, for a quick try."""

    title: str
    notes: tuple[str, ...]
    seed: int
    harm: HarmPlan
    gain: GainPlan
    bad_advice: AdvicePlan
    interval: IntervalPlan
    most_steps: int | None = None

    def __post_init__(self) -> None:
        """Reject numbers out of range."""
        _checks.whole_number("seed", self.seed)
        _checks.whole_number("gain.labels", self.gain.labels, low=1)
        _checks.number("bad_advice.right", self.bad_advice.right, low=0, high=1)
        _checks.whole_number("interval.labels", self.interval.labels, low=3)
        _checks.whole_number("interval.draws", self.interval.draws, low=1)

    def at_most(self, steps: int) -> int:
        """A number of steps, limited to ``most_steps`` if given."""
        return steps if self.most_steps is None else min(steps, self.most_steps)


def demo_plan(*, seed: int | None = None, most_steps: int | None = None) -> DemoPlan:
    """Read ``demo.toml``, with another seed or fewer steps where given.

    >>> demo_plan().gain
    GainPlan(data='digits', labels=100)
    """
    file = resources.files("dessl_paper") / "experiments" / "demo.toml"
    entries = read_toml(file)
    if seed is not None:
        entries["seed"] = seed
    try:
        return read_as(DemoPlan, {**entries, "most_steps": most_steps}, source=file.name)
    except EntryError:
        raise
    except ValueError as error:  # a number out of range
        raise EntryError(f"{file.name}: {error}") from error


@dataclass(frozen=True)
class Score:
    """The accuracy of one model on the test rows, with its interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Harm:
    """The results of the toy example.

    Attributes:
        truth: The true p(1|x) where the classes overlap.
        means: The mean posterior of each method there.
        grid: Points x.
        true_curve: p(1|x) there.
        curves: Each method's posterior there.
        labelled: Points with a label.
        unlabelled: Points without one.
    """

    truth: float
    means: dict[str, float]
    grid: tuple[float, ...]
    true_curve: tuple[float, ...]
    curves: dict[str, tuple[float, ...]]
    labelled: int
    unlabelled: int


@dataclass(frozen=True)
class Gained:
    """The results of ``dessl fit``.

    Attributes:
        scores: Scores of the complete case and of the model.
        difference: The model minus the complete case.
        labelled: Number of labels that were kept.
        unlabelled: Number of rows without one.
        pool: The weights of its members, and the gain from the unlabelled rows.
    """

    scores: tuple[Score, ...]
    difference: Comparison
    labelled: int
    unlabelled: int
    pool: PoolReport | None


@dataclass(frozen=True)
class Advice:
    """The effect of a teacher that answers at random.

    Attributes:
        teacher: Its accuracy on the labelled rows.
        lam: λ that dessl gave it, one for each fold.
        right: How often the other teacher is right.
        lam_of_right: λ that dessl would give the other teacher.
        scores: Scores of labels alone, of dessl with the teacher, and of trusting it.
        differences: The last two minus labels alone.
        same: Whether dessl's predictions are bit for bit those of labels alone.
    """

    teacher: Score
    lam: tuple[float, ...]
    right: float
    lam_of_right: tuple[float, ...]
    scores: tuple[Score, ...]
    differences: tuple[Comparison, ...]
    same: bool


@dataclass(frozen=True)
class Drawn:
    """The accuracy from one choice of known test labels; ``alone`` uses these labels only."""

    value: float
    low: float
    high: float
    alone_low: float
    alone_high: float


@dataclass(frozen=True)
class Intervals:
    """The accuracy from few test labels, one entry for each choice of them.

    Attributes:
        truth: The accuracy from the labels of all test rows.
        labels: How many of them are known.
        rows: Number of test rows.
        confidence: Nominal coverage.
        draws: One for each choice; the text quotes the first.
    """

    truth: float
    labels: int
    rows: int
    confidence: float
    draws: tuple[Drawn, ...] = field(default_factory=tuple)

    @property
    def covered(self) -> int:
        """How many of the intervals contain the truth."""
        return sum(one.low <= self.truth <= one.high for one in self.draws)


@dataclass(frozen=True)
class DemoFacts:
    """Everything that the page of ``dessl demo`` shows; ``demo.json`` in its folder.

    Attributes:
        plan: The settings.
        harm: Results of the first part.
        gain: Results of the second.
        advice: Results of the third.
        intervals: Results of the fourth.
        command: The command line.
        made_with: ``machine_facts()``.
        seconds: Time taken by each part.
        processor_seconds: Processor time of each part: on a busy machine, much less.
        warnings: Warnings shown during the run.
    """

    plan: DemoPlan
    harm: Harm
    gain: Gained
    advice: Advice
    intervals: Intervals
    command: str
    made_with: dict[str, Any]
    seconds: dict[str, float]
    processor_seconds: dict[str, float]
    warnings: tuple[str, ...] = ()


def harm(plan: DemoPlan) -> Harm:
    """Train the complete case, usual and debiased pseudo-labels from the same warm start."""
    own = dataclasses.asdict(plan.harm)
    own |= {name: plan.at_most(own[name]) for name in ("warm_steps", "steps")}
    toy = ToyPlan(**own, seed=plan.seed, record_every=own["steps"])
    start = warm_start(toy)
    runs = {risk: trained_toy(start, risk, TERM) for risk in (COMPLETE_CASE, "ssl", "debiased")}
    first = runs["ssl"]
    return Harm(
        TRUTH,
        {risk: run.overlap_posterior for risk, run in runs.items()},
        _thinned(first.grid),
        _thinned(first.truth),
        {risk: _thinned(run.posterior) for risk, run in runs.items()},
        toy.n_labelled,
        toy.n_unlabelled,
    )


def _thinned(values: Tensor) -> tuple[float, ...]:
    return tuple(round(value, 5) for value in values[::THINNED].double().tolist())


def gain(plan: DemoPlan) -> Trial:
    """Do what ``dessl fit digits --labels 100`` does: its split, recipe and trial."""
    train, test, _ = split(load(plan.gain.data), labels=plan.gain.labels, seed=plan.seed)
    recipe = recipe_for(train, seed=plan.seed, steps=plan.most_steps)
    return run_trial(train, test, recipe, progress=False)


def gained(trial: Trial) -> Gained:
    """The accuracies of a trial's two models on its test rows, and their difference."""
    p, twin, y = trial.logits.softmax(1), trial.twin_logits.softmax(1), trial.test.y
    name = "dessl fit"
    scores = (scored(TWIN, twin, y), scored(name, p, y))
    data = trial.data
    difference = _compared(name, p, twin, y, TWIN)
    return Gained(scores, difference, data.n_labelled, data.n_unlabelled, trial.fitted.pool)


def scored(name: str, p: Tensor, y: Tensor) -> Score:
    """The accuracy of probabilities (n, classes) with its interval."""
    found = estimate_metric(METRIC, p, y)
    return Score(name, found.value, found.low, found.high)


def bad_advice(plan: DemoPlan, trial: Trial) -> Advice:
    """Train on the rows of a trial with answers that are right, but for other rows.

    All three students of a fold have the same initial weights and draws.
    """
    data, truth = trial.data, load(plan.gain.data).y
    rows = SemiData(_pixels(data.x), data.y, class_names=data.class_names)
    source = torch.Generator().manual_seed(plan.seed)
    shuffled = truth[torch.randperm(len(truth), generator=source)]
    names, usual = data.class_names, NetworkSetting()
    setting = dataclasses.replace(
        usual, steps=plan.at_most(usual.steps), student_steps=plan.at_most(usual.student_steps)
    )
    school = School.of(rows, Answers(shuffled, len(names), "shuffled"), setting, plan.seed)
    guarded, lams = debiased_lessons(school)
    full, _ = debiased_lessons(school, lam=1.0)
    lessons = {
        ALONE: debiased_lessons(school, lam=0.0)[0],
        GUARDED: guarded,
        BELIEVED: [lesson._replace(risk="ssl") for lesson in full],
    }
    x = _pixels(trial.test.x)
    p = {name: _predicted(school, its, x) for name, its in lessons.items()}
    y, gold = trial.test.y, rows.labelled_rows
    return Advice(
        scored("shuffled teacher", torch.eye(len(names))[shuffled[gold]], truth[gold]),
        tuple(lams[:, 0].tolist()),
        plan.bad_advice.right,
        _slopes(school, _mostly_right(truth[gold], len(names), plan, source)),
        tuple(scored(name, its, y) for name, its in p.items()),
        tuple(_compared(name, p[name], p[ALONE], y) for name in (GUARDED, BELIEVED)),
        torch.equal(p[GUARDED], p[ALONE]),
    )


def _pixels(x: Tensor) -> Tensor:
    return x.flatten(1).float()


def _predicted(school: School, lessons: list[Lesson], x: Tensor) -> Tensor:
    networks = [one.network for one in school.students(lessons)]
    return ensemble_log_p(networks, school.space(x)).exp()


def _mostly_right(y: Tensor, classes: int, plan: DemoPlan, source: torch.Generator) -> Tensor:
    """Answers to gold rows, right with a given probability, else any other class."""
    other = (y + torch.randint(1, classes, y.shape, generator=source)) % classes
    right = torch.rand(y.shape, generator=source) < plan.bad_advice.right
    return torch.eye(classes)[torch.where(right, y, other)]


def _slopes(school: School, answers: Tensor) -> tuple[float, ...]:
    """λ for other answers to the gold rows, one for each fold, computed as for the lessons."""
    gold, found = school.networks.gold, []
    for fold in range(FOLDS):
        rows = gold.outside(fold)
        p = school.networks.out_of_fold_without(fold)[rows].exp()
        its = relative_slope(p, answers[None, rows], gold.y[rows], n_unlabelled=len(school.x_pool))
        found.append(float(its.lam.sum()))
    return tuple(found)


def _compared(name: str, p: Tensor, other: Tensor, y: Tensor, against: str = ALONE) -> Comparison:
    found = compare_models(METRIC, p, other, y)
    return Comparison(
        METRIC, name, against, found.difference, found.low, found.high, found.p_value,
        found.confidence, OVER_ROWS, found.n_labelled,
    )  # fmt: skip


def intervals(plan: DemoPlan, trial: Trial) -> Intervals:
    """Estimate the accuracy of a trial's model from random choices of few test labels."""
    p, y = trial.logits.softmax(1), trial.test.y
    own = plan.interval
    source = torch.Generator().manual_seed(plan.seed)
    draws = []
    for _ in range(own.draws):
        order = torch.randperm(len(y), generator=source)
        known, rest = order[: own.labels], order[own.labels :]
        found = estimate_metric(METRIC, p[known], y[known], p[rest], confidence=own.confidence)
        alone = found.labelled_only
        draws.append(Drawn(found.value, found.low, found.high, alone.low, alone.high))
    truth = float((p.argmax(1) == y).double().mean())
    return Intervals(truth, own.labels, len(y), own.confidence, tuple(draws))
