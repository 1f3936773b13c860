"""DeSSLClassifier: scikit-learn's conventions, y = -1 means unlabelled."""

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import nn

from dessl import _checks
from dessl.data import SemiData
from dessl.data.features import feature_tensor
from dessl.estimator.targets import (
    UNLABELLED,
    codes_and_classes,
    given_propensity,
    labelled_accuracy,
    teachers_answers,
)
from dessl.estimator.weights import WeightedRows, weighted_rows
from dessl.objective import RiskKind
from dessl.recipes import PooledPredictor, TaughtPredictor, fit, recipe_for
from dessl.recipes.defaults import Architecture, Lam, Teachers
from dessl.safety.propensity import Propensity, propensity_of
from dessl.saved import SavedModel, SavedModelError, load_model, save_model
from dessl.surrogates import Surrogate
from dessl.teachers import NetworkSetting, TaughtReport, learn_from_answers

SEEDS = 2**31 - 1
PLAIN = (str, int, float, bool, type(None), np.generic)
FITTED = ("lam_", "used_unlabelled_", "verdict_", "n_iter_", "n_features_in_", "history_")


class DeSSLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier from few labels and many unlabelled rows.

    With its defaults it trains five small networks on the labelled rows (the complete case), each
    with another fifth of the labels held out, and pools them with teachers, of which the graph
    uses all rows, by weights that the held-out labels give (:mod:`dessl.teachers`). With a
    ``surrogate``, a number for ``lam`` or ``teachers=None`` it trains five more networks on the
    debiased risk instead, and keeps them with ``lam="auto"`` only if they are better on the
    held-out labels (:func:`dessl.recipes.fit`).

    Args:
        surrogate: The unlabelled term: a name in ``dessl.SURROGATES``, a surrogate, or a function.
            Rows are known to it by their number in X, and in X_unlabelled after that.
            ``"pseudo_label"`` where one is needed and none given.
        risk: ``"debiased"``, ``"ssl"`` (usual, biased) or ``"complete_case"``.
        lam: λ, its weight; ``"auto"`` chooses it on held-out labels, 0 where it does not help.
        teachers: To pool with the networks: names in ``dessl.teachers.KINDS``, scikit-learn
            classifiers with ``predict_proba``, teachers. ``"auto"`` is ``dessl.teachers.DEFAULT``
            for tables, embeddings and images of up to 32 pixels a side, unless ``surrogate``,
            ``risk`` or ``lam`` are given; None is no pool.
        module: A network of your own, from standardised rows (or images as the views of your
            surrogate show them) to logits: an ``nn.Module``, whose weights are where training
            begins, or a function that builds one. By default an MLP for tables and a convolutional
            network for images.
        steps: Optimiser steps of each network; by the number of labels if not given.
        members: Networks to train, 1 to 5. If not given, 5 for tables and for images of up to 16
            pixels a side (grey ones up to 32), and 1 for other images.
        device: Where to train and predict, such as ``"cuda"``.
        random_state: Of weights, batches, dropout and held-out labels.

    Attributes:
        classes_: The classes, sorted, (classes,).
        lam_: The λ of the model that was kept; 0 for the complete case.
        used_unlabelled_: Whether the model that was kept was trained with unlabelled rows.
        verdict_: What happened to the unlabelled rows, in a sentence or two.
        pool_: Each member's weight and held-out score, and what the unlabelled rows brought
            (:class:`dessl.teachers.PoolReport`); None where there is no pool.
        propensity_: The labelling probabilities that labels were weighed by, and the effective
            number of labels (:class:`dessl.safety.Propensity`); None where none were given.
        taught_: How good the teachers are, what was kept and why
            (:class:`dessl.teachers.TaughtReport`); None where no answers were given.
        history_: For each network, what each of its evaluations found, a list of dicts.
        n_iter_: Most optimiser steps of any network.
        n_features_in_: Columns of X, or channels of images.
        feature_names_in_: Names of the columns, where X had them.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> few = np.where(np.arange(len(y)) % 6 == 0, y, -1)
        >>> clf = DeSSLClassifier(random_state=0).fit(X, few)
        >>> clf.predict_proba(X).shape, bool(clf.score(X, y) > 0.9)
        ((178, 3), True)
    """

    def __init__(
        self,
        surrogate: str | Surrogate | Callable[..., torch.Tensor] | None = None,
        *,
        risk: RiskKind = "debiased",
        lam: Lam = "auto",
        teachers: Teachers = "auto",
        module: nn.Module | Callable[[], nn.Module] | None = None,
        steps: int | None = None,
        members: int | None = None,
        device: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.surrogate = surrogate
        self.risk = risk
        self.lam = lam
        self.teachers = teachers
        self.module = module
        self.steps = steps
        self.members = members
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_unlabelled: Any = None,
        propensity: Any = None,
        teachers: Any = None,
        at_prediction: bool = False,
    ) -> Self:
        """Train on labelled and unlabelled rows, or on few labels and a teacher's answers.

        Args:
            X: Numbers (n, features); or images (n, height, width), (n, height, width, channels) or
                (n, channels, height, width): uint8, or floats with channels first.
            y: (n,) labels; for an unlabelled row -1 among numbers, "" among text, and None, NaN or
                a masked entry among anything (in a NumPy array of text they are text themselves,
                and classes, with a warning).
            sample_weight: (n,) weights, labelled and unlabelled alike. A row of weight 2 counts as
                two rows, and is two in memory too; weights that are not whole multiples of one
                number make about ten copies of every row: see :mod:`dessl.estimator.weights`.
            X_unlabelled: More rows without labels, like those of X, each of weight 1.
            propensity: For labels that are not missing completely at random, the probability of
                each row to get its label, (n,), NaN where an unlabelled row's is not known; or
                ``"estimate-x"`` (it depends on X) or ``"estimate-y"`` (on the class). Labels are
                then weighed by 1/π (:mod:`dessl.safety.propensity`).
            teachers: Answers of somebody who may be wrong, such as a language model, to all rows
                of X and then of X_unlabelled: classes (n,), None where there is none, or
                probabilities (n, classes) in the order of the sorted classes; a list with one
                entry for each teacher. The student that learns from them needs no teacher, and is
                used only if labels vouch for it (:func:`dessl.teachers.learn_from_answers`).
            at_prediction: Whether the teachers will answer new rows too: see :meth:`predict_proba`.
        """
        rows = self._rows(X, reset=True)
        codes, self.classes_ = codes_and_classes(y)
        if len(codes) != len(rows):
            raise ValueError(
                "X and y must have the same number of rows; got inconsistent numbers of samples, "
                f"{len(rows)} and {len(codes)}."
            )
        _checks.unmasked("sample_weight", sample_weight)
        weights = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        if X_unlabelled is not None:
            more = self._rows(X_unlabelled, reset=False)
            if (more.dtype, more.shape[1:]) != (rows.dtype, rows.shape[1:]):
                raise ValueError(
                    f"X_unlabelled must have rows like those of X, {rows.dtype} of shape "
                    f"{rows.shape[1:]}; got {more.dtype} of shape {more.shape[1:]}. Convert them "
                    "in the same way as X."
                )
            rows = np.concatenate([rows, more])
            codes = np.concatenate([codes, np.full(len(more), UNLABELLED, np.int64)])
            weights = np.concatenate([weights, np.ones(len(more))])
        if teachers is not None:
            return self._fit_taught(rows, codes, teachers, sample_weight, at_prediction)
        if at_prediction:
            raise ValueError("at_prediction=True needs teachers=, their answers to all rows.")
        if propensity is not None and sample_weight is not None:
            raise ValueError(
                "sample_weight and propensity cannot be used together. Omit sample_weight; labels "
                "are weighed by 1/π."
            )
        return self._fit(weighted_rows(rows, codes, weights, self.classes_), propensity)

    def _fit(self, rows: WeightedRows, propensity: Any = None) -> Self:
        names = [str(name) for name in self.classes_]
        data = SemiData(rows.x, rows.codes, class_names=names, ids=rows.ids)
        self.propensity_: Propensity | None = None
        if propensity is not None:
            given = given_propensity(propensity, rows.ids, (rows.codes < 0).sum())
            self.propensity_ = propensity_of(data, given)
            data = self.propensity_.on(data)
        if self.device is not None:  # before the recipe, whose network is wider on a GPU
            data = data.to(_checks.device("device", self.device))
        recipe = recipe_for(
            data,
            surrogate=copy.deepcopy(self.surrogate),
            risk=self.risk,
            lam=self.lam,
            teachers=self.teachers,
            steps=self.steps,
            seed=int(check_random_state(self.random_state).randint(SEEDS)),
            model=self._network(),
            members=self.members,
            copies=rows.copies,
        )
        labelled = torch.from_numpy(rows.groups[rows.codes >= 0])
        fitted = fit(data, recipe, groups=labelled, progress=False)
        self.lam_ = fitted.lam
        self.used_unlabelled_ = fitted.used_unlabelled
        self.verdict_ = fitted.verdict
        self.pool_ = fitted.pool
        self.taught_: TaughtReport | None = None
        self.history_ = [
            [json.loads(event.as_line()) for event in result.history] for result in fitted.results
        ]
        self.n_iter_ = max(result.steps for result in fitted.results)
        built_in = recipe.model if isinstance(recipe.model, Architecture) else None
        self._saved = SavedModel(
            fitted.model,
            data.class_names,
            tuple(data.x.shape[1:]),
            image=data.is_image,
            architecture=built_in,
        )
        return self

    def _fit_taught(
        self,
        rows: NDArray[Any],
        codes: NDArray[np.int64],
        teachers: Any,
        sample_weight: Any,
        at_prediction: bool,
    ) -> Self:
        check_alone(self, sample_weight)
        names = tuple(str(name) for name in self.classes_)
        data = SemiData(rows, codes, class_names=names)
        setting = NetworkSetting()
        if self.steps is not None:
            setting = dataclasses.replace(setting, steps=self.steps, student_steps=self.steps)
        taught = learn_from_answers(
            data,
            teachers_answers(teachers, names),
            at_prediction=at_prediction,
            seed=int(check_random_state(self.random_state).randint(SEEDS)),
            setting=setting,
        )
        self.lam_, self.pool_, self.taught_ = 0.0, None, taught.report
        self.propensity_ = None
        self.used_unlabelled_ = taught.report.student.kept
        self.verdict_ = " ".join(str(taught.report).splitlines())
        self.history_ = []
        self.n_iter_ = taught.setting.student_steps
        self._saved = SavedModel(TaughtPredictor(taught), names, rows.shape[1:], image=False)
        return self

    def predict_proba(self, X: Any, teachers: Any = None) -> NDArray[np.float64]:
        """Return probabilities (n, classes), the classes in the order of ``classes_``.

        Args:
            X: Rows like those of :meth:`fit`.
            teachers: Answers to these rows, as :meth:`fit` took them with ``at_prediction=True``;
                without them the student answers alone.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        if teachers is not None:
            teachers = teachers_answers(teachers, self._saved.class_names)
        probabilities: NDArray[np.float64] = self._saved.predict_proba(rows, teachers).numpy()
        return probabilities

    def predict(self, X: Any, teachers: Any = None) -> NDArray[Any]:
        """Return the most probable classes, (n,); arguments as in :meth:`predict_proba`."""
        best = self.predict_proba(X, teachers).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the rows that have a label; y is read as :meth:`fit` reads it."""
        return labelled_accuracy(y, self.predict(X), sample_weight)

    def save(self, path: str | Path) -> Path:
        """Write the fitted classifier as a folder that :meth:`from_pretrained` reads."""
        check_is_fitted(self)
        saved = self._saved
        details = stored_details(self)
        return save_model(
            path,
            SavedModel(
                saved.model,
                saved.class_names,
                saved.shape,
                image=saved.image,
                architecture=saved.architecture,
                details=details,
            ),
        )

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, module: Callable[[], nn.Module] | None = None
    ) -> Self:
        """Read a classifier that :meth:`save` wrote, ready to predict.

        Args:
            path: The folder.
            module: Builds the network, where it was one of your own.
        """
        saved = load_model(path, module=module)
        stored = restored(saved)
        new = cls(**stored.params if module is None else stored.params | {"module": module})
        for name, value in stored.fitted.items():
            setattr(new, name, value)
        model = saved.model
        new.pool_ = model.pool.report if isinstance(model, PooledPredictor) else None
        new.taught_ = model.taught.report if isinstance(model, TaughtPredictor) else None
        new.propensity_ = None
        new._saved = saved
        return new

    def _network(self) -> Callable[[], nn.Module] | None:
        module = self.module
        return (lambda: copy.deepcopy(module)) if isinstance(module, nn.Module) else module

    def _rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """X as uint8 images with channels first, or as finite floats."""
        _checks.unmasked("X", X)
        images = getattr(X, "dtype", None) in (np.uint8, torch.uint8) and X.ndim > 2
        rows: NDArray[Any] = validate_data(
            self,
            feature_tensor("X", X).numpy(force=True) if images else X,
            reset=reset,
            dtype=np.uint8 if images else [np.float64, np.float32],
            order="C",
            allow_nd=True,
        )
        return rows if images else feature_tensor("X", rows).numpy()


def check_alone(classifier: Any, sample_weight: Any) -> None:
    """Refuse what has no meaning for a student of a teacher's answers."""
    if sample_weight is not None:
        raise ValueError("sample_weight cannot be used with teachers' answers. Omit it.")
    defaults = {"surrogate": None, "lam": "auto", "risk": "debiased", "module": None}
    odd = [name for name, value in defaults.items() if getattr(classifier, name) is not value
           and getattr(classifier, name) != value]  # fmt: skip
    if odd or not (classifier.teachers is None or isinstance(classifier.teachers, str)):
        raise ValueError(
            f"{', '.join(odd or ['teachers'])} of DeSSLClassifier cannot be used with teachers' "
            "answers, which have a way of their own. Leave the default."
        )


class Stored(NamedTuple):
    """A saved classifier's parameters, and its fitted attributes by name."""

    params: dict[str, Any]
    fitted: dict[str, Any]


def stored_details(classifier: Any) -> dict[str, Any]:
    """Return the parameters that JSON can hold, and what fitting found.

    A surrogate, network or teacher that is an object is left out: predictions do not need it.
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


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
