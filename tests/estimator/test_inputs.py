"""Data frames reach DeSSLClassifier as tables reach the command line, and come back from it."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from PIL import Image

from dessl import DataError, DeSSLClassifier, save_model

FAST = {"steps": 15, "networks": 1, "lam": 0.5, "random_state": 0}
N = 120


@pytest.fixture(scope="module")
def people() -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """A table of mixed columns, labels of which half are missing, and all labels."""
    draw = np.random.default_rng(0)
    age = draw.normal(40, 10, N).round(1)
    town, smoker = draw.choice(["Oslo", "Bergen"], N), draw.random(N) < 0.3
    y = pd.Series(np.where(age + 15 * smoker + 5 * (town == "Oslo") > 45, "sick", "well"))
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 5, N), "D")
    X = pd.DataFrame({"age": age, "town": town, "smoker": smoker, "seen": seen})
    X.loc[::7, "age"] = np.nan
    few = y.where(np.arange(N) % 2 == 0).rename("state")
    return X, few, y


@pytest.fixture(scope="module")
def fitted(people: tuple) -> DeSSLClassifier:
    return DeSSLClassifier(**FAST).fit(*people[:2])


def test_a_frame_of_mixed_columns(people: tuple, fitted: DeSSLClassifier) -> None:
    X, _, y = people
    assert fitted.score(X, y) > 0.7
    assert fitted.classes_.tolist() == ["sick", "well"]
    assert fitted.feature_names_in_.tolist() == list(X.columns)
    assert fitted.n_features_in_ == 4
    shuffled = X.sample(frac=1, random_state=0)
    whole = pd.DataFrame(fitted.predict_proba(X), X.index)
    assert np.allclose(fitted.predict_proba(shuffled), whole.loc[shuffled.index], atol=1e-12)


def test_more_unlabelled_rows_are_part_of_the_table(people: tuple, fitted: DeSSLClassifier) -> None:
    X, few, _ = people
    known = few.notna()
    apart = DeSSLClassifier(**FAST).fit(X[known], few[known], X_unlabelled=X[~known])
    assert np.array_equal(apart.predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(ValueError, match="X_unlabelled must be a data frame with the columns of X"):
        DeSSLClassifier(**FAST).fit(X, few, X_unlabelled=X.to_numpy())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.drop(columns="town"), "yet now missing:\n- town"),
        (lambda X: X[X.columns[::-1]], "must be in the same order"),
        (lambda X: X.assign(age="old"), "expected numbers in column 'age'; got 'old' in data row"),
        (lambda X: X.to_numpy(), "needs a data frame with the columns 'age', 'town'.* got ndarray"),
        (lambda X: Lazy(), r"X\.collect\(\)"),
    ],
)
def test_columns_that_do_not_fit_are_said(
    people: tuple, fitted: DeSSLClassifier, change: Callable, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fitted.predict(change(people[0]))


def test_numbers_alone_are_an_array(people: tuple) -> None:
    X, few, _ = people
    numbers = X[["age"]].fillna(40.0).assign(one=np.arange(N) % 5)
    clf = DeSSLClassifier(**FAST).fit(numbers, few)
    same = DeSSLClassifier(**FAST).fit(numbers.to_numpy(), few)
    assert np.array_equal(clf.predict_proba(numbers), same.predict_proba(numbers.to_numpy()))
    with pytest.raises(
        ValueError, match=r"trained on numbers without missing values; got .* in 'age'\."
    ):
        clf.predict(X[["age"]].assign(one=0))


@pytest.mark.parametrize("apart", [False, True])
def test_identifiers_among_numbers_are_named(people: tuple, apart: bool) -> None:
    """In X, or only in the unlabelled rows: in few labelled ones, chance explains no repeats."""
    few = people[1]
    X = pd.DataFrame({"age": np.arange(N) % 50, "id": np.random.default_rng(0).permutation(N)})
    half = slice(None, None, 2)  # the labelled rows
    rows = (
        {"X": X[half][:15], "y": few[half][:15], "X_unlabelled": X} if apart else {"X": X, "y": few}
    )
    message = r"without a repeat, .* in 'id'\. .* pass X\.drop\(columns=\['id'\]\)"
    with pytest.warns(UserWarning, match=message) as caught:
        DeSSLClassifier(**FAST, teachers=None).fit(**rows)
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    if not apart:  # to paste: names that are numbers stay so, other frames have other methods
        numbered = X.set_axis([0, 1], axis=1)
        with pytest.warns(UserWarning, match=r"in '1'\. .* pass X\.drop\(columns=\[1\]\)"):
            DeSSLClassifier(**FAST, teachers=None).fit(numbered, few)
        arrow = pa.Table.from_pandas(X)
        with pytest.warns(
            UserWarning, match=r"without a repeat, .* in 'id'\. .*: drop it from X\."
        ):
            DeSSLClassifier(**FAST, teachers=None).fit(arrow, few)
    quiet = {"X": X.assign(id=X["id"] + 0.5), "y": few}, {"X": X.to_numpy(), "y": few}
    for given in quiet:
        DeSSLClassifier(**FAST, teachers=None).fit(**given)  # a warning would be an error


def test_numbers_far_outside_training_are_noticed(people: tuple, fitted: DeSSLClassifier) -> None:
    X = people[0]
    months = X.assign(age=12 * X["age"])
    message = r"far outside the range of the training data: .* in 'age', such as .* check the units"
    for predict in (fitted.predict, fitted.predict_proba):
        with pytest.warns(UserWarning, match=message):
            predict(months)


def test_missing_numbers_of_an_array_are_explained(people: tuple) -> None:
    few = people[1]
    X = np.random.default_rng(0).normal(size=(N, 2))
    gaps = np.where(np.arange(2 * N).reshape(N, 2) < 5, np.nan, X)
    clf = DeSSLClassifier(**FAST)
    with pytest.raises(ValueError, match=r"X contains NaN in 3 of 120 rows\. Pass a data frame"):
        clf.fit(gaps, few)
    with pytest.raises(ValueError, match=r"X_unlabelled contains NaN in 3 .* Pass data frames"):
        clf.fit(X, few, X_unlabelled=gaps)
    with pytest.raises(ValueError, match=r"X contains NaN in 1 of 40 rows\. Impute them"):
        clf.fit(np.append(X[:39, 0], np.nan).repeat(64).reshape(40, 1, 8, 8), few[:40])
    with pytest.raises(ValueError, match=r"X contains infinity.*\. Replace infinity by a number"):
        clf.fit(np.where(X > 2, np.inf, X), few)
    assert clf.fit(pd.DataFrame(gaps), few).predict(pd.DataFrame(gaps)).shape == (N,)
    with pytest.raises(
        ValueError, match=r"NaN in 3 .*\. Impute them, or train on a data frame that has missing"
    ):
        clf.fit(X, few).predict(gaps)


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.0, np.nan), ("text", "words")])
def test_repeated_column_names_are_refused(people: tuple, values: tuple) -> None:
    few = people[1]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=list("pq"))
    X["r"] = values * (N // 2)
    twice = X.set_axis(["p", "q", "p"], axis=1)
    clf = DeSSLClassifier(**FAST)
    for call, name in (
        (lambda: clf.fit(twice, few), "X"),
        (lambda: clf.fit(X, few, X_unlabelled=twice), "X_unlabelled"),
        (lambda: clf.fit(X, few).predict(twice), "X"),
    ):
        with pytest.raises(
            ValueError, match=f"^{name}: expected different column names; got 'p' twice. Rename or"
        ):
            call()


def test_the_command_line_reads_what_was_saved(
    people: tuple, fitted: DeSSLClassifier, tmp_path: Path, cli: Callable
) -> None:
    X, _, y = people
    place = fitted.save(tmp_path / "model")
    again = DeSSLClassifier.from_pretrained(place)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    out = tmp_path / "predictions.csv"
    X.assign(state=y).to_csv(tmp_path / "people.csv", index=False)
    code, _, err = cli("predict", place, tmp_path / "people.csv", "--out", out)
    assert (code, err) == (0, "")
    p = pd.read_csv(out)[["p(sick)", "p(well)"]]
    assert np.allclose(p, fitted.predict_proba(X), rtol=0, atol=1e-12)
    code, shown, err = cli("evaluate", place, tmp_path / "people.csv", "--json")
    assert (code, err) == (0, "")
    assert f'"n": {N}' in shown


def test_a_run_of_the_command_line_is_read(
    people: tuple, fitted: DeSSLClassifier, tmp_path: Path
) -> None:
    X, _, y = people
    run = {"lam": 0.5, "verdict": "It helped.", "surrogate": "entropy"}
    save_model(tmp_path / "run" / "model", dataclasses.replace(fitted._saved, details=run))
    first = DeSSLClassifier.from_pretrained(tmp_path / "run")
    for place in (tmp_path / "run" / "model", first.save(tmp_path / "again")):
        clf = DeSSLClassifier.from_pretrained(place)
        assert clf.feature_names_in_.tolist() == list(X.columns)
        assert clf.n_features_in_ == 4
        assert np.array_equal(clf.predict_proba(X), fitted.predict_proba(X))
        # A table is looked up by name: other columns, such as the labels, do no harm.
        turned = X.assign(state=y)[["state", *X.columns[::-1]]]
        assert np.array_equal(clf.predict(turned), fitted.predict(X))
        assert clf.score(X, y) == fitted.score(X, y)
        assert (clf.lam_, clf.used_unlabelled_, clf.verdict_) == (0.5, True, "It helped.")
        with pytest.raises(DataError, match=r"the column\(s\) 'town'; got"):
            clf.predict(X.drop(columns="town"))
    # After fit, the columns are those of its X, as in every classifier.
    clf.set_params(**FAST).fit(X, y)
    with pytest.raises(ValueError, match="must be in the same order"):
        clf.predict(X[X.columns[::-1]])


@pytest.mark.slow
def test_what_the_command_line_trained_is_loaded(
    people: tuple, tmp_path: Path, cli: Callable
) -> None:
    X, few, _ = people
    path, out = tmp_path / "people.csv", tmp_path / "predictions.csv"
    X.assign(state=few).to_csv(path, index=False)
    assert cli("fit", path, "--label", "state", "--out", tmp_path / "run", "--steps", 20).code == 0
    assert cli("predict", tmp_path / "run", path, "--out", out).code == 0
    clf = DeSSLClassifier.from_pretrained(tmp_path / "run")
    p = pd.read_csv(out)[["p(sick)", "p(well)"]]
    assert np.allclose(clf.predict_proba(X), p, rtol=0, atol=1e-12)
    assert clf.pool_ is not None
    assert clf.feature_names_in_.tolist() == list(X.columns)


def test_a_list_of_images_is_an_array() -> None:
    images = np.random.default_rng(0).integers(256, size=(20, 8, 8), dtype=np.uint8)
    y = np.where(np.arange(20) < 12, np.arange(20) % 2, -1)
    whole, listed = (
        DeSSLClassifier(steps=2, networks=1, random_state=0).fit(x, y).predict_proba(x)
        for x in (images, [Image.fromarray(one) for one in images])
    )
    assert np.array_equal(whole, listed)
    with pytest.raises(ValueError, match=r"one size; got \(8, 6\) and \(8, 8\)\. Resize"):
        DeSSLClassifier().fit([images[0], images[1][:, :6]], [0, 1])


def test_images_of_another_type_are_named() -> None:
    images = np.random.default_rng(0).integers(256, size=(20, 8, 8), dtype=np.uint8)
    fitted = DeSSLClassifier(steps=2, networks=1).fit(images, np.arange(20) % 2)
    with pytest.raises(ValueError, match="trained on uint8 images; got float64"):
        fitted.predict(images / 255)


def test_tensors_with_a_gradient_are_rows() -> None:
    draw = np.random.default_rng(0)
    X, y = torch.from_numpy(draw.normal(size=(40, 2))), np.arange(40) % 2
    clf = DeSSLClassifier(steps=2, networks=1, teachers=None, random_state=0).fit(X, y)
    assert np.array_equal(clf.predict(X.requires_grad_()), clf.predict(X.detach().numpy()))


class Lazy:
    """Rows that were not read yet, as Polars and Spark have them."""

    def collect(self) -> None:
        raise AssertionError("reading is the caller's decision")


@pytest.mark.parametrize(
    ("X", "do"),
    [
        (np.array([[1, "Oslo"], [2, "Bergen"]], dtype=object), r"pandas\.DataFrame\(X\)"),
        (np.array([["a"], ["b"]]), r"pandas\.DataFrame\(X\)"),
        ([{"age": 1}, {"age": 2}], r"pandas\.DataFrame\(X\)"),
        (np.array([(1, 2), (3, 4)], dtype=[("a", int), ("b", int)]), r"pandas\.DataFrame\(X\)"),
        (scipy.sparse.csr_matrix(np.eye(2)), "TruncatedSVD"),
        (Lazy(), r"X\.collect\(\)"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0])}), r"X\.sparse\.to_dense\(\)"),
    ],
)
def test_rows_that_are_not_numbers_say_what_to_pass(X: object, do: str) -> None:
    with pytest.raises((TypeError, ValueError), match=do):
        DeSSLClassifier().fit(X, [0, 1])
