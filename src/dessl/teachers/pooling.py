"""Fit a pool from data, folds and the networks' predictions; use it and save it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from dessl.augment.symmetries import NO_SYMMETRIES, Symmetries
from dessl.data import SemiData
from dessl.evaluation.debiased.compare import held_out_comparison
from dessl.evaluation.verdict import Comparison
from dessl.teachers.base import State, Teacher
from dessl.teachers.crossfit import each_out_of_fold, first_of_groups, rows_for, weighted
from dessl.teachers.evaluated import EvaluatedRows, Predict, evaluated_rows
from dessl.teachers.families import DEFAULT, members_of, members_state, named_families
from dessl.teachers.graph import forget_graphs
from dessl.teachers.patches import Patches, learnt_patches, suit_patches
from dessl.teachers.pool import ANCHOR, PoolWeights, best_of, fit_pool, losses
from dessl.teachers.report import Gain, Member, PoolReport
from dessl.teachers.rows import SomeRows, as_columns
from dessl.teachers.space import Space
from dessl.training.progress import doing

FEWEST_LABELS = 10  # held out; with fewer, no weights are fitted
ROWS_AT_ONCE = 50_000  # rows predicted at a time
TURNS = 5  # folds in which the weights are evaluated
SPREAD_ROWS = 2000  # unlabelled rows on which networks are compared with their mean
POOL_PARTS = 0.5  # time of one kind of teacher in units of a network's, for a progress bar

Scores = Mapping[str, Mapping[str, Tensor]]  # family → candidate → log-probabilities


@dataclass(frozen=True)
class Pooled:
    """A fitted pool.

    Attributes:
        weights: Weights of the anchor and the candidates.
        members: Fitted teachers with a non-zero weight, by name.
        anchor_predict: Function from rows of the data to log-probabilities (n, classes).
        columns: Function from rows of the data to the teachers' columns (n, d).
        report: Results on held-out labels; None if there were too few.
        on_features: Whether the columns are features of the anchor's network.
        compared: The Brier score against the anchor's, on held-out labels; not saved.
    """

    weights: PoolWeights
    members: Mapping[str, Teacher]
    anchor_predict: Predict
    columns: Predict
    report: PoolReport | None
    on_features: bool = False
    compared: Comparison | None = None

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, classes), float64, for rows of the data."""
        parts = []
        for block in torch.split(x, ROWS_AT_ONCE):
            found = self.of_members(block)
            if self.weights.weights[self.weights.anchor]:
                found[self.weights.anchor] = self.anchor_predict(block)
            parts.append(self.weights.combine(found))
        return torch.cat(parts)

    def of_members(self, x: Tensor) -> dict[str, Tensor]:
        """Return the log-probabilities (n, classes) of each member but the anchor, by name."""
        columns = self.columns(x).cpu()
        return {name: teacher.predict_log_proba(columns) for name, teacher in self.members.items()}

    def state(self) -> State:
        """Return everything except the anchor and the columns, for safetensors and JSON.

        Raises:
            TypeError: A member is the user's own classifier, which could be saved only with pickle.
        """
        tensors, settings = members_state(self.members)
        settings |= self.weights._asdict()
        settings["report"] = self.report and self.report.as_dict()
        settings |= {"on_features": True} if self.on_features else {}
        if isinstance(self.columns, Patches):
            tensors |= self.columns.state()
        return State(tensors, settings)

    @classmethod
    def from_state(
        cls, state: State, anchor_predict: Predict, columns: Predict | None = None
    ) -> Self:
        """Rebuild a pool around an anchor, with exactly the same predictions."""
        members = members_of(state)
        weights = PoolWeights(*(state.settings[name] for name in PoolWeights._fields))
        report = state.settings["report"] and PoolReport.from_dict(state.settings["report"])
        on_features = bool(state.settings.get("on_features"))
        columns = columns or Patches.from_state(state.tensors) or as_columns
        return cls(weights, members, anchor_predict, columns, report, on_features)


def pooled(
    data: SemiData,
    folds: Tensor,
    anchor_oof: Tensor,
    anchor_predict: Predict,
    *,
    teachers: Sequence[object] = DEFAULT,
    columns: Predict | None = None,
    groups: Tensor | None = None,
    each_anchor: Predict | None = None,
    symmetries: Symmetries = NO_SYMMETRIES,
    seed: int = 0,
) -> Pooled:
    """Cross-fit teachers on the anchor's folds, fit their weights, and refit those with a weight.

    Args:
        data: Labelled and unlabelled rows. Teachers see at most 200,000 unlabelled rows, drawn at
            random. If there is a validation part, the members are evaluated on it, and ``folds`` is
            not used.
        folds: (n_labelled,) the fold of each label; −1 for labels that were never held out.
        anchor_oof: Log-probabilities (n_labelled, classes) of each labelled row by the network that
            held it out, NaN if none did; those of the validation rows if there are any.
        anchor_predict: Function from rows of the data to log-probabilities (n, classes).
        teachers: Names in ``dessl.teachers.KINDS``, teachers, or scikit-learn classifiers.
        columns: Function from rows of the data to the teachers' columns (n, d). By default the
            flattened rows, and for images with sides of 16 pixels or more their
            :class:`dessl.teachers.patches.Patches`, unless a teacher is your own.
        groups: (n_labelled,) numbers; rows of one group, such as copies, count as one label.
        each_anchor: Function from rows of the data to log-probabilities (members, n, classes) of
            the networks whose mean ``anchor_predict`` is; ``anchor_oof`` has one of them for each
            row, which the comparison with the anchor then takes into account.
        symmetries: Of images that leave their class unchanged; patches are averaged over them.
        seed: Seed of the trees and of the draw of unlabelled rows.
    """
    if columns is None:
        columns = _columns_for(data, teachers, seed, symmetries)
    rows = evaluated_rows(data, folds, anchor_oof, groups, columns, seed)
    evaluated = rows.evaluated
    if int(evaluated.sum()) < FEWEST_LABELS:
        alone = PoolWeights({ANCHOR: 1.0}, {ANCHOR: 1.0}, ANCHOR)
        return Pooled(alone, {}, anchor_predict, columns, None)
    if isinstance(columns, Patches):
        space, rows = Space.unchanged(rows.x.shape[1]), rows.gathered()
    else:
        space = Space.of(rows.x, rows.x_u)
    families = named_families(teachers, space, seed, len(rows.y))
    scores = _scores(families, rows, rows.x_u)
    without = _without_unlabelled(families, scores, rows)
    y, counts, labels = rows.y[evaluated], rows.counts(evaluated), rows.labels(evaluated)
    chosen = _chosen(scores, y, labels, counts)
    candidates = {ANCHOR: rows.anchor[evaluated]}
    candidates |= {name: scores[family][name] for family, name in chosen.items()}
    weights = fit_pool(candidates, y, n=labels, weights=counts)
    log_p = _evaluated_log_proba(scores, rows)
    labelled = log_p if without is scores else _evaluated_log_proba(without, rows)
    report = _report(candidates, weights, log_p, labelled, rows, families)
    with doing("pool, on all labels", POOL_PARTS):
        members = _fitted(families, weights, rows)
    pool = Pooled(weights, members, anchor_predict, columns, report)
    gain = 0.0 if each_anchor is None else _ensembling(pool, each_anchor, data)
    return replace(pool, compared=_compared(log_p, rows, gain))


def _columns_for(
    data: SemiData, teachers: Sequence[object], seed: int, symmetries: Symmetries
) -> Predict:
    """Patches of images, if the teachers are ours; the flattened rows otherwise."""
    if not suit_patches(data, teachers):
        return as_columns
    with doing("pool, patches", POOL_PARTS):
        return learnt_patches(data, seed, symmetries)


def _fitted(
    families: Mapping[str, Sequence[Teacher]], weights: PoolWeights, rows: EvaluatedRows
) -> dict[str, Teacher]:
    """Fit the candidates with a weight on all labels, and release what they shared."""
    teachers = [teacher for family in families.values() for teacher in family]
    x, y, counts = rows.x, rows.y, rows.weights
    if not bool(rows.trained.all()):  # otherwise keep the same tensors, whose graph is cached
        x, y, counts = x[rows.trained], y[rows.trained], rows.counts(rows.trained)
    members = {
        teacher.name: teacher.fit(
            x, y, rows_for(teacher, x, rows.x_u), rows.n_classes, **weighted(counts)
        )
        for teacher in teachers
        if teacher.name in weights.kept
    }
    forget_graphs(teachers)
    return members


def _scores(
    families: Mapping[str, Sequence[Teacher]], rows: EvaluatedRows, x_u: Tensor | SomeRows
) -> dict[str, dict[str, Tensor]]:
    """Out-of-fold log-probabilities of the evaluated rows, by family and candidate."""
    found = {}
    for family, teachers in families.items():
        with doing(f"pool, {family}", POOL_PARTS):
            each = each_out_of_fold(
                teachers, rows.x, rows.y, x_u, rows.folds, rows.n_classes, rows.weights
            )
        found[family] = {name: log_p[rows.evaluated] for name, log_p in each.items()}
    return found


def _without_unlabelled(
    families: Mapping[str, Sequence[Teacher]], scores: Scores, rows: EvaluatedRows
) -> Scores:
    """The same from labelled rows alone, recomputed only for teachers that use unlabelled rows."""
    if not len(rows.x_u):
        return scores
    using = {
        family: teachers
        for family, teachers in families.items()
        if any(getattr(teacher, "uses_unlabelled", True) for teacher in teachers)
    }
    return {**scores, **_scores(using, rows, rows.x[:0])}


def _chosen(scores: Scores, y: Tensor, n: float, weights: Tensor | None) -> dict[str, str]:
    """The best candidate of each family."""
    return {family: best_of(candidates, y, n, weights) for family, candidates in scores.items()}


def _evaluated_log_proba(scores: Scores, rows: EvaluatedRows) -> Tensor:
    """Log-probabilities of the evaluated rows by pools chosen and fitted without their fold."""
    evaluated = rows.evaluated
    y, anchor, groups = rows.y[evaluated], rows.anchor[evaluated], rows.groups[evaluated]
    turns, numbers = rows.folds[evaluated], evaluated.nonzero()[:, 0]
    if len(torch.unique(turns)) < 2:
        turns = torch.unique(groups, return_inverse=True)[1] % TURNS
    found = torch.empty_like(anchor)
    for turn in torch.unique(turns).tolist():
        held = turns == turn
        labels, counts = rows.labels(numbers[~held]), rows.counts(numbers[~held])
        others = {f: {n: p[~held] for n, p in each.items()} for f, each in scores.items()}
        chosen = _chosen(others, y[~held], labels, counts)
        learnt = {ANCHOR: anchor[~held]} | {name: others[f][name] for f, name in chosen.items()}
        pool = fit_pool(learnt, y[~held], n=labels, weights=counts)
        asked = {ANCHOR: anchor[held]} | {n: scores[f][n][held] for f, n in chosen.items()}
        found[held] = pool.combine(asked)
    return found


def _compared(log_p: Tensor, rows: EvaluatedRows, gain: float) -> Comparison:
    """The pool against the anchor, on one row of each group."""
    evaluated = rows.evaluated
    first = first_of_groups(rows.groups[evaluated])
    pool, anchor = (part[first].softmax(-1) for part in (log_p, rows.anchor[evaluated]))
    y, counts = rows.y[evaluated][first], rows.counts(evaluated)
    chances = None if counts is None else counts[first].reciprocal()
    return held_out_comparison(
        "the pool", pool, anchor, y, gain=gain, splits=TURNS, propensity=chances
    )


@torch.no_grad()
def _ensembling(pool: Pooled, each_anchor: Predict, data: SemiData) -> float:
    """How much more the anchor's Brier score gains than the pool's by averaging its networks.

    A predictor's score is lower than that of its members by their mean squared distance from it, on
    average over labels that follow it. It is measured on unlabelled rows, which no network learnt.
    """
    in_memory = len(data.unlabelled_rows)  # others may be on disk
    numbers = data.unlabelled_rows if in_memory else data.labelled_rows
    x = data.x[numbers[:: -(-len(numbers) // SPREAD_ROWS)]]
    found, each = pool.of_members(x), each_anchor(x).double().cpu()
    weights, together = pool.weights, pool.anchor_predict(x).double().cpu()
    pools = torch.stack([weights.combine({**found, weights.anchor: one}) for one in each])
    pooled_together = weights.combine({**found, weights.anchor: together})
    return _spread(each, together) - _spread(pools, pooled_together)


def _spread(each: Tensor, together: Tensor) -> float:
    return float((each.exp() - together.exp()).square().sum(-1).mean())


def _report(
    candidates: Mapping[str, Tensor],
    weights: PoolWeights,
    log_p: Tensor,
    labelled_log_p: Tensor,
    rows: EvaluatedRows,
    families: Mapping[str, Sequence[Teacher]],
) -> PoolReport:
    y, groups = rows.y[rows.evaluated], rows.groups[rows.evaluated]
    counts = rows.counts(rows.evaluated)
    using = {
        teacher.name: len(rows.x_u) > 0 and getattr(teacher, "uses_unlabelled", True)
        for teachers in families.values()
        for teacher in teachers
    }
    alone = {name: losses(weights.exponents[name] * p, y) for name, p in candidates.items()}
    members = tuple(
        Member(
            name=name,
            weight=weights.weights[name] * weights.exponents[name],
            score=_mean(loss, counts),
            gain=Gain.of(alone[ANCHOR], loss, groups, counts),
            uses_unlabelled=using.get(name, False),
        )
        for name, loss in alone.items()
    )
    both, labelled = (losses(part, y) for part in (log_p, labelled_log_p))
    n_groups = len(torch.unique(groups))
    return PoolReport(
        n=len(groups) if rows.grouped else n_groups,  # copies of a row are one label
        members=members,
        anchor=_mean(alone[ANCHOR], counts),
        without_unlabelled=_mean(labelled, counts),
        pooled=_mean(both, counts),
        ensembling=Gain.of(alone[ANCHOR], labelled, groups, counts),
        unlabelled=Gain.of(labelled, both, groups, counts),
        total=Gain.of(alone[ANCHOR], both, groups, counts),
        n_groups=n_groups if rows.grouped else None,
    )


def _mean(losses: Tensor, weights: Tensor | None) -> float:
    return float(losses.mean() if weights is None else (weights * losses).sum() / weights.sum())
