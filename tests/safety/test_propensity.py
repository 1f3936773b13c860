"""Propensities: known, from x, from y, bounded, and refused where no row could be labelled."""

import numpy as np
import pytest
import torch

from dessl.data import SemiData
from dessl.safety.propensity import (
    class_moments,
    effective_labels,
    known_propensity,
    propensity_from_x,
    propensity_from_y,
    propensity_of,
)


def by_class(phi: tuple[float, ...] = (0.4, 0.1, 0.05), n: int = 4000, seed: int = 0) -> SemiData:
    generator = np.random.default_rng(seed)
    y = generator.integers(0, len(phi), n)
    x = generator.normal(size=(n, 3))
    x[:, 0] += 2 * y
    x[:, 1] += 2 * (y == 1)
    labelled = generator.random(n) < np.array(phi)[y]
    return SemiData(torch.from_numpy(x).float(), torch.from_numpy(np.where(labelled, y, -1)))


@pytest.mark.parametrize("method", ["em", "moments"])
def test_chances_by_class_are_estimated_with_their_errors(method: str) -> None:
    data = by_class()
    found = propensity_from_y(data, method=method)
    for one, phi in zip(found.classes, (0.4, 0.1, 0.05), strict=True):
        assert abs(one.propensity - phi) < 3.5 * one.standard_error
        assert one.standard_error < 0.1 * phi + 0.02
    for row in data.labelled_rows[:20].tolist():
        expected = found.classes[int(data.y[row])].propensity
        assert float(found.values[row]) == pytest.approx(expected, rel=1e-5)
    assert bool(found.values[data.unlabelled_rows].isnan().all())
    assert found.on(data).propensity is not None
    assert data.propensity is None


def test_moments_with_a_perfect_classifier_count() -> None:
    y = np.array([0, 0, 1, 1, 1])
    truth = np.array([0] * 6 + [1] * 2)
    p = np.eye(2)[np.concatenate([y, truth])]
    labelled = np.arange(13) < 5
    phi, error = class_moments(p, y, labelled)
    assert phi == pytest.approx([2 / 8, 3 / 5])
    assert (error > 0).all()


def test_chances_by_x_are_estimated_out_of_fold_and_bounded() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(4000, 2))
    chance = 1 / (1 + np.exp(2.5 - 1.5 * x[:, 0]))
    labelled = generator.random(4000) < chance
    data = SemiData(torch.from_numpy(x).float(), np.where(labelled, x[:, 1] > 0, -1).astype(int))
    found = propensity_from_x(data)
    error = np.abs(found.values.numpy() - chance)
    assert error.mean() < 0.02
    assert found.auc is not None
    assert found.auc > 0.7
    assert found.effective_labels < 0.8 * found.labels
    tight = propensity_from_x(data, most_weight=2)
    assert tight.raised > 0
    share = data.n_labelled / 4000
    assert float(tight.values[data.labelled_rows].min()) == pytest.approx(share / 2)


def test_labels_missing_at_random_get_nearly_equal_weights() -> None:
    """50 columns of noise: the regression overfits, and calibration notices."""
    generator = np.random.default_rng(1)
    x, labelled = generator.normal(size=(1500, 50)), generator.random(1500) < 0.1
    data = SemiData(torch.from_numpy(x).float(), np.where(labelled, x[:, 0] > 0, -1).astype(int))
    found = propensity_from_x(data)
    assert found.effective_labels > 0.97 * found.labels
    assert float((1 / found.values[data.labelled_rows]).sum()) == pytest.approx(1500, rel=0.02)


def test_weights_from_x_stand_for_all_rows() -> None:
    """Σ 1/π over labelled rows is the number of rows; a classifier that says 0 or 1 is no harm."""
    from sklearn.tree import DecisionTreeClassifier

    generator = np.random.default_rng(2)
    x = generator.normal(size=(3000, 4))
    labelled = generator.random(3000) < 1 / (1 + np.exp(2 - x[:, 0]))
    data = SemiData(torch.from_numpy(x).float(), np.where(labelled, x[:, 1] > 0, -1).astype(int))
    for classifier in (None, DecisionTreeClassifier(random_state=0)):
        found = propensity_from_x(data, classifier=classifier)
        total = float((1 / found.values[data.labelled_rows]).sum())
        assert total == pytest.approx(3000, rel=0.05)


def test_a_classifier_of_the_user_s_own_is_used() -> None:
    from sklearn.naive_bayes import GaussianNB

    data = by_class(n=1000)
    by_own = propensity_from_x(data, classifier=GaussianNB())
    assert not torch.equal(by_own.values, propensity_from_x(data).values)
    assert len(propensity_from_y(data, classifier=GaussianNB()).classes) == 3


def by_patient(
    phi: tuple[float, ...], *, patients: int, seed: int, columns: int = 3
) -> tuple[SemiData, SemiData]:
    """Rows of patients who are labelled as a whole; with and without the patients' numbers."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, len(phi), patients)
    labelled = generator.random(patients) < np.array(phi)[y]
    patient = np.repeat(np.arange(patients), 8)
    x = generator.normal(size=(patients, columns))[patient] + generator.normal(
        size=(len(patient), columns)
    )
    x[:, 0] += 3 * y[patient]
    rows = torch.from_numpy(x).float(), np.where(labelled, y, -1)[patient]
    return SemiData(*rows, groups=patient), SemiData(*rows)


def test_patients_labelled_at_random_get_nearly_equal_weights() -> None:
    """A model that has seen a patient's other rows knows whether the patient is labelled."""
    grouped, alone = by_patient((0.3, 0.3), patients=100, seed=0, columns=30)
    assert propensity_from_x(alone).effective_labels < 0.8 * alone.n_labelled
    assert propensity_from_x(grouped).effective_labels > 0.97 * grouped.n_labelled


def test_fewer_patients_than_folds() -> None:
    grouped, _ = by_patient((0.5, 0.5), patients=3, seed=1)
    assert 0 < grouped.n_labelled < len(grouped)
    found = propensity_from_x(grouped)
    assert bool(found.values.isfinite().all())


def test_one_patient_is_refused() -> None:
    data = by_class(n=400)
    one = SemiData(data.x, data.y, groups=np.zeros(400, np.int64))
    with pytest.raises(ValueError, match="at least two must be labelled; got 1"):
        propensity_from_x(one)
    labelled = SemiData(data.x, data.y, groups=np.where(data.y.numpy() >= 0, 0, np.arange(400)))
    with pytest.raises(ValueError, match="at least two must be labelled; got 1"):
        propensity_from_y(labelled)


@pytest.mark.parametrize("method", ["em", "moments"])
def test_standard_errors_of_patients_are_right(method: str) -> None:
    """Over 60 simulated tables; taken as independent rows, they would be less than half of that."""
    found, errors, too_small = [], [], []
    for seed in range(60):
        grouped, alone = by_patient((0.4, 0.2), patients=120, seed=seed)
        own, other = (propensity_from_y(data, method=method) for data in (grouped, alone))
        found.append([one.propensity for one in own.classes])
        errors.append([one.standard_error for one in own.classes])
        too_small.append([one.standard_error for one in other.classes])
    spread = np.std(found, axis=0, ddof=1)
    np.testing.assert_allclose(np.mean(found, 0), (0.4, 0.2), atol=3.5 * spread.max() / 60**0.5)
    np.testing.assert_allclose(np.mean(errors, 0), spread, rtol=0.25)
    assert (np.mean(too_small, 0) < 0.6 * spread).all()


def test_effective_labels_are_kish_s() -> None:
    chance = torch.tensor([0.5, 0.25, 0.1])
    weights = [2.0, 4.0, 10.0]
    expected = sum(weights) ** 2 / sum(w * w for w in weights)
    assert effective_labels(chance) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("chances", "message"),
    [
        ([0.5, 0.5, 0.0, 0.5], "could never get a label.*exclude such rows"),
        ([0.5, 1.5, 0.5, 0.5], r"\(0, 1\]; 1 of 4 rows do not, the first is row 1: 1.5"),
        ([np.nan, 0.5, 0.5, 0.5], "row 0: nan"),
        ([0.5, 0.5], r"shape \(4,\)"),
    ],
)
def test_impossible_designs_are_refused(chances: list[float], message: str) -> None:
    data = SemiData(torch.rand(4, 2), [0, 1, -1, -1])
    with pytest.raises(ValueError, match=message):
        known_propensity(data, np.array(chances))


def test_what_can_be_given() -> None:
    data = by_class(n=600)
    found = propensity_of(data, "estimate-y")
    assert propensity_of(data, found) is found
    assert found.source == "estimated from y"
    assert propensity_of(data, np.full(600, 0.2)).source == "known"
    with pytest.raises(ValueError, match="'estimate-x'"):
        propensity_of(data, "guess")
    one = SemiData(torch.rand(6, 2), [0, 0, 0, 1, -1, -1])
    with pytest.raises(ValueError, match="'1' has 1"):
        propensity_of(one, "estimate-y")
    with pytest.raises(ValueError, match="some must have one and some not"):
        propensity_of(SemiData(torch.rand(4, 2), [0, 1, 0, 1]), "estimate-x")
