"""What came of learning from a teacher's answers: a predictor, and a report in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from dessl._checks import ArrayLike
from dessl._html import GREEN, GREY, card
from dessl.teachers.answers import as_answers
from dessl.teachers.base import State, checked_columns
from dessl.teachers.correction import Correction, centred_log
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.fold_networks import NetworkSetting, ensemble_log_p, network_log_p
from dessl.teachers.space import Space

FORMAT = 2
GROUPS = ("complete_case", "students", "imitators")


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class TeacherQuality:
    """How good a teacher is, by gold rows.

    Attributes:
        name: Of the teacher.
        answered: Share of all rows that it answered.
        accuracy: Of its most likely class on gold rows that it answered, None for fewer than three;
            unlabelled rows narrow the interval where its probabilities go with its hits.
        calibration_error: Debiased expected calibration error; None for answers without
            probabilities, or too few rows.
        confidence: Its mean probability of its most likely class; None likewise.
        trust: t of the correction, mean over the folds: below 0, its answers count against.
    """

    name: str
    answered: float
    accuracy: Interval | None
    calibration_error: float | None
    confidence: float | None
    trust: float

    def __str__(self) -> str:
        words = f"{self.name}: "
        words += f"accuracy {self.accuracy}" if self.accuracy else "too few answers"
        words += " on gold rows"
        if self.confidence is not None and self.calibration_error is not None:
            words += f"; mean confidence {self.confidence:.3f}"
            words += f", calibration error {self.calibration_error:.3f}"
        if self.answered < 1:
            words += f"; it answered {self.answered:.1%} of the rows"
        return words + "."


def passes(gain: float, standard_error: float, needed: float) -> bool:
    """The gate: whether a lower loss counts.

    >>> passes(0.01, 0.02, 0.0), passes(0.01, 0.02, 1.0), passes(0.0, 0.02, 0.0)
    (True, False, False)
    """
    return gain > needed * standard_error


@dataclass(frozen=True)
class Choice:
    """Gold rows' verdict on a pool, each judged by what has not seen its label.

    No label trained what judges it, chose its step, or fitted its weights. What the answers brought
    is measured beside the best that was had without them: the gold-only networks, alone or pooled
    with a student of what they say themselves of unlabelled rows.

    Attributes:
        members: Names of the pooled predictors; the first is the gold-only one.
        weights: Exponent of each with the answers, fitted on all gold rows.
        weights_without: Exponent of each without them: 0 for all that heard a teacher.
        gold_only_loss: Out-of-fold cross-entropy of the gold-only networks.
        without_loss: Of the best without answers.
        pooled_loss: Of the pool with them.
        standard_error: Of the paired difference between the last two.
        n: Gold rows.
        needed: Standard errors by which the pool must be better.
        accuracy: Cross-fitted estimate for what was kept, from gold and unlabelled rows.
        accuracy_gold_rows: The same from gold rows alone.
    """

    members: tuple[str, ...]
    weights: tuple[float, ...]
    weights_without: tuple[float, ...]
    gold_only_loss: float
    without_loss: float
    pooled_loss: float
    standard_error: float
    n: int
    needed: float
    accuracy: Interval
    accuracy_gold_rows: Interval

    @property
    def kept(self) -> bool:
        """Whether the answers are used."""
        return passes(self.without_loss - self.pooled_loss, self.standard_error, self.needed)

    @property
    def used(self) -> tuple[float, ...]:
        """The weights of what was kept."""
        return self.weights if self.kept else self.weights_without

    @property
    def gain(self) -> Interval:
        """Fall of the cross-entropy by the answers: above 0, they help."""
        from scipy import special

        gain = self.without_loss - self.pooled_loss
        half = float(special.stdtrit(self.n - 1, 0.975)) * self.standard_error
        return Interval(gain, gain - half, gain + half)

    @property
    def why(self) -> str:
        """What the answers brought, what was kept, and what it is made of."""
        gain = self.gain
        found = (
            f"out-of-fold cross-entropy {self.without_loss:.3f} without them, "
            f"{self.pooled_loss:.3f} with them; change {-gain.value:+.3f} (95 % interval "
            f"{-gain.high:+.3f} to {-gain.low:+.3f})"
        )
        if self.kept and gain.low > 0:
            said = f"The answers help: {found}."
        elif self.kept:
            said = f"The answers are used, but the gain may be chance: {found}."
        else:
            alone = "gold labels alone are used"
            if any(self.weights_without[1:]):
                alone = "only gold labels and unlabelled rows are used"
            bar = f" by {self.needed:g} standard error" if self.needed else ""
            nothing = "brought nothing" if gain.value <= 0 else f"brought no gain{bar}"
            said = f"The answers {nothing}, so {alone}: {found}."
        counted = ", ".join(
            f"{name} {weight:.2f}"
            for name, weight in zip(self.members, self.used, strict=True)
            if weight > 0.005
        )
        return f"{said} Weights: {counted}."


@dataclass(frozen=True)
class TaughtReport:
    """What was learnt from the answers, and how it was decided.

    Attributes:
        n_gold: Gold rows.
        n_unlabelled: Rows without a gold label.
        teachers: How good each teacher is.
        student: The verdict on the student that needs no teacher.
        with_answers: The verdict on the predictor that takes answers as input, if asked for.
    """

    n_gold: int
    n_unlabelled: int
    teachers: tuple[TeacherQuality, ...]
    student: Choice
    with_answers: Choice | None

    def __str__(self) -> str:
        student = f"Without the teacher at prediction time: {self.student.why}"
        accuracy = f"Its accuracy is about {self.student.accuracy}."
        first, rest = self.about_teachers[:1], self.about_teachers[1:]
        n = len(self.teachers)
        return "\n".join([*first, *rest[:n], student, accuracy, *rest[n:]])

    @property
    def about_teachers(self) -> tuple[str, ...]:
        """Sentences on the rows, on each teacher, and on what takes its answers as input."""
        lines = [f"{self.n_gold} gold labels, {self.n_unlabelled} rows without one."]
        lines += map(str, self.teachers)
        if self.with_answers is not None:
            lines += [f"With the teacher at prediction time: {self.with_answers.why}"]
            lines += [f"Its accuracy is about {self.with_answers.accuracy}."]
        return tuple(lines)

    def _repr_html_(self) -> str:
        first, *lines = str(self).splitlines()
        return card(first, note=" ".join(lines), colour=GREEN if self.student.kept else GREY)

    def as_dict(self) -> dict[str, Any]:
        """Give the report as JSON takes it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Read what :meth:`as_dict` gave, also after a trip through JSON."""
        teachers = tuple(
            TeacherQuality(**{**one, "accuracy": one["accuracy"] and Interval(**one["accuracy"])})
            for one in found["teachers"]
        )
        more = None if found["with_answers"] is None else _choice(found["with_answers"])
        counts = (found["n_gold"], found["n_unlabelled"])
        return cls(*counts, teachers, _choice(found["student"]), more)


def _renewed(found: Mapping[str, Any]) -> dict[str, Any]:
    """The report of format 1, which compared the answers with the gold-only networks."""
    choices = {}
    for name in ("student", "with_answers"):
        choice = found[name]
        if choice is not None:
            alone = [1.0] + [0.0] * (len(choice["weights"]) - 1)
            own = {"weights_without": alone, "without_loss": choice["gold_only_loss"]}
            choice = {**choice, **own, "n": found["n_gold"]}
        choices[name] = choice
    return {**found, **choices}


def _choice(found: Mapping[str, Any]) -> Choice:
    lists = ("members", "weights", "weights_without")
    own: dict[str, Any] = {name: tuple(found[name]) for name in lists}
    own |= {name: Interval(**found[name]) for name in ("accuracy", "accuracy_gold_rows")}
    return Choice(**{**found, **own})


@dataclass(frozen=True)
class Listening:
    """What takes a teacher's answers as input, one entry for each fold.

    Attributes:
        full: Corrections with D.
        plain: Corrections without.
        confusions: Of each teacher, (folds, classes, classes); None for one of probabilities.
    """

    full: tuple[Correction, ...]
    plain: tuple[Correction, ...]
    confusions: tuple[Tensor | None, ...]


class Judged(NamedTuple):
    """Log-probabilities of rows that the networks behind them have not seen.

    Attributes:
        y: (n,) gold labels, then −1 for rows without one.
        without: (n, classes) by what is used where the answers are not: the gold-only networks,
            or a pool of them and a self-taught student.
        taught: (n, classes) by the pool with what the answers taught. Weights of a pool are fitted
            without the row's fold.
    """

    y: Tensor
    without: Tensor
    taught: Tensor


@dataclass(frozen=True)
class Taught:
    """A classifier that learnt from gold labels and a teacher's answers.

    Attributes:
        class_names: The classes in order.
        space: What the networks see of a row.
        setting: Of the networks.
        networks: By group: ``"complete_case"``, one for each fold; ``"students"``, likewise, kind
            after kind; ``"imitators"``, two for each teacher.
        listening: What takes answers at prediction time; None where that was not asked for.
        report: What was found and decided.
        judged: What it was decided by, for reports; None for one that was loaded.
    """

    class_names: tuple[str, ...]
    space: Space
    setting: NetworkSetting
    networks: Mapping[str, Sequence[nn.Module]]
    listening: Listening | None
    report: TaughtReport
    judged: Judged | None = None

    def predict_log_proba(self, x: ArrayLike, answers: Any = None) -> Tensor:
        """Return log-probabilities (n, classes), float64.

        Args:
            x: Rows as they were in training, (n, features).
            answers: The teachers' answers to these rows, as in training, for a predictor that takes
                them; without them the student answers alone.
        """
        rows = self.space(checked_columns("x", x))
        gold = [network_log_p(network, rows) for network in self.networks["complete_case"]]
        cc = torch.stack(gold).mean(0).log_softmax(-1)
        if answers is not None and self.listening is None:
            raise ValueError(
                "this student was taught to do without its teacher; got answers. Pass "
                "at_prediction=True to learn_from_answers, or omit them."
            )
        choice = self.report.student
        if answers is not None and self.report.with_answers and self.report.with_answers.kept:
            choice = self.report.with_answers
        if not any(choice.used[1:]) and choice.used[0] == 1:
            return cc
        heard = answers if choice is self.report.with_answers else None
        members = [cc, *self._others(rows, gold, heard)]
        weights = torch.tensor(choice.used, dtype=torch.float64)
        return torch.einsum("m,mnc->nc", weights, torch.stack(members)).log_softmax(-1)

    def _others(self, rows: Tensor, gold: list[Tensor], answers: Any) -> list[Tensor]:
        """Log-probabilities of the members after the first, in the order of the weights."""
        kinds = _chunks(self.networks["students"], FOLDS)
        students = [ensemble_log_p(kind, rows) for kind in kinds]
        if answers is None or self.listening is None:
            pairs = _chunks(self.networks["imitators"], 2)
            return [*students, *(ensemble_log_p(pair, rows) for pair in pairs)]
        read = as_answers(answers, self.class_names, len(rows))
        if len(read) != len(self.listening.confusions):
            raise ValueError(
                f"answers of {len(self.listening.confusions)} teachers are needed, in the order of "
                f"training; got {len(read)}."
            )
        tables = self.listening.confusions
        heard = [
            torch.stack(
                [
                    centred_log(one.calibrated(None if table is None else table[fold]))
                    for one, table in zip(read, tables, strict=True)
                ]
            )
            for fold in range(FOLDS)
        ]
        both = (self.listening.full, self.listening.plain)
        corrected = [
            torch.stack([c(p, q) for c, p, q in zip(kind, gold, heard, strict=True)])
            for kind in both
        ]
        return [*students, *(part.mean(0).log_softmax(-1) for part in corrected)]

    def state(self) -> State:
        """Return tensors for safetensors and settings for JSON, from which all can be rebuilt."""
        tensors = {f"space.{name}": part for name, part in self.space._asdict().items()}
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
        settings = {
            "format": FORMAT,
            "class_names": list(self.class_names),
            "networks": self.setting.as_dict(),
            "counts": {group: len(self.networks[group]) for group in GROUPS},
            "soft_teachers": soft if self.listening is not None else None,
            "report": self.report.as_dict(),
        }
        return State({name: part.detach().clone() for name, part in tensors.items()}, settings)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild what :meth:`state` gave; its predictions are the same."""
        tensors, settings = state
        if settings.get("format") not in (1, FORMAT):
            raise ValueError(
                f"this version reads formats 1 to {FORMAT} of a taught student; got "
                f"{settings.get('format')!r}. Train it again, or use the version that wrote it."
            )
        names = tuple(settings["class_names"])
        setting = NetworkSetting.from_dict(settings["networks"])
        space = Space(*(tensors[f"space.{name}"] for name in Space._fields))
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
        report = TaughtReport.from_dict(_renewed(found) if settings["format"] == 1 else found)
        return cls(names, space, setting, networks, listening, report)


def _chunks(networks: Sequence[nn.Module], size: int) -> list[Sequence[nn.Module]]:
    return [networks[first : first + size] for first in range(0, len(networks), size)]


def _network(
    setting: NetworkSetting, features: int, classes: int, tensors: Mapping[str, Tensor], key: str
) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # its first weights are thrown away
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
