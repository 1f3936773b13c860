"""The result of learning from a teacher's answers: a predictor, with its report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from dessl._checks import ArrayLike, quoted
from dessl.data.errors import few
from dessl.teachers.answers import Answers, answered_by_any, as_answers, is_numbered
from dessl.teachers.base import State, Teacher, checked_columns, taken_from, under
from dessl.teachers.choice import Choice
from dessl.teachers.correction import Correction, centred_log
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.families import members_of, members_state
from dessl.teachers.fold_networks import NetworkSetting, ensemble_log_p, network_log_p
from dessl.teachers.pool import mixed
from dessl.teachers.space import Space
from dessl.teachers.taught_report import TaughtReport, renewed

FORMAT = 4  # 4: answers as input are doubted
OTHERS = "others."  # before the names of the other models' tensors
GROUPS = ("complete_case", "students", "imitators")


@dataclass(frozen=True)
class Listening:
    """The parts that use a teacher's answers at prediction time, one entry per fold.

    Attributes:
        full: Corrections with D.
        plain: Corrections without D.
        confusions: Confusion of each teacher, (folds, classes, classes); None for one with
            probabilities.
    """

    full: tuple[Correction, ...]
    plain: tuple[Correction, ...]
    confusions: tuple[Tensor | None, ...]


class Evaluated(NamedTuple):
    """Log-probabilities of rows that their networks have not seen.

    Attributes:
        y: Gold labels (n,), then −1 for rows without one.
        without: (n, classes) from the model without answers: the gold-only networks, or a pool of
            them, a self-taught student and the other models.
        taught: (n, classes) from the pool with the answers. Weights of a pool are fitted without
            the row's fold.
        with_answers: The same from the pool with answers as input; None if there is no such pool.
    """

    y: Tensor
    without: Tensor
    taught: Tensor
    with_answers: Tensor | None = None


@dataclass(frozen=True)
class Taught:
    """A classifier that learnt from gold labels and a teacher's answers.

    Attributes:
        class_names: The classes in order.
        space: Transform of rows to network inputs.
        setting: Setting of the networks.
        networks: Networks by group: ``"complete_case"``, one per fold; ``"students"``, one per
            fold, kind after kind; ``"imitators"``, two per teacher.
        listening: The parts that use answers at prediction time; None if not requested.
        report: The findings and the decision.
        evaluated: Evaluation rows for reports; None after loading.
        others: The tree student and the other models with a weight in what was kept, by name.
    """

    class_names: tuple[str, ...]
    space: Space
    setting: NetworkSetting
    networks: Mapping[str, Sequence[nn.Module]]
    listening: Listening | None
    report: TaughtReport
    evaluated: Evaluated | None = None
    others: Mapping[str, Teacher] = field(default_factory=dict)

    @property
    def heard(self) -> Choice | None:
        """The decision about answers to new rows; None if they are not used."""
        choice = self.report.with_answers
        return choice if self.listening and choice and choice.kept else None

    def predict_log_proba(self, x: ArrayLike, answers: Any = None) -> Tensor:
        """Return log-probabilities (n, classes), float64.

        Args:
            x: Rows in the form used for training, (n, features).
            answers: The teachers' answers to these rows, in the form used for training, if the
                predictor uses them; without them the student predicts alone. It also predicts the
                rows that no teacher answered.
        """
        columns = checked_columns("x", x)
        rows = self.space(columns)
        gold = [network_log_p(network, rows) for network in self.networks["complete_case"]]
        read = () if answers is None else self._read(answers, len(rows))
        choice = self.heard
        if not read or choice is None:
            return self._alone(columns, rows, gold)
        answered = answered_by_any(read).to(rows.device)
        if not bool(answered.any()):
            return self._alone(columns, rows, gold)
        members = [_mean_log_p(gold), *self._students(rows), *self._corrected(gold, read)]
        alone = self._alone(columns, rows, gold)
        found = mixed(self._pooled(choice, members, columns), alone, choice.doubt)
        return torch.where(answered[:, None], found, alone)

    def _read(self, answers: Any, n: int) -> tuple[Answers, ...]:
        """The answers to n rows, one entry per teacher; some or all may be missing."""
        if self.listening is None:
            raise ValueError(
                "this student was trained without its teacher at prediction time; got answers. "
                "Fit it with at_prediction=True, or omit them."
            )
        read = self._in_order(as_answers(answers, self.class_names, n), n)
        for teacher, one, table in zip(
            self.report.teachers, read, self.listening.confusions, strict=True
        ):
            _check_form(teacher.name, one, soft=table is None)
        return read

    def _in_order(self, read: tuple[Answers, ...], n: int) -> tuple[Answers, ...]:
        """The answers in the order of the teachers of training, matched by name if possible."""
        names = [teacher.name for teacher in self.report.teachers]
        given = {one.name: one for one in read}
        if len(given) == len(read) and len({*names}) == len(names) and given.keys() <= {*names}:
            silent = [None] * n  # of a teacher that is not among those given
            return tuple(
                given[name] if name in given else Answers.of(silent, self.class_names, name=name)
                for name in names
            )
        known = few([quoted(name) for name in names])
        if len(read) != len(names):
            raise ValueError(
                f"answers of {len(names)} teachers are needed, in the order of training or by "
                f"their names, {known}; got {len(read)}."
            )
        odd = [name for name in given if name not in names and not is_numbered(name)]
        if odd and len(names) > 1:
            raise ValueError(
                f"the teachers of training were {known}; got answers of {quoted(odd[0])}. Use "
                "these names, or pass the answers in this order without names."
            )
        return read

    def _alone(self, columns: Tensor, rows: Tensor, gold: list[Tensor]) -> Tensor:
        """Log-probabilities from the student without answers."""
        choice, cc = self.report.student, _mean_log_p(gold)
        if choice.used[0] == 1 and not any(choice.used[1:]):
            return cc
        pairs = _chunks(self.networks["imitators"], 2)
        imitators = [ensemble_log_p(pair, rows) for pair in pairs]
        return self._pooled(choice, [cc, *self._students(rows), *imitators], columns)

    def _pooled(self, choice: Choice, networks: list[Tensor], columns: Tensor) -> Tensor:
        """The weighted members: predictions of the networks first, then the other models."""
        powers = torch.tensor(choice.used, dtype=torch.float64)
        total = torch.einsum("m,mnc->nc", powers[: len(networks)], torch.stack(networks))
        for name, power in zip(choice.members, choice.used, strict=True):
            if power and name in self.others:
                total = total + power * self.others[name].predict_log_proba(columns.cpu())
        return total.log_softmax(-1)

    def networks_alone(self) -> Self:
        """The same without the other models: the networks' weights get the sum of all weights."""
        kept = self.report.student
        used = [
            0.0 if n in self.others else w for n, w in zip(kept.members, kept.used, strict=True)
        ]
        share = sum(used) / sum(kept.used)
        weights = tuple(w / share for w in used) if share else (1.0, *[0.0] * (len(used) - 1))
        student = replace(kept, weights=weights, weights_without=weights)
        report = replace(self.report, student=student, with_answers=None)
        return replace(self, report=report, listening=None, others={})

    def _students(self, rows: Tensor) -> list[Tensor]:
        kinds = _chunks(self.networks["students"], FOLDS)
        return [ensemble_log_p(kind, rows) for kind in kinds]

    def _corrected(self, gold: list[Tensor], answers: Sequence[Answers]) -> list[Tensor]:
        """Log-probabilities of the corrected answers, with D and without."""
        if self.listening is None:
            raise TypeError("only a student with its teacher at prediction time corrects answers.")
        tables = self.listening.confusions
        teacher_answers = [
            torch.stack(
                [
                    centred_log(one.calibrated(None if table is None else table[fold]))
                    for one, table in zip(answers, tables, strict=True)
                ]
            )
            for fold in range(FOLDS)
        ]
        both = (self.listening.full, self.listening.plain)
        return [
            _mean_log_p([c(p, q) for c, p, q in zip(kind, gold, teacher_answers, strict=True)])
            for kind in both
        ]

    def state(self) -> State:
        """Return tensors for safetensors and settings for JSON, from which all can be rebuilt."""
        tensors = under("space", self.space)
        for group in GROUPS:
            for number, network in enumerate(self.networks[group]):
                weights = network.state_dict()
                tensors |= {f"{group}.{number}.{name}": value for name, value in weights.items()}
        soft = []
        if self.listening is not None:
            for kind in ("full", "plain"):
                for fold, one in enumerate(getattr(self.listening, kind)):
                    tensors |= {f"{kind}.{fold}.{n}": value for n, value in one.tensors().items()}
            for number, table in enumerate(self.listening.confusions):
                soft.append(table is None)
                tensors |= {} if table is None else {f"confusion.{number}": table}
        others = members_state(self.others)
        tensors |= {OTHERS + name: part for name, part in others.tensors.items()}
        settings = {
            "format": FORMAT,
            "others": others.settings["members"],
            "class_names": list(self.class_names),
            "networks": self.setting.as_dict(),
            "counts": {group: len(self.networks[group]) for group in GROUPS},
            "soft_teachers": soft if self.listening is not None else None,
            "report": self.report.as_dict(),
        }
        return State({name: part.detach().clone() for name, part in tensors.items()}, settings)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild from the result of :meth:`state`; predictions are the same."""
        tensors, settings = state
        if settings.get("format") not in range(1, FORMAT + 1):
            raise ValueError(
                f"this version reads formats 1 to {FORMAT} of a student; got "
                f"{settings.get('format')!r}. Train it again, or use the version that wrote it."
            )
        names = tuple(settings["class_names"])
        setting = NetworkSetting.from_dict(settings["networks"])
        space = taken_from(tensors, "space", Space)
        width = space.directions.shape[1] or len(space.mean)
        networks = {
            group: tuple(
                _network(setting, width, len(names), tensors, f"{group}.{number}.")
                for number in range(count)
            )
            for group, count in settings["counts"].items()
        }
        soft = settings["soft_teachers"]
        listening = None if soft is None else _listening(tensors, soft)
        found = settings["report"]
        report = TaughtReport.from_dict(renewed(found) if settings["format"] == 1 else found)
        own = {n.removeprefix(OTHERS): t for n, t in tensors.items() if n.startswith(OTHERS)}
        others = members_of(State(own, {"members": settings.get("others", [])}))
        return cls(names, space, setting, networks, listening, report, others=others)


def _check_form(name: str, answers: Answers, *, soft: bool) -> None:
    """Refuse classes of a teacher that gave probabilities in training, and the reverse."""
    if answers.is_hard != soft or not bool(answers.answered.any()):
        return
    who = f"teacher {quoted(name)}"
    if is_numbered(name):
        who = "the teacher" if name == "teacher" else name
    before, now = ("probabilities", "classes") if soft else ("classes", "probabilities")
    shape = "(n, classes)" if soft else "(n,)"
    raise ValueError(
        f"{who} gave {before} in training and {now} now. Its answers were calibrated as {before}: "
        f"pass {before} {shape}, or fit again on its {now}."
    )


def _mean_log_p(each: Sequence[Tensor]) -> Tensor:
    """The geometric mean of predictions (n, classes), normalised."""
    return torch.stack(list(each)).mean(0).log_softmax(-1)


def _chunks(networks: Sequence[nn.Module], size: int) -> list[Sequence[nn.Module]]:
    return [networks[first : first + size] for first in range(0, len(networks), size)]


def _network(
    setting: NetworkSetting, features: int, classes: int, tensors: Mapping[str, Tensor], key: str
) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # its initial weights are discarded
        network = setting.network(features, classes)
    own = {name.removeprefix(key): t for name, t in tensors.items() if name.startswith(key)}
    network.load_state_dict(own)
    return network.eval()


def _listening(tensors: Mapping[str, Tensor], soft: Sequence[bool]) -> Listening:
    def corrections(kind: str) -> tuple[Correction, ...]:
        keys = [f"{kind}.{fold}." for fold in range(FOLDS)]
        names = ("power", "trust", "matrix", "offset")
        return tuple(
            Correction.from_tensors({name: tensors[key + name] for name in names}) for key in keys
        )

    confusions = [
        None if one else tensors[f"confusion.{number}"] for number, one in enumerate(soft)
    ]
    return Listening(corrections("full"), corrections("plain"), tuple(confusions))
