"""What a saved classifier keeps besides its weights, in JSON's types."""

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.saved import SavedModel, SavedModelError

PLAIN = (str, int, float, bool, type(None), np.generic)
FITTED = ("lam_", "used_unlabelled_", "verdict_", "n_iter_", "n_features_in_", "history_")


class Stored(NamedTuple):
    """A saved classifier's parameters, and its fitted attributes by name."""

    params: dict[str, Any]
    fitted: dict[str, Any]


def stored_details(classifier: Any) -> dict[str, Any]:
    """Return the parameters that JSON can hold, and what fitting found.

    A surrogate or network that is an object is left out: predictions do not need it.
    """
    params = {
        name: value
        for name, value in classifier.get_params(deep=False).items()
        if isinstance(value, PLAIN)
    }
    names = getattr(classifier, "feature_names_in_", None)
    fitted = {name: getattr(classifier, name) for name in FITTED}
    details = {
        "estimator": "DeSSLClassifier",
        "params": params,
        "classes": {"kind": classifier.classes_.dtype.kind},
        "feature_names_in_": None if names is None else [str(name) for name in names],
        **fitted,
    }
    plain: dict[str, Any] = json.loads(json.dumps(details, default=_plain))
    return plain


def restored(saved: SavedModel) -> Stored:
    """Return what :func:`stored_details` kept."""
    details = saved.details
    if details.get("estimator") != "DeSSLClassifier":
        raise SavedModelError(
            "this folder has a model that was not saved by DeSSLClassifier. Read it with "
            "dessl.saved.load_model."
        )
    try:
        fitted = {name: details[name] for name in FITTED}
        fitted["classes_"] = _classes(details["classes"]["kind"], saved.class_names)
        if details["feature_names_in_"] is not None:
            fitted["feature_names_in_"] = np.array(details["feature_names_in_"], dtype=object)
        return Stored(dict(details["params"]), fitted)
    except (KeyError, TypeError, ValueError) as error:
        raise SavedModelError(
            f"the settings of this classifier are damaged: {error}. Train and save it again."
        ) from error


def _classes(kind: str, names: tuple[str, ...]) -> NDArray[Any]:
    """The classes as they were in y: numbers, truth values or text."""
    if kind == "b":
        return np.array([name == "True" for name in names])
    if kind in "iu":
        return np.array([int(name) for name in names], np.int64 if kind == "i" else np.uint64)
    if kind == "f":
        return np.array([float(name) for name in names])
    return np.array(names, dtype=object if kind == "O" else None)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
