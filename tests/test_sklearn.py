"""Cross-validation, search and calibration with missing labels: right with ours, warned without."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dessl import DeSSLClassifier
from dessl.sklearn import SemiSupervisedSplit, WithUnlabelled, semi_supervised_scorer

FAST = {"steps": 4, "networks": 1, "risk": "complete_case", "random_state": 0}
SCORED = "rows to score have no label"
NUMBERED = "treats the missing labels in y as a class"


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(90, centers=3, n_features=3, cluster_std=2.0, random_state=0)
    return X, np.where(np.arange(90) % 3 == 0, y, -1)


class TestSplit:
    def test_rows_labels_and_groups_have_one_length(self, rows: tuple) -> None:
        X, y = rows
        for given in ((X, y[:10]), (X, y, np.arange(10))):
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                next(SemiSupervisedSplit(2).split(*given))

    @pytest.mark.parametrize("mark", [-1, None, np.nan])
    def test_folds_of_labelled_rows_and_all_others_in_training(
        self, rows: tuple, mark: object
    ) -> None:
        X, few = rows
        y = np.array([mark if k < 0 else k for k in few], dtype=object)
        folds = list(SemiSupervisedSplit(4, shuffle=True, random_state=0).split(X, y))
        labelled = np.flatnonzero(few >= 0)
        assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), labelled)
        for train, test in folds:
            assert (few[test] >= 0).all()
            assert set(np.flatnonzero(few < 0)) <= set(train)
            assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(90))
            counts = np.bincount(few[test], minlength=3) - np.bincount(few[labelled]) / 4
            assert np.abs(counts).max() < 1

    def test_a_group_is_in_one_part(self, rows: tuple) -> None:
        X, few = rows
        groups = np.arange(90) // 6
        for train, test in SemiSupervisedSplit(3).split(X, few, groups):
            assert not set(groups[train]) & set(groups[test])
            assert len(train) + np.isin(groups, groups[test]).sum() == 90

    def test_what_cannot_be_split_is_said(self, rows: tuple) -> None:
        X, few = rows
        with pytest.raises(ValueError, match="needs y"):
            next(SemiSupervisedSplit().split(X))
        with pytest.raises(ValueError, match=r"each of 40 folds; got 30 of 90 rows"):
            next(SemiSupervisedSplit(40).split(X, few))
        assert repr(SemiSupervisedSplit(3)).startswith("SemiSupervisedSplit(n_splits=3")
        assert SemiSupervisedSplit(3).get_n_splits() == 3


class TestScores:
    def test_a_scorer_leaves_out_rows_without_a_label(self, rows: tuple) -> None:
        X, few = rows
        clf = DeSSLClassifier(**FAST).fit(X, few)
        known = few >= 0
        expected = -log_loss(few[known], clf.predict_proba(X[known]))
        scorer = semi_supervised_scorer("neg_log_loss")
        assert scorer(clf, X, few) == pytest.approx(expected, abs=1e-12)
        assert scorer(clf, pd.DataFrame(X), pd.Series(few)) == pytest.approx(expected, abs=1e-12)
        heavy = np.where(few == 1, 3.0, 1.0)
        weighted = -log_loss(few[known], clf.predict_proba(X[known]), sample_weight=heavy[known])
        assert scorer(clf, X, few, sample_weight=heavy) == pytest.approx(weighted, abs=1e-12)
        assert semi_supervised_scorer()(clf, X, few) == clf.score(X, few)
        with pytest.raises(ValueError, match="all 90 are unlabelled"):
            scorer(clf, X, np.full(90, -1))

    def test_cross_validation_is_right_with_either(self, rows: tuple) -> None:
        X, few = rows
        clf = DeSSLClassifier(**FAST)
        split = SemiSupervisedSplit(2)
        found = cross_val_score(clf, X, few, cv=split, scoring="neg_log_loss")
        by_hand = []
        for train, test in split.split(X, few):
            p = clone(clf).fit(X[train], few[train]).predict_proba(X[test])
            by_hand.append(-np.log(p[np.arange(len(test)), few[test]]).mean())
        assert np.allclose(-found, by_hand, atol=1e-10)
        scorers = {"a": semi_supervised_scorer("accuracy"), "b": semi_supervised_scorer()}
        both = cross_validate(clf, X, few, cv=KFold(2), scoring=scorers)
        assert np.array_equal(both["test_a"], both["test_b"])

    def test_a_search_is_right(self, rows: tuple) -> None:
        X, few = rows
        pipeline = make_pipeline(StandardScaler(), DeSSLClassifier(**FAST))
        search = GridSearchCV(
            pipeline,
            {"desslclassifier__steps": [1, 4]},
            cv=SemiSupervisedSplit(2),
            scoring=["accuracy", "neg_log_loss"],
            refit="neg_log_loss",
        ).fit(X, few)
        assert np.isfinite(search.cv_results_["mean_test_neg_log_loss"]).all()
        assert search.best_estimator_[-1].classes_.tolist() == [0, 1, 2]

    @pytest.mark.parametrize("scoring", ["accuracy", ["f1_macro", "accuracy"]])
    def test_a_plain_scorer_is_warned_of(self, rows: tuple, scoring: object) -> None:
        X, few = rows
        pipeline = make_pipeline(StandardScaler(), DeSSLClassifier(**FAST))
        with pytest.warns(UserWarning, match=f"30 of 45 {SCORED}"):
            cross_validate(pipeline, X, few, cv=KFold(2), scoring=scoring)
        text = np.array([None if k < 0 else f"class {k}" for k in few], dtype=object)
        with (
            pytest.warns(UserWarning, match=SCORED),
            pytest.raises(TypeError),  # of scikit-learn, which cannot sort None among text
        ):
            cross_validate(pipeline, X, text, cv=KFold(2), scoring=scoring, error_score="raise")

    def test_a_plain_picture_is_warned_of(self, rows: tuple) -> None:
        X, few = rows
        clf = DeSSLClassifier(**FAST).fit(X, few)
        with pytest.warns(UserWarning, match=f"60 of 90 {SCORED}"):
            ConfusionMatrixDisplay.from_estimator(clf, X, few)
        known = few >= 0
        ConfusionMatrixDisplay.from_estimator(clf, X[known], few[known])


class TestWrappers:
    def test_calibration_is_right(self, rows: tuple) -> None:
        X, few = rows
        known = few >= 0
        own = WithUnlabelled(DeSSLClassifier(**FAST), X[~known])
        calibrated = CalibratedClassifierCV(own, cv=2, ensemble=False).fit(X[known], few[known])
        assert calibrated.classes_.tolist() == [0, 1, 2]
        assert np.allclose(calibrated.predict_proba(X).sum(1), 1)
        whole = DeSSLClassifier(**FAST).fit(X, few)
        inside = calibrated.calibrated_classifiers_[0].estimator
        assert np.array_equal(inside.predict_proba(X), whole.predict_proba(X))
        assert np.array_equal(inside.predict_log_proba(X), whole.predict_log_proba(X))
        assert np.array_equal(inside.predict(X), whole.predict(X))
        assert inside.score(X, few) == whole.score(X, few)
        assert inside.n_features_in_ == 3

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda clf: CalibratedClassifierCV(clf, cv=SemiSupervisedSplit(2)),
            lambda clf: BaggingClassifier(clf, n_estimators=1, random_state=0),
            lambda clf: VotingClassifier([("a", clf)]),
            lambda clf: StackingClassifier([("a", clf)], cv=2),
            lambda clf: OneVsRestClassifier(clf),
        ],
        ids=["calibration", "bagging", "voting", "stacking", "one against the rest"],
    )
    def test_a_wrapper_that_takes_minus_one_for_a_class_is_warned_of(
        self, rows: tuple, wrap: object
    ) -> None:
        X, few = rows
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", f".*{NUMBERED}", UserWarning)
            with pytest.raises(UserWarning, match=NUMBERED):
                wrap(DeSSLClassifier(**FAST)).fit(X, few)
        known = few >= 0
        own = WithUnlabelled(DeSSLClassifier(**FAST), X[~known])
        with warnings.catch_warnings():
            warnings.filterwarnings("error", f".*{NUMBERED}", UserWarning)
            if not isinstance(wrap(own), CalibratedClassifierCV | StackingClassifier):
                wrap(own).fit(X[known], few[known])

    @pytest.mark.parametrize(
        "wrapper",
        [CalibratedClassifierCV(DeSSLClassifier(**FAST), cv=2),
         OneVsOneClassifier(DeSSLClassifier(**FAST))],
    )  # fmt: skip
    def test_a_warning_names_the_class_of_scikit_learn(
        self, rows: tuple, wrapper: BaseEstimator
    ) -> None:
        X, few = rows
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            clone(wrapper).fit(X, few)
        lines = [str(one.message) for one in noted if NUMBERED in str(one.message)]
        assert {line.split()[0] for line in lines} == {type(wrapper).__name__}

    def test_predictions_that_number_the_labels_are_warned_of(self, rows: tuple) -> None:
        X, few = rows
        clf = DeSSLClassifier(**FAST)
        with pytest.warns(UserWarning, match=f"cross_val_predict {NUMBERED}"):
            cross_val_predict(clf, X, few, cv=KFold(2), method="predict_proba")
        assert set(cross_val_predict(clf, X, few, cv=KFold(2))) <= {0, 1, 2}


class TestPipelines:
    """Preprocessing inside WithUnlabelled sees all rows; outside it would miss the unlabelled."""

    @pytest.mark.parametrize("names", [None, ("a", "b", "c")], ids=["numbers", "text"])
    def test_preprocessing_inside_is_fitted_on_all_rows(
        self, rows: tuple, names: tuple[str, ...] | None
    ) -> None:
        X, few = rows
        known = few >= 0
        X = 100 + 50 * np.concatenate([X[known], X[~known]])
        y = few[known] if names is None else np.array(names)[few[known]]
        weights = np.linspace(0.5, 2, len(y))
        inside = make_pipeline(StandardScaler(), make_pipeline(DeSSLClassifier(**FAST)))
        own = WithUnlabelled(inside, X[len(y) :]).fit(X[: len(y)], y, sample_weight=weights)
        scaled = StandardScaler().fit_transform(X)
        whole = DeSSLClassifier(**FAST).fit(
            scaled[: len(y)], y, X_unlabelled=scaled[len(y) :], sample_weight=weights
        )
        assert np.array_equal(own.predict_proba(X), whole.predict_proba(scaled))
        assert own.classes_.tolist() == whole.classes_.tolist() == sorted(set(y.tolist()))
        assert own.n_features_in_ == 3
        calibrated = CalibratedClassifierCV(own, cv=2).fit(X[: len(y)], y)
        assert calibrated.classes_.tolist() == own.classes_.tolist()

    def test_preprocessing_outside_is_warned_of(self, rows: tuple) -> None:
        X, few = rows
        known, X = few >= 0, 100 + 50 * X
        own = WithUnlabelled(DeSSLClassifier(**FAST), X[~known])
        with pytest.warns(UserWarning, match="'standardscaler' transformed X, but most columns"):
            make_pipeline(StandardScaler(), own).fit(X[known], few[known])
        scaler = StandardScaler().fit(X[known])
        own = WithUnlabelled(DeSSLClassifier(**FAST), scaler.transform(X[~known]))
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*transformed X", UserWarning)
            make_pipeline(StandardScaler(), own).fit(X[known], few[known])

    def test_a_pipeline_of_others_is_refused(self, rows: tuple) -> None:
        X, few = rows
        known = few >= 0
        own = WithUnlabelled(make_pipeline(StandardScaler(), LogisticRegression()), X[~known])
        with pytest.raises(TypeError, match="a pipeline that ends in LogisticRegression"):
            own.fit(X[known], few[known])

    def test_a_step_that_learns_from_labels_is_explained(self, rows: tuple) -> None:
        X, few = rows
        known = few >= 0
        inside = make_pipeline(SelectKBest(k=2), DeSSLClassifier(**FAST))
        with pytest.raises(TypeError) as error:
            WithUnlabelled(inside, X[~known]).fit(X[known], few[known])
        assert "A step that learns from y, as SelectKBest does" in error.value.__notes__[0]
