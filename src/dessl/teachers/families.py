"""The teachers by name: each a family of settings, of which the best one out of fold is kept."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from dessl.teachers.base import Saveable, State, Teacher
from dessl.teachers.boosting import Boosting
from dessl.teachers.classifiers import FromClassifier
from dessl.teachers.gaussians import COVARIANCES, MASSES, Gaussians
from dessl.teachers.graph import ALPHAS, SMOOTHINGS, Graph, SharedEdges
from dessl.teachers.kernel import KERNELS, Kernel
from dessl.teachers.linear import STRENGTHS, WHOLE_STRENGTHS, Linear
from dessl.teachers.space import Space, left_out
from dessl.teachers.sparse import SHARES, Sparse
from dessl.teachers.trees import TRIED, Trees

DEFAULT = ("graph", "linear", "trees", "kernel", "gaussians")
WITH_SPARSE = (*DEFAULT, "sparse")
MOST_ENTRIES = 2**20  # of labelled rows, for a regression on all columns: some seconds
MOST_LEFT_OUT = 0.25  # of the variance; components of pixels leave out less
KINDS: dict[str, type[Saveable]] = {
    "graph": Graph, "linear": Linear, "trees": Trees, "kernel": Kernel, "gaussians": Gaussians,
    "sparse": Sparse, "boosting": Boosting,
}  # fmt: skip


def default_teachers(x: Tensor) -> tuple[str, ...]:
    """Return the names of the teachers that are pooled by default, for rows (n, ...).

    These are ``DEFAULT``, and ``"sparse"`` as well for columns whose principal components leave out
    more than a quarter of the variance: the other regressions see nothing else.

    >>> import torch
    >>> x = torch.randn(500, 400, generator=torch.Generator().manual_seed(0))
    >>> default_teachers(x[:, :64]) == DEFAULT, default_teachers(x)[-1]
    (True, 'sparse')
    """
    return WITH_SPARSE if x.ndim == 2 and left_out(x) > MOST_LEFT_OUT else DEFAULT


def family(name: str, space: Space, seed: int, n_labelled: int) -> list[Teacher]:
    """Return the candidates of a built-in teacher, not fitted.

    Args:
        name: One of ``KINDS``.
        space: The space in which distances and slopes are measured.
        seed: Seed of the trees.
        n_labelled: Number of labelled rows: with too many, a regression on all of many columns
            would take too long.
    """
    if name == "graph":
        edges = SharedEdges(space)
        return [Graph(alpha, s, edges=edges) for alpha in ALPHAS for s in SMOOTHINGS]
    if name == "linear":
        found: list[Teacher] = [Linear(strength, space=space) for strength in STRENGTHS]
        if len(space.directions.T) and n_labelled * len(space.mean) <= MOST_ENTRIES:
            found += [Linear(strength, space=space, whole=True) for strength in WHOLE_STRENGTHS]
        return found
    if name == "sparse":
        return [Sparse(share, space=space) for share in SHARES]
    if name == "kernel":
        return [Kernel(width, strength, space=space) for width, strength in KERNELS]
    if name == "gaussians":
        return [Gaussians(c, mass, space=space) for c in COVARIANCES for mass in MASSES]
    if name == "trees":
        return [Trees(tried=tried, seed=seed) for tried in TRIED]
    if name == "boosting":
        return [Boosting(seed=seed)]
    raise _unknown(name)


def named_families(
    teachers: Sequence[object], space: Space, seed: int, n_labelled: int
) -> dict[str, list[Teacher]]:
    """Return the candidates of each requested teacher.

    Args:
        teachers: Names in ``KINDS``, teachers, or scikit-learn classifiers.
        space: Same as in :func:`family`.
        seed: Same as in :func:`family`.
        n_labelled: Same as in :func:`family`.
    """
    check_teachers(teachers)
    families: dict[str, list[Teacher]] = {}
    for teacher in teachers:
        if isinstance(teacher, str):
            families[teacher] = family(teacher, space, seed, n_labelled)
        else:
            own = _own(teacher)
            families[own.name] = [own]
    names = [candidate.name for each in families.values() for candidate in each]
    if len(families) < len(teachers) or len(set(names)) < len(names):
        raise ValueError(
            f"teachers must have different names; got {names}. Name your own classifier with "
            "dessl.teachers.FromClassifier(classifier, name=...)."
        )
    return families


def check_teachers(teachers: object, *, propensity: bool = False) -> None:
    """Refuse anything that is not a teacher, before training.

    Args:
        teachers: What the user asked for.
        propensity: Whether labels have propensities: then every teacher must accept weights.
    """
    if isinstance(teachers, str) or not isinstance(teachers, Sequence):
        raise TypeError(
            f"teachers must be a list such as ['graph', 'linear']; got {teachers!r:.60}."
        )
    for teacher in teachers:
        if isinstance(teacher, str):
            if teacher not in KINDS:
                raise _unknown(teacher)
            continue
        own = _own(teacher)
        if propensity and not _takes_weights(own):
            raise ValueError(
                f"with propensities, labels are weighted by 1/π, but the teacher {own.name!r} "
                "accepts no weights. Leave it out, or give its fit a sample_weight argument "
                "(weights for a Teacher)."
            )


def _takes_weights(teacher: Teacher) -> bool:
    if isinstance(teacher, FromClassifier):
        return teacher.takes_weights
    return "weights" in inspect.signature(teacher.fit).parameters


def _own(teacher: object) -> Teacher:
    return teacher if isinstance(teacher, Teacher) else FromClassifier(teacher)


def _unknown(name: str) -> ValueError:
    known = ", ".join(map(repr, KINDS))
    return ValueError(f"teachers must be among {known}, or teacher objects; got {name!r}.")


def members_state(members: Mapping[str, Teacher]) -> State:
    """Return the state of fitted teachers, for safetensors and JSON.

    Raises:
        TypeError: A member is the user's own classifier, which could be saved only with pickle.
    """
    tensors: dict[str, Tensor] = {}
    entries = []
    for number, (name, teacher) in enumerate(members.items()):
        kind = next((kind for kind, own in KINDS.items() if isinstance(teacher, own)), None)
        if kind is None or not isinstance(teacher, Saveable):
            raise TypeError(
                f"the pool's member {name!r} cannot be saved: a {type(teacher).__name__} would "
                "need pickle. Fit again without it, or keep the fitted object in memory."
            )
        saved = teacher.state()
        tensors |= {f"{number}.{key}": part for key, part in saved.tensors.items()}
        entries.append({"name": name, "kind": kind, "settings": saved.settings})
    return State(tensors, {"members": entries})


def members_of(state: State) -> dict[str, Any]:
    """Rebuild the teachers of :func:`members_state`, by name."""
    members: dict[str, Any] = {}
    for number, entry in enumerate(state.settings["members"]):
        start = f"{number}."
        own = {
            key.removeprefix(start): part
            for key, part in state.tensors.items()
            if key.startswith(start)
        }
        kind = KINDS[entry["kind"]]
        members[entry["name"]] = kind.from_state(State(own, entry["settings"]))
    return members
