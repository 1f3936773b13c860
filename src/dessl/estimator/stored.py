"""What the folder of a saved model stores about a classifier, and how it is restored.

A folder written by :meth:`DeSSLClassifier.save` has its parameters and fitted attributes. A folder
written by ``dessl fit`` has neither: it becomes a classifier with default parameters.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.estimator.targets import class_texts
from dessl.saved import SETTINGS, SavedModel, SavedModelError

PLAIN = (str, int, float, bool, type(None), np.generic)
FITTED = ("lam_", "used_unlabelled_", "verdict_", "n_iter_", "n_features_in_", "history_")
RUN_MODEL = "model"  # in the folder of a run of dessl fit


class Stored(NamedTuple):
    """A saved classifier's parameters, and its fitted attributes by name."""

    params: dict[str, Any]
    fitted: dict[str, Any]


def model_folder(path: str | Path) -> Path:
    """Return the folder of the model: the path itself, or ``model`` in the folder of a run."""
    place = Path(path)
    inside = place / RUN_MODEL
    return inside if inside.is_dir() and not (place / SETTINGS).is_file() else place


def stored_details(classifier: Any) -> dict[str, Any]:
    """Return the parameters that JSON can represent, and the fitted attributes.

    A surrogate, network or teacher that is an object is omitted: predictions do not need it.
    """
    params = {
        name: value
        for name, value in classifier.get_params(deep=False).items()
        if isinstance(value, PLAIN) or _names(value)
    }
    names = getattr(classifier, "feature_names_in_", None)
    fitted = {name: getattr(classifier, name) for name in FITTED}
    details = {
        "estimator": "DeSSLClassifier",
        "params": params,
        "classes": {"kind": classifier.classes_.dtype.kind},
        "feature_names_in_": None if names is None else [str(name) for name in names],
        "by_name": classifier._by_name,
        **fitted,
    }
    plain: dict[str, Any] = json.loads(json.dumps(details, default=_plain))
    return plain


def restored(saved: SavedModel, known: Sequence[str]) -> Stored:
    """Return what :func:`stored_details` stored, or the same from a run of the command line.

    Args:
        saved: The model.
        known: The names of a classifier's parameters.
    """
    details = saved.details
    if details.get("estimator", "DeSSLClassifier") != "DeSSLClassifier":
        raise SavedModelError(
            "this folder has a model that was not saved by DeSSLClassifier. Read it with "
            "dessl.saved.load_model."
        )
    try:
        if "estimator" not in details:
            return Stored({}, _of_run(saved))
        fitted = {name: details[name] for name in FITTED}
        fitted["classes_"] = _classes(details["classes"]["kind"], saved.class_names)
        if details["feature_names_in_"] is not None:
            fitted["feature_names_in_"] = np.array(details["feature_names_in_"], dtype=object)
        fitted["_by_name"] = bool(details.get("by_name", False))  # not in older folders
        params = _present_names(details["params"])
        if unknown := sorted(set(params) - set(known)):
            raise ValueError(f"there is no parameter {unknown[0]!r}")
        return Stored(params, fitted)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SavedModelError(
            f"the settings of this classifier are damaged: {error}. Train and save it again."
        ) from error


def _present_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under their current names: ``networks`` was ``members`` in earlier versions."""
    return {"networks" if name == "members" else name: value for name, value in params.items()}


def _of_run(saved: SavedModel) -> dict[str, Any]:
    """The fitted attributes of a model that ``dessl fit`` trained."""
    lam = float(saved.details.get("lam", 0.0))
    fitted = {
        "lam_": lam,
        "used_unlabelled_": lam > 0 or _pool_uses_unlabelled(saved),
        "verdict_": str(saved.details.get("verdict", "")),
        "n_iter_": None,
        "n_features_in_": saved.shape[0],
        "history_": [],
        "classes_": _classes(_kind(saved.class_names), saved.class_names),
    }
    if saved.encoding is not None:
        columns = [column.name for column in saved.encoding.columns]
        fitted |= {
            "n_features_in_": len(columns),
            "feature_names_in_": np.array(columns, dtype=object),
            "_by_name": True,
        }
    return fitted


def _pool_uses_unlabelled(saved: SavedModel) -> bool:
    report = getattr(getattr(saved.model, "pool", None), "report", None)
    return report is not None and any(one.uses_unlabelled and one.weight for one in report.members)


def _kind(names: tuple[str, ...]) -> str:
    """The type of a table's classes: booleans, integers, numbers or text.

    -1 would be an unlabelled row in y: it stays text.

    >>> _kind(("False", "True")), _kind(("3", "8")), _kind(("0.5", "1")), _kind(("-1", "1"))
    ('b', 'i', 'f', 'O')
    """
    if set(names) == {"False", "True"}:
        return "b"
    if "-1" in names:
        return "O"
    for kind, read in (("i", int), ("f", float)):
        try:
            values = np.array([read(name) for name in names])
        except ValueError:
            continue
        if values.dtype.kind == kind and class_texts(values) == names:
            return kind
    return "O"


def _classes(kind: str, names: tuple[str, ...]) -> NDArray[Any]:
    """The classes as they were in y: numbers, booleans or text."""
    if kind == "b":
        return np.array([name == "True" for name in names])
    if kind in "iu":
        return np.array([int(name) for name in names], np.int64 if kind == "i" else np.uint64)
    if kind == "f":
        return np.array([float(name) for name in names])
    return np.array(names, dtype=object if kind == "O" else None)


def _names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
