"""What counts as a label, and what as none."""

import warnings

import numpy as np
import pandas as pd
import pyarrow
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from dessl import DeSSLClassifier
from dessl.estimator.targets import codes_and_classes, teachers_answers, warn_of_order


@pytest.mark.parametrize(
    ("y", "codes", "classes"),
    [
        ([5, -1, 7, 5], [0, -1, 1, 0], [5, 7]),
        (np.array([1.0, np.nan, 0.0]), [1, -1, 0], [0.0, 1.0]),
        (np.array([1.0, 0.0, -1.0]), [1, 0, -1], [0.0, 1.0]),
        (np.array([2, None, 0], dtype=object), [1, -1, 0], [0, 2]),
        (np.array([2, -1.0, 0], dtype=object), [1, -1, 0], [0, 2]),
        (np.array([True, -1, False], dtype=object), [1, -1, 0], [False, True]),
        (pd.Series([np.True_, -1, False]), [1, -1, 0], [False, True]),
        (np.array([True, False]), [1, 0], [False, True]),
        (["no", "yes", "no"], [0, 1, 0], ["no", "yes"]),
        (["no", float("nan"), "yes"], [0, -1, 1], ["no", "yes"]),  # NumPy makes "nan" of it
        ([True, None, False], [1, -1, 0], [False, True]),
        (np.array([np.True_, np.nan, False], dtype=object), [1, -1, 0], [False, True]),
        (pd.Series(["b", pd.NA, "a"], dtype="string"), [1, -1, 0], ["a", "b"]),
        (pd.Series([True, None, False], dtype="boolean"), [1, -1, 0], [False, True]),
        (pd.Series([True, False], dtype="boolean"), [1, 0], [False, True]),
        (pd.Series([7, None, 5], dtype="Int64"), [1, -1, 0], [5, 7]),
        (pd.array([1.0, None, 0.0], dtype="Float64"), [1, -1, 0], [0.0, 1.0]),
        (pd.Series([2, None, 3]).astype("category"), [0, -1, 1], [2.0, 3.0]),
        (pd.Series(["b", None, "a"], dtype="category"), [1, -1, 0], ["a", "b"]),
        (np.ma.masked_array([3, 4, 5, 4], mask=[0, 0, 1, 0]), [0, 1, -1, 1], [3, 4]),
        (np.ma.masked_array([3.0, 4.0, -1.0], mask=False), [0, 1, -1], [3.0, 4.0]),
        (np.ma.masked_array(["b", "a", "c"], mask=[0, 0, 1]), [1, 0, -1], ["a", "b"]),
        (np.array(["b", "", "a"]), [1, -1, 0], ["a", "b"]),
        (["b", "", "a", None], [1, -1, 0, -1], ["a", "b"]),
        (pd.Series(["b", "", 1], dtype=object), [1, -1, 0], ["1", "b"]),
    ],
)
def test_labels_of_every_kind(y: object, codes: list, classes: list) -> None:
    found, names = codes_and_classes(y)
    assert found.tolist() == codes
    assert names.tolist() == classes
    assert [type(name) for name in names.tolist()] == [type(name) for name in classes]


@pytest.mark.parametrize(
    "y",
    [
        [-1, "dog", "cat"],
        ["dog", "-1", "cat"],
        np.array(["dog", "-1", "cat"]),
        pd.Series(["dog", -1, "cat"], dtype=object),
        pd.Series([0.0, -1.0, 1.0]).astype(str),
    ],
)
def test_minus_one_among_text_is_refused(y: object) -> None:
    with pytest.raises(ValueError, match=r"'-1(\.0)?' with text labels.*None"):
        codes_and_classes(y)


@pytest.mark.parametrize(
    ("y", "marks"),
    [
        (np.array(["a", "b", np.nan]), "'nan'"),
        (np.array(["a", None, "<NA>", "b"], dtype=str), "'<NA>', 'None'"),
        (("nan", np.nan, "yes"), "'nan'"),
        (np.array(["NaT", None, "b"], dtype=object), "'NaT'"),
    ],
)
def test_marks_that_became_text_are_warned_of(y: object, marks: str) -> None:
    with pytest.warns(UserWarning, match=f"y: {marks} is treated as a class"):
        _, classes = codes_and_classes(y)
    assert set(classes) >= set(marks.replace("'", "").split(", "))


@pytest.mark.parametrize(
    "y",
    [
        np.array([1.0, np.nan, 0.0, -1.0]),
        np.array([1, None, 0, -1], dtype=object),
        pd.Series([1, None, 0, -1], dtype="Int64"),
        np.ma.masked_array([1, 5, 0, -1], mask=[0, 1, 0, 0]),
        np.array([True, None, False, -1], dtype=object),
    ],
)
def test_minus_one_next_to_another_mark_is_warned_of(y: object) -> None:
    with pytest.warns(UserWarning, match=r"y: -1 and NaN \(or None\) both .*recode it") as seen:
        codes, classes = codes_and_classes(y)
    assert len(seen) == 1
    assert codes.tolist() == [1, -1, 0, -1]
    assert classes.tolist() == [0, 1]


def test_the_warning_points_at_the_call_of_fit() -> None:
    y = np.where(np.arange(60) % 5 == 0, np.nan, np.arange(60) % 3 - 1.0)
    clf = DeSSLClassifier(steps=2, networks=1, teachers=None, random_state=0)
    with pytest.warns(UserWarning, match="both occur") as seen:
        clf.fit(np.random.default_rng(0).normal(size=(60, 2)), y)
    assert seen[0].filename == __file__


@pytest.mark.parametrize("y", [[-1, 1, 1, -1], [0.0, -1.0, 0.0], np.array([1, -1], dtype=object)])
def test_minus_one_as_a_class_is_explained(y: object) -> None:
    with pytest.raises(ValueError, match=r"only 1 class, [01].*\. -1 means unlabelled: .* recode"):
        codes_and_classes(y)


def test_plus_minus_one_and_nan_are_explained() -> None:
    with (
        pytest.warns(UserWarning, match="both occur"),
        pytest.raises(ValueError, match=r"only 1 class, 1\.0\. -1 means unlabelled"),
    ):
        codes_and_classes(np.array([1.0, -1.0, np.nan]))
    with pytest.raises(ValueError, match=r"y has only 1 class, 1\.0\.$"):
        codes_and_classes(np.array([1.0, 1.0, np.nan]))


@pytest.mark.parametrize(
    ("y", "kinds"),
    [([True, 2, False], "bool and int"), ([(0, 1), None], "tuple"), ([b"a", b"b"], "bytes")],
)
def test_labels_of_several_kinds_are_refused(y: list, kinds: str) -> None:
    column = np.empty(len(y), dtype=object)
    column[:] = y
    with pytest.raises(ValueError, match=f"only numbers, only text or only booleans; got {kinds}"):
        codes_and_classes(column)


def test_labels_that_are_tuples_say_what_to_pass() -> None:
    with pytest.raises(ValueError, match=r"got NoneType and tuple\. Name the classes with text"):
        codes_and_classes([("x", 1), None, ("y", 2)])


def test_labels_are_required() -> None:
    X = np.zeros((4, 2))
    with pytest.raises(ValueError, match=r"y is None\. Pass one label for each row, -1 "):
        DeSSLClassifier().fit(X, None)


def test_dates_are_no_labels() -> None:
    with pytest.raises(ValueError, match="numbers, text or booleans; got datetime64"):
        codes_and_classes(pd.to_datetime(pd.Series(["2020-01-01", None, "2021-01-01"])))


def test_infinity_is_no_label() -> None:
    with pytest.raises(ValueError, match="contains infinity"):
        codes_and_classes(np.array([0.0, 1.0, np.inf]))


class TestPropensity:
    """60 rows, every third labelled."""

    CODES = np.where(np.arange(60) % 3 == 0, np.arange(60) % 2, -1)
    PHI = np.linspace(0.2, 0.8, 60)
    X = np.random.default_rng(0).normal(size=(60, 2))

    def fit(self, propensity: object, **more: object) -> DeSSLClassifier:
        clf = DeSSLClassifier(steps=2, networks=1, random_state=0)
        return clf.fit(self.X, self.CODES, propensity=propensity, **more)

    @pytest.mark.parametrize(
        ("propensity", "message"),
        [
            (PHI[1:], r"each row of X, shape \(60,\); got \(59,\)\. Pass NaN for unlabelled"),
            (PHI[CODES >= 0], r"shape \(60,\); got \(20,\)\. That is one for each label: pass one"),
            (PHI[:30], r"got \(30,\)"),
            (np.append(PHI, 0.5), r"got \(61,\)"),
            (PHI[:, None], r"got \(60, 1\)"),
            (0.3, r"got \(\)"),
        ],
    )
    def test_it_has_one_value_for_each_row(self, propensity: object, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            self.fit(propensity)

    def test_those_of_more_rows_may_follow(self) -> None:
        more = self.X[:5] + 1
        short = self.fit(self.PHI, X_unlabelled=more)
        whole = self.fit(np.append(self.PHI, [0.5] * 5), X_unlabelled=more)
        assert np.array_equal(short.predict_proba(self.X), whole.predict_proba(self.X))
        assert short.propensity_.values.isnan().sum() == 5
        with pytest.raises(
            ValueError, match=r"\(60,\), or also of X_unlabelled, shape \(65,\); got \(62,\)"
        ):
            self.fit(np.append(self.PHI, [0.5] * 2), X_unlabelled=more)

    def test_teachers_that_would_ignore_it_are_refused(self) -> None:
        own = KNeighborsClassifier(1)  # whose fit takes no weights
        clf = DeSSLClassifier(teachers=["linear", own], steps=2, networks=1)
        for propensity in (self.PHI, "estimate-x"):
            with pytest.raises(ValueError, match="'KNeighborsClassifier' accepts no weights"):
                clf.fit(self.X, self.CODES, propensity=propensity)

    def test_the_pool_weights_labels(self) -> None:
        clf = DeSSLClassifier(teachers=["linear", GaussianNB()], lam=0.0, steps=2)
        plain, weighted = (
            clone(clf).fit(self.X, self.CODES, propensity=phi) for phi in (None, self.PHI)
        )
        assert weighted.pool_ is not None
        assert not np.allclose(plain.predict_proba(self.X), weighted.predict_proba(self.X))

    def test_a_bad_one_is_named_by_its_row_in_x(self) -> None:
        for row, value in ((40, 0.0), (45, np.nan), (45, 1.5)):
            with pytest.raises(ValueError, match=f"1 of 60 rows do not, the first is row {row}: "):
                self.fit(np.where(np.arange(60) == row, value, self.PHI))

    def test_each_value_stays_with_its_row(self) -> None:
        order = np.random.default_rng(1).permutation(60)
        clf = DeSSLClassifier(steps=2, networks=1, random_state=0)
        clf.fit(self.X[order], self.CODES[order], propensity=self.PHI[order])
        same = self.fit(self.PHI).propensity_.values[:20]
        assert np.array_equal(clf.propensity_.values[:20], same)  # labelled rows come first, sorted


class TestTeachersAnswers:
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[7, 3, 5])
    SAID = pd.Series(["no", "yes", None], index=[7, 3, 5])

    def test_answers_with_the_index_of_x_or_without_one(self) -> None:
        for said in (self.SAID, self.SAID.to_numpy(), self.SAID.to_list()):
            (found,) = teachers_answers([said], ("no", "yes"), self.X)
            assert found.values.tolist() == [0, 1, -1]
        (found,) = teachers_answers(self.SAID, ("no", "yes"), self.X.to_numpy())
        assert found.values.tolist() == [0, 1, -1]

    def test_another_index_is_refused(self) -> None:
        for said in (self.SAID.sort_index(), self.SAID.reset_index(drop=True)):
            for one in (said, pd.get_dummies(said).astype(float)):
                with pytest.raises(ValueError, match=r"index .* differs .* answers.loc\[X.index\]"):
                    teachers_answers([one], ("no", "yes"), self.X)

    def test_answers_go_on_with_the_rows_of_x_unlabelled(self) -> None:
        more = pd.DataFrame({"a": [4.0]}, index=[1])
        every = pd.concat([self.SAID, pd.Series(["yes"], index=[1])])
        for said in (every, every.reset_index(drop=True)):
            assert len(teachers_answers([said], ("no", "yes"), self.X, more)[0]) == 4
        with pytest.raises(ValueError, match="index of a teacher's answers differs"):
            teachers_answers([every.sort_index()], ("no", "yes"), self.X, more)
        with pytest.raises(ValueError, match="then the 1 of X_unlabelled; got 3"):
            teachers_answers([self.SAID], ("no", "yes"), self.X, more)

    def test_teachers_by_name(self) -> None:
        said = {"gpt": self.SAID, "crowd": ["no", "no", "yes"]}
        found = teachers_answers(said, ("no", "yes"), self.X)
        assert [one.name for one in found] == ["gpt", "crowd"]


def test_spellings_of_one_class_are_warned_of() -> None:
    y = np.array(["yes", " yes", "Yes", "no", None], dtype=object)
    with pytest.warns(UserWarning, match="' yes' and 'Yes' and 'yes' count as different classes"):
        codes_and_classes(y)


@pytest.mark.parametrize(
    "y",
    [["a", " ", "b"], np.array(["a", "  ", "b"]), np.array(["a", " ", "b"], dtype=object)],
)
def test_a_label_of_spaces_is_missing(y: object) -> None:
    codes, classes = codes_and_classes(y)
    assert codes.tolist() == [0, -1, 1]
    assert classes.tolist() == ["a", "b"]


def test_a_series_in_another_order_is_warned_of() -> None:
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=[5, 6, 7])
    shuffled = pd.Series(["x", "y", "x"], index=[7, 5, 6])
    with pytest.warns(UserWarning, match=r"y has the index of X in another order.*y\.loc") as seen:
        warn_of_order(X, y=shuffled)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_order(X, y=shuffled.loc[X.index], groups=shuffled.to_numpy())
        warn_of_order(X, y=shuffled.reset_index(drop=True), sample_weight=None)
        warn_of_order(X.to_numpy(), y=shuffled)


def test_fit_and_score_warn_of_labels_in_another_order() -> None:
    draw = np.random.default_rng(0)
    X = pd.DataFrame({"a": draw.normal(size=40), "b": draw.normal(size=40)})
    y = pd.Series(np.arange(40) % 2)
    clf = DeSSLClassifier(steps=2, networks=1, teachers=None, random_state=0)
    with pytest.warns(UserWarning, match="y has the index of X in another order") as seen:
        clf.fit(X, y.iloc[::-1])
    assert seen[0].filename == __file__
    with pytest.warns(UserWarning, match="y has the index of X in another order"):
        clf.score(X, y.iloc[::-1])


def test_whole_numbers_with_gaps_stay_whole_numbers() -> None:
    codes, classes = codes_and_classes(pyarrow.array([3, None, 1]))
    assert codes.tolist() == [1, -1, 0]
    assert classes.tolist() == [1, 3]
    assert classes.dtype.kind == "i"  # NumPy alone would make floats of them
