import math

import numpy as np
import pandas as pd
import pytest
import torch

from dessl.evaluation.metrics import benefit_ratio, benefit_ratio_std

# The paper's per-class table on CIFAR-10: accuracies in percent, printed ratios.
COMPLETE_CASE = [86.94, 95.26, 80.46, 70.08, 88.88, 79.66, 93.12, 90.96, 94.12, 93.18]
FIXMATCH = [95.94, 97.54, 90.80, 82.50, 95.86, 87.16, 97.84, 96.94, 97.26, 96.82]
FIXMATCH_RATIO = [0.88, 0.68, 0.68, 0.56, 0.78, 0.53, 0.80, 0.83, 0.67, 0.84]
DE_FIXMATCH = [96.62, 98.22, 92.64, 87.16, 97.26, 90.98, 98.62, 97.64, 98.06, 97.20]
DE_FIXMATCH_RATIO = [0.94, 0.89, 0.80, 0.78, 0.94, 0.81, 0.94, 0.92, 0.84, 0.93]


def implied_supervised(accuracies, ratios):
    """What full supervision must have reached for the printed ratio to hold."""
    rows = zip(accuracies, COMPLETE_CASE, ratios, strict=True)
    return [c + (a - c) / r for a, c, r in rows]


@pytest.mark.parametrize(
    ("accuracies", "ratios", "printed"),
    [(FIXMATCH, FIXMATCH_RATIO, 0.12), (DE_FIXMATCH, DE_FIXMATCH_RATIO, 0.06)],
    ids=["FixMatch", "DeFixMatch"],
)
def test_the_paper_prints_sample_standard_deviations(accuracies, ratios, printed):
    supervised = implied_supervised(accuracies, ratios)
    assert benefit_ratio(accuracies, COMPLETE_CASE, supervised).tolist() == pytest.approx(ratios)
    value = benefit_ratio_std(accuracies, COMPLETE_CASE, supervised)
    assert round(value, 2) == printed


def test_the_population_form_would_not_give_the_paper_s_fixmatch():
    mean = sum(FIXMATCH_RATIO) / 10
    assert round(math.sqrt(sum((r - mean) ** 2 for r in FIXMATCH_RATIO) / 10), 2) == 0.11


def test_the_two_methods_imply_one_supervised_model():
    """Both columns of ratios were made with the same supervised accuracies, within rounding."""
    first = torch.tensor(implied_supervised(FIXMATCH, FIXMATCH_RATIO))
    second = torch.tensor(implied_supervised(DE_FIXMATCH, DE_FIXMATCH_RATIO))
    assert float((first - second).abs().max()) < 0.3
    for accuracies, ratios in ((FIXMATCH, FIXMATCH_RATIO), (DE_FIXMATCH, DE_FIXMATCH_RATIO)):
        crossed = benefit_ratio(accuracies, COMPLETE_CASE, (first + second) / 2)
        assert crossed.tolist() == pytest.approx(ratios, abs=0.01)


def test_no_room_no_ratio():
    ratio = benefit_ratio([0.9, 0.8, math.nan, 0.6], [0.8, 0.8, 0.5, 0.7], [0.9, 0.8, 0.9, 0.8])
    assert ratio.isnan().tolist() == [False, True, True, False]
    assert float(ratio[3]) == pytest.approx(-1.0)
    std = benefit_ratio_std([0.9, 0.8, 0.6], [0.8, 0.8, 0.7], [0.9, 0.8, 0.8])
    assert std == pytest.approx(math.sqrt(2))
    assert math.isnan(benefit_ratio_std([0.9, 0.8], [0.8, 0.8], [0.9, 0.8]))


def test_no_ratio_where_full_supervision_is_below_the_complete_case():
    ssl, alone, everything = [0.0, 0.95], [0.875, 0.9], [0.25, 0.99]
    ratio = benefit_ratio(ssl, alone, everything).tolist()
    assert ratio == pytest.approx([math.nan, 0.05 / 0.09], nan_ok=True)
    assert math.isnan(benefit_ratio_std(ssl, alone, everything))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_rounding_is_no_room(kind):
    alone = torch.tensor([0.3, 0.7], dtype=kind)
    everything = torch.stack([torch.nextafter(alone[0], alone[1]), alone[1] + 0.1])
    ratio = benefit_ratio(torch.tensor([0.5, 0.75], dtype=kind), alone, everything)
    assert ratio.tolist() == pytest.approx([math.nan, 0.5], nan_ok=True, rel=1e-5)
    assert benefit_ratio([0.5], [0.0], [0.0]).isnan().all()


def test_accuracies_come_from_every_array():
    ssl, supervised = torch.tensor([0.9, 0.8], requires_grad=True), np.array([0.8, 1.0])[::-1]
    alone = pd.Series([0.8, 0.7], index=[5, 6])
    assert benefit_ratio_std(ssl, alone, supervised) == pytest.approx(math.sqrt(0.125))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"ssl \(2,\), complete_case \(1,\), supervised \(2,\)"):
        benefit_ratio([0.9, 0.8], [0.8], [0.9, 0.8])
