"""Small networks that learn from gold rows and a teacher's answers, trained together.

Training is counted in steps, not in passes over the unlabelled rows: a million answers cost only
what the steps draw. Networks with the same number of rows form one population
(:func:`dessl.train_population`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dessl.data import LabelDraw, SemiData
from dessl.functional import log_probabilities
from dessl.models import MLP
from dessl.objective import RiskKind
from dessl.surrogates import Model, Rows, Scores, Surrogate
from dessl.teachers.crossfit import FOLDS, selected_by_others
from dessl.training import PopulationRun, TrainPlan, TrainResult, train_population

LARGEST_COPY = 2**27  # numbers: each student has its own copy of its rows
AT_ONCE = 2**16  # rows in a forward pass


@dataclass(frozen=True)
class NetworkSetting:
    """Size and length of the networks.

    The method was first measured with students of 200 steps and no debiased one; longer students
    gained more, and of them the debiased one of the corrected answers was sometimes ahead.

    Attributes:
        hidden: Widths of the hidden layers.
        dropout: Dropout of each hidden layer.
        steps: Steps of a gold-only network with up to 100 gold rows; more rows take more steps.
        student_steps: Steps of a student and of a network that imitates the teacher.
        unlabelled_batch: Unlabelled rows per step.
        weight_decay: Weight decay of gold-only networks.
        student_decay: Weight decay of the other networks, which see many more rows.
        debiased: Whether a second student is trained, on the debiased risk of corrected answers.
    """

    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.1
    steps: int = 200
    student_steps: int = 600
    unlabelled_batch: int = 192
    weight_decay: float = 0.5
    student_decay: float = 0.1
    debiased: bool = True

    def plan(
        self, n_labelled: int, n_unlabelled: int, *, student: bool, stopped: bool
    ) -> TrainPlan:
        """The training plan of networks with this many rows."""
        steps = self.student_steps
        if not student:  # more gold rows take longer to learn
            steps = round(self.steps * float(max(1.0, n_labelled / 100) ** 0.3))
        return TrainPlan(
            steps=steps,
            labelled_batch=min(64, max(1, n_labelled // 2)),
            unlabelled_batch=min(self.unlabelled_batch, max(1, n_unlabelled)),
            optimiser="adamw",
            learning_rate=3e-3,
            schedule="cosine",
            weight_decay=self.student_decay if student else self.weight_decay,
            evaluate_every=max(1, steps // 20),
            select="cross_entropy" if stopped else "last",
            bound="nonnegative",  # for debiased runs
        )

    def most_rows(self, width: int) -> int:
        """Number of unlabelled rows that a student can use: those its steps draw."""
        drawn = self.student_steps * self.unlabelled_batch
        return max(self.unlabelled_batch, min(drawn, LARGEST_COPY // (3 * FOLDS * width)))

    def network(self, n_features: int, n_classes: int) -> nn.Module:
        """Build one network; its weights come from PyTorch's global generator."""
        return MLP(n_features, n_classes, hidden=self.hidden, dropout=self.dropout)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can represent them."""
        return {**vars(self), "hidden": list(self.hidden)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "NetworkSetting":
        """Rebuild from the result of :meth:`as_dict`."""
        return cls(**{**settings, "hidden": tuple(settings["hidden"])})


class Lesson(NamedTuple):
    """What one network learns from, besides the rows that all share.

    Attributes:
        labelled: Row numbers of its gold rows.
        held_out: Row numbers of the gold rows that select its step.
        targets: Answers to its unlabelled rows, (n_u, classes); None for gold rows alone.
        targets_labelled: Answers to all gold rows, (n_l, classes), for the debiased risk.
        lam: λ of the unlabelled term.
        risk: ``"complete_case"``; ``"ssl"``: mean_L CE(y) + λ mean_U CE(q); or ``"debiased"``, in
            its non-negative form, since with soft answers L − λH has no lower bound.
    """

    labelled: Tensor
    held_out: Tensor
    targets: Tensor | None = None
    targets_labelled: Tensor | None = None
    lam: float = 1.0
    risk: RiskKind = "complete_case"


class Trained(NamedTuple):
    """A network, and its predictions of the rows that selected its step.

    Attributes:
        network: The network at the selected step, in evaluation mode.
        held_out: Log-probabilities (n, classes), float64, of its held-out rows, each at the step
            selected by the other ones: no label influences the prediction of its own row.
    """

    network: nn.Module
    held_out: Tensor


class GivenTargets(Surrogate):
    """Cross-entropy to targets looked up by row id, shared by the networks of a population.

    Args:
        targets: (n_rows, classes).
        source: What they were made from, by which a resumed run is recognised.
    """

    bounded_up_to = 0.0

    def __init__(self, targets: Tensor, source: str = "") -> None:
        super().__init__()
        self.targets, self.source = targets, source

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the cross-entropies (n,) and the logits (1, n, classes)."""
        logits = model(rows.x)
        # Not cross_entropy_to, which would check the same targets at every step.
        h = -(self.targets[rows.ids] * log_probabilities(logits)).sum(-1)
        return Scores(h, logits.unsqueeze(0))


def trained_networks(
    x: Tensor,
    y: Tensor,
    lessons: Sequence[Lesson],
    setting: NetworkSetting,
    *,
    n_classes: int,
    x_unlabelled: Tensor | None = None,
    seed: int = 0,
    source: str = "",
    out: Path | None = None,
) -> list[Trained]:
    """Train one network for each lesson, and return them in order.

    Args:
        x: Standardised gold rows, (n_l, features).
        y: Their labels, (n_l,).
        lessons: What each network learns from. Those with equally many rows are trained together.
        setting: Setting of the networks.
        n_classes: Number of classes.
        x_unlabelled: Standardised unlabelled rows, (n_u, features).
        seed: Seed of the first network; the others count up from it.
        source: What the targets of the lessons were made from, such as a sha256: training is not
            resumed with others.
        out: Folder for checkpoints, used to resume training; None to keep nothing.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for number, lesson in enumerate(lessons):
        groups.setdefault((len(lesson.labelled), len(lesson.held_out)), []).append(number)
    trained: dict[int, Trained] = {}
    for sizes, members in groups.items():
        its = [lessons[number] for number in members]
        data, draws, targets = _population_data(x, y, x_unlabelled, its, n_classes)
        term = GivenTargets(targets, source)
        plan = setting.plan(
            len(its[0].labelled),
            0 if x_unlabelled is None else len(x_unlabelled),
            student=x_unlabelled is not None,
            stopped=len(its[0].held_out) > 0,
        )
        runs = [
            PopulationRun(seed + number, draw, lesson.lam, lesson.risk)
            for number, draw, lesson in zip(members, draws, its, strict=True)
        ]
        results = train_population(
            lambda: setting.network(x.shape[1], n_classes),
            term,
            data,
            runs,
            plan,
            out=None if out is None else out / "-".join(map(str, sizes)),
            progress=False,
            keep_logits=True,
        )
        for number, lesson, result in zip(members, its, results, strict=True):
            trained[number] = _trained(result, x[lesson.held_out], y[lesson.held_out])
    return [trained[number] for number in range(len(lessons))]


def _trained(result: TrainResult, x: Tensor, y: Tensor) -> Trained:
    """A network with its predictions of its held-out rows x (n, features) of classes y (n,)."""
    logits = result.validation_logits
    if logits is None:  # nothing held out, or diverged before the first evaluation
        return Trained(result.model, network_log_p(result.model, x))
    return Trained(result.model, selected_by_others(logits, y))


def _population_data(
    x: Tensor, y: Tensor, x_unlabelled: Tensor | None, lessons: Sequence[Lesson], n_classes: int
) -> tuple[SemiData, list[LabelDraw], Tensor]:
    """Concatenate the rows of all networks, each with its own targets.

    A population looks up targets by row, so networks with different targets need separate rows.
    """
    names = [str(number) for number in range(n_classes)]
    none = x.new_zeros(0, n_classes)
    n = len(x)
    if x_unlabelled is None:
        rows = torch.empty(0, dtype=torch.int64)
        draws = [LabelDraw(one.labelled, one.held_out, rows) for one in lessons]
        # An unused term still needs a value for every row.
        return SemiData(x, y, class_names=names), draws, x.new_full((n, n_classes), 1 / n_classes)
    every, m = torch.cat([x, x_unlabelled]), len(x_unlabelled)
    labels = torch.cat([y, y.new_full((m,), -1)])
    pool, block, parts, draws = torch.arange(n, n + m), n + m, [none], []
    for number, lesson in enumerate(lessons):
        first = number * block
        draws.append(LabelDraw(lesson.labelled + first, lesson.held_out + first, pool + first))
        own = lesson.targets_labelled
        parts += [x.new_full((n, n_classes), 1 / n_classes) if own is None else own.to(x)]
        parts += [none if lesson.targets is None else lesson.targets.to(x)]
    copies = len(lessons)
    data = SemiData(every.repeat(copies, 1), labels.repeat(copies), class_names=names)
    return data, draws, torch.cat(parts)


@torch.no_grad()
def network_log_p(network: nn.Module, x: Tensor) -> Tensor:
    """Return log-probabilities (n, classes) of standardised rows, float64."""
    parts = [log_probabilities(network(rows).double()) for rows in torch.split(x, AT_ONCE)]
    return torch.cat(parts)


def ensemble_log_p(networks: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Return the networks' geometric mean as log-probabilities (n, classes), float64."""
    total = sum(network_log_p(network, x) for network in networks)
    return log_probabilities(torch.as_tensor(total) / len(networks))
