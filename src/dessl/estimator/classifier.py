"""DeSSLClassifier: scikit-learn's conventions, y = -1 means unlabelled."""

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import nn

from dessl import _checks
from dessl.data import SemiData
from dessl.data.formats.encoding import TableEncoding
from dessl.data.parts import group_numbers
from dessl.estimator.callers import warn_of_numbered, warn_of_scored
from dessl.estimator.inputs import Inputs, new_rows
from dessl.estimator.stored import model_folder, restored, stored_details
from dessl.estimator.targets import (
    UNLABELLED,
    check_alone,
    check_predictors,
    class_texts,
    codes_and_classes,
    given_propensity,
    labelled_accuracy,
    teachers_answers,
    warn_of_order,
)
from dessl.estimator.weights import WeightedRows, weighted_rows
from dessl.export import Exported, export_model
from dessl.export.files import Format
from dessl.objective import RiskKind
from dessl.recipes import PooledPredictor, TaughtPredictor, fit, recipe_for
from dessl.recipes.architecture import Architecture
from dessl.recipes.recipe import Lam
from dessl.recipes.which_teachers import Teachers
from dessl.safety.propensity import Propensity, propensity_of
from dessl.saved import SavedModel, load_model, save_model
from dessl.surrogates import Surrogate
from dessl.teachers import Answers, NetworkSetting, TaughtReport, learn_from_answers
from dessl.teachers.answers import warn_of_chance
from dessl.training.progress import ProgressLines, part_lines

SEEDS = 2**31 - 1


class DeSSLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier from few labels and many unlabelled rows.

    By default it trains five small networks on the labelled rows (the complete case), each with a
    different fifth of the labels held out, and pools them with teachers, two of which, the graph
    and the Gaussians, use the unlabelled rows (200,000 drawn at random if there are more). The
    held-out labels give the weights (:mod:`dessl.teachers`). With a ``surrogate``, a number for
    ``lam`` or ``teachers=None`` it trains five more networks on the debiased risk instead. With
    ``lam="auto"`` these are kept only if they are better on the held-out labels
    (:func:`dessl.recipes.fit`).

    Args:
        surrogate: The unlabelled term: a name in ``dessl.SURROGATES``, a surrogate, or a function.
            A row's id is its number in X; rows of X_unlabelled follow. The default, if one is
            needed, is ``"pseudo_label"``.
        risk: ``"debiased"``, ``"ssl"`` (standard, biased) or ``"complete_case"``.
        lam: λ, its weight; ``"auto"`` estimates it on held-out labels, and uses 0 if it does not
            help.
        teachers: Predictors to pool with the networks: names in ``dessl.teachers.KINDS``,
            scikit-learn classifiers with ``predict_proba``, or teachers. ``"auto"`` is
            :func:`dessl.teachers.default_teachers` unless ``surrogate``, ``risk`` or ``lam`` is
            given; None for no pool. With propensities, all of them must accept weights.
        module: Your own network, from standardised rows (or images as transformed by the views of
            your surrogate) to logits: an ``nn.Module``, whose weights training starts from, or a
            function that builds one. By default an MLP for tables and a convolutional network for
            images.
        steps: Optimiser steps of each network; by default they depend on the number of labels.
        networks: Number of networks, 1 to 5. If not given, 5 for tables, for grey images, and for
            colour images of up to 16 pixels a side; 1 for other images and for images on a GPU.
        safe: Never knowingly worse than the complete case: networks trained with your λ, and the
            pool, are not used if they are significantly worse on held-out labels; ``verdict_`` says
            so.
        device: Where to train and predict, such as ``"cuda"``; students of a teacher's answers are
            always trained on the CPU.
        random_state: Seed of weights, batches, dropout and held-out labels.
        verbose: 1 or True prints a line for each network and the verdict, 2 also one for each
            evaluation of a network.

    Attributes:
        classes_: The classes, sorted, (classes,).
        lam_: The λ of the selected model; 0 for the complete case.
        used_unlabelled_: Whether the selected model was trained with unlabelled rows.
        verdict_: How the model compares with the complete case, in a few sentences.
        pool_: Each member's weight and held-out score, and the gain from the unlabelled rows
            (:class:`dessl.teachers.PoolReport`); None without a pool.
        propensity_: The labelling probabilities that labels were weighted by, and the effective
            number of labels (:class:`dessl.safety.Propensity`); None if none were given.
        taught_: How good the teachers are, what was selected and why
            (:class:`dessl.teachers.TaughtReport`); None if no answers were given.
        history_: For each network, the result of each evaluation, as a list of dicts.
        n_iter_: The largest number of optimiser steps of any network; None for a model loaded
            from a run of ``dessl fit``.
        n_features_in_: Columns of X, or channels of images.
        feature_names_in_: Names of the columns, where X had them; for a model loaded from a run of
            ``dessl fit`` on a table, those that it uses.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> few = np.where(np.arange(len(y)) % 6 == 0, y, -1)
        >>> clf = DeSSLClassifier(random_state=0).fit(X, few)
        >>> clf.predict_proba(X).shape, bool(clf.score(X, y) > 0.9)
        ((178, 3), True)
    """

    _by_name = False  # for a model of dessl fit: columns are looked up by name, in any order

    def __init__(
        self,
        surrogate: str | Surrogate | Callable[..., torch.Tensor] | None = None,
        *,
        risk: RiskKind = "debiased",
        lam: Lam = "auto",
        teachers: Teachers = "auto",
        module: nn.Module | Callable[[], nn.Module] | None = None,
        steps: int | None = None,
        networks: int | None = None,
        safe: bool = True,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.surrogate = surrogate
        self.risk = risk
        self.lam = lam
        self.teachers = teachers
        self.module = module
        self.steps = steps
        self.networks = networks
        self.safe = safe
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_unlabelled: Any = None,
        propensity: Any = None,
        groups: Any = None,
        teachers: Any = None,
        at_prediction: bool = False,
    ) -> Self:
        """Train on labelled and unlabelled rows, or on few labels and a teacher's answers.

        Args:
            X: Numbers (n, features); a data frame, possibly with text, categories, dates, booleans
                and missing values, which is encoded as ``dessl fit`` encodes a table; or images (n,
                height, width), (n, height, width, channels) or (n, channels, height, width): uint8,
                or floats with channels first.
            y: (n,) labels. An unlabelled row has -1 among numbers, "" or spaces among text, or
                None, NaN or a masked entry for any type (in a NumPy array of text these become
                text, and are read as classes with a warning).
            sample_weight: (n,) weights of labelled and unlabelled rows. A row of weight 2 counts,
                and takes memory, as two rows; weights that are not whole multiples of one number
                make about ten copies of every row: see :mod:`dessl.estimator.weights`.
            X_unlabelled: More rows without labels, of the same kind as X, each of weight 1.
            propensity: For labels that are not missing completely at random, the probability that
                each row is labelled, (n,), NaN if unknown for an unlabelled row; those of
                X_unlabelled may follow. Or ``"estimate-x"`` (it depends on X) or ``"estimate-y"``
                (on the class). Labels are then weighted by 1/π (:mod:`dessl.safety.propensity`).
            groups: (n,) values, the same for rows that belong together, such as those of one
                patient: they are held out together, and count as one held-out label.
            teachers: Answers that may be wrong, such as a language model's, to all rows of X and
                then of X_unlabelled: classes (n,) with None for no answer, or probabilities (n,
                classes), a data frame with columns named after the classes or an array in the
                order of the sorted classes; a list with one entry for each teacher, a dict by
                name, or a single teacher's array, which cross-validation splits with X. The student
                that learns from them needs no teacher at prediction, and is used only if it is
                better on held-out labels (:func:`dessl.teachers.learn_from_answers`).
            at_prediction: Whether the teachers' answers will also be available for new rows; see
                :meth:`predict_proba`.
        """
        warn_of_numbered()
        self._by_name = False
        self.__dict__.pop("_saved", None)  # its classes and columns change before it does
        warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups, propensity=propensity)
        given = Inputs.of(self, X, X_unlabelled)
        codes, self.classes_ = codes_and_classes(y)
        if len(codes) != given.n:
            raise ValueError(
                "X and y must have the same number of rows; got inconsistent numbers of samples, "
                f"{given.n} and {len(codes)}."
            )
        _checks.unmasked("sample_weight", sample_weight)
        weights = _check_sample_weight(
            sample_weight, codes, dtype=np.float64, ensure_non_negative=True
        )
        codes = np.pad(codes, (0, given.n_more), constant_values=UNLABELLED)
        weights = np.pad(weights, (0, given.n_more), constant_values=1.0)
        names = class_texts(self.classes_)
        rows, encoding = given.encoded(codes, y, names)
        if teachers is not None:
            check_alone(self, sample_weight=sample_weight, propensity=propensity, groups=groups)
            answers = teachers_answers(teachers, names, X, X_unlabelled)
            return self._fit_taught(rows, codes, encoding, answers, at_prediction)
        check_predictors(self.teachers)
        if at_prediction:
            raise ValueError("at_prediction=True needs teachers=, their answers to all rows.")
        if propensity is not None and sample_weight is not None:
            raise ValueError(
                "sample_weight and propensity cannot be used together. Omit sample_weight; labels "
                "are weighted by 1/π."
            )
        if propensity is not None:
            propensity = given_propensity(propensity, codes, given.n_more)
        together = None
        if groups is not None:  # each row of X_unlabelled has its own
            numbers = group_numbers(groups, given.n, "row of X")
            together = np.append(numbers, given.n + np.arange(given.n_more))
        weighted = weighted_rows(rows, codes, weights, self.classes_, together)
        return self._fit(weighted, encoding, propensity, grouped=groups is not None)

    def _fit(
        self,
        rows: WeightedRows,
        encoding: TableEncoding | None,
        propensity: Any,
        *,
        grouped: bool,
    ) -> Self:
        names = class_texts(self.classes_)
        groups = rows.groups if grouped else None
        data = SemiData(rows.x, rows.codes, class_names=names, ids=rows.ids, groups=groups)
        self.propensity_: Propensity | None = None
        if propensity is not None:
            given = propensity if isinstance(propensity, str) else propensity[rows.ids]
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
            networks=self.networks,
            copies=rows.copies,
            safe=self.safe,
        )
        labelled = torch.from_numpy(rows.groups[rows.codes >= 0])
        progress = ProgressLines(self.verbose) if self.verbose else None
        callbacks = () if progress is None else (progress,)
        fitted = fit(data, recipe, groups=labelled, callbacks=callbacks, progress=False)
        self.lam_ = fitted.lam
        self.used_unlabelled_ = fitted.used_unlabelled
        self.verdict_ = fitted.verdict.sentence
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
            encoding=encoding,
        )
        if progress:
            progress.end(self.verdict_)
        return self

    def _fit_taught(
        self,
        rows: NDArray[Any],
        codes: NDArray[np.int64],
        encoding: TableEncoding | None,
        teachers: list[Answers],
        at_prediction: bool,
    ) -> Self:
        if self.device is not None:  # such small networks are trained on the CPU
            _checks.device("device", self.device)
        names = class_texts(self.classes_)
        data = SemiData(rows, codes, class_names=names)
        progress, setting = ProgressLines(self.verbose) if self.verbose else None, NetworkSetting()
        if self.steps is not None:
            setting = dataclasses.replace(setting, steps=self.steps, student_steps=self.steps)
        warn_of_chance(teachers, data.y)
        with part_lines(shown=progress is not None):
            taught = learn_from_answers(
                data,
                teachers,
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
        self._saved = SavedModel(
            TaughtPredictor(taught), names, rows.shape[1:], image=False, encoding=encoding
        )
        if progress:
            progress.end(self.verdict_)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether it has a model: not after a fit that was interrupted or failed."""
        return hasattr(self, "_saved")

    def predict_proba(self, X: Any, teachers: Any = None) -> NDArray[np.float64]:
        """Return probabilities (n, classes), the classes in the order of ``classes_``.

        Args:
            X: Rows like those of :meth:`fit`.
            teachers: Answers to these rows, in the form given to :meth:`fit` with
                ``at_prediction=True``; the student predicts rows without an answer alone.
        """
        check_is_fitted(self)
        warn_of_scored()
        seen = self._saved
        rows = new_rows(self, X, seen.encoding, by_name=self._by_name, images=seen.image)
        if teachers is not None:
            teachers = teachers_answers(teachers, self._saved.class_names, X)
        probabilities: NDArray[np.float64] = self._saved.predict_proba(rows, teachers).numpy()
        return probabilities

    def predict_log_proba(self, X: Any, teachers: Any = None) -> NDArray[np.float64]:
        """Return the logarithms of :meth:`predict_proba`, (n, classes)."""
        with np.errstate(divide="ignore"):  # the logarithm of 0 is −∞
            logs: NDArray[np.float64] = np.log(self.predict_proba(X, teachers))
        return logs

    def predict(self, X: Any, teachers: Any = None) -> NDArray[Any]:
        """Return the most probable classes, (n,); arguments as in :meth:`predict_proba`."""
        best = self.predict_proba(X, teachers).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None, teachers: Any = None) -> float:
        """Return the accuracy on the labelled rows; y as in :meth:`fit`.

        Args:
            X: Rows like those of :meth:`fit`.
            y: (n,) labels; rows without one are not counted.
            sample_weight: (n,) weights.
            teachers: Answers to these rows; see :meth:`predict_proba`.
        """
        warn_of_order(X, y=y, sample_weight=sample_weight)
        return labelled_accuracy(y, self.predict(X, teachers), sample_weight)

    def save(self, path: str | Path) -> Path:
        """Save the classifier as a folder, for :meth:`from_pretrained` and ``dessl predict``.

        The folder appears complete or not at all, and has safetensors and JSON only.
        """
        check_is_fitted(self)
        return save_model(path, dataclasses.replace(self._saved, details=stored_details(self)))

    def export(
        self,
        path: str | Path,
        *,
        format: Format | None = None,  # noqa: A002 (what it is called everywhere)
        networks_only: bool = False,
    ) -> Exported:
        """Write the fitted classifier as one graph, in ONNX or PyTorch's format.

        Args:
            path: A file ending in ``.onnx`` or ``.pt2``; the classes and the encoding of data
                frames are written next to it, to the same name with ``.json`` appended.
            format: ``"onnx"`` or ``"pt2"``, if the name does not say.
            networks_only: Whether to leave out a pool's teachers; see
                :func:`dessl.export.export_model`.
        """
        check_is_fitted(self)
        return export_model(path, self._saved, format=format, networks_only=networks_only)

    @classmethod
    def from_pretrained(
        cls, path: str | Path, *, module: Callable[[], nn.Module] | None = None
    ) -> Self:
        """Load a classifier written by :meth:`save` or ``dessl fit``, ready to predict.

        Args:
            path: A saved folder, or the folder of a run of ``dessl fit``. A model trained on a
                table takes data frames with the columns of that table.
            module: A function that builds the network, if it was your own.
        """
        saved = load_model(model_folder(path), module=module)
        stored = restored(saved, cls._get_param_names())
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
        if module is not None and not callable(module):
            raise TypeError(
                "module must be a network (nn.Module) or a function that builds one; got "
                f"{type(module).__name__}."
            )
        return (lambda: copy.deepcopy(module)) if isinstance(module, nn.Module) else module
