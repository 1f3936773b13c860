import math
import subprocess
import sys
import textwrap

import pandas as pd
import pytest
import torch

from dessl.evaluation import StreamingMetrics, metrics_from_logits, metrics_from_probabilities
from dessl.evaluation.metrics import summary as module

EXACT = (
    "n",
    "accuracy",
    "balanced_accuracy",
    "worst_class_accuracy",
    "macro_f1",
    "cross_entropy",
    "brier",
    "ece",
    "adaptive_ece",
    "debiased_ece",
)


@pytest.mark.parametrize("inputs", ["logits", "probabilities"])
@pytest.mark.parametrize("piece", [1, 37, 500])
@pytest.mark.parametrize("classes", [2, 5])
def test_pieces_give_what_the_whole_gives(draw, classes, piece, inputs):
    logits, y = draw(classes=classes)
    if inputs == "logits":
        values, whole = logits, metrics_from_logits(logits, y)
    else:
        values, whole = logits.softmax(1), metrics_from_probabilities(logits.softmax(1), y)
    accumulated = StreamingMetrics(classes, inputs=inputs)
    for first in range(0, 500, piece):
        accumulated.update(values[first : first + piece], y[first : first + piece])
    found = accumulated.compute()
    for name in EXACT:
        assert getattr(found, name) == pytest.approx(getattr(whole, name), rel=1e-12), name
    assert torch.equal(found.confusion, whole.confusion)
    assert abs(found.auc - whole.auc) <= found.auc_error + 1e-12
    assert 0 < found.auc_error < 0.01
    assert whole.auc_error == 0


def test_a_piece_is_worked_on_a_few_rows_at_a_time(draw, monkeypatch):
    logits, y = draw()
    monkeypatch.setattr(module, "CELLS_AT_ONCE", 50)
    accumulated = StreamingMetrics(4, inputs="logits")
    accumulated.update(logits.numpy(), y.tolist())
    whole = metrics_from_logits(logits, y)
    assert accumulated.compute().brier == pytest.approx(whole.brier, rel=1e-12)


def test_tables_are_cut_by_position_not_by_their_index(draw):
    logits, y = draw()
    table = pd.DataFrame(logits.numpy(), index=pd.Index(range(500), dtype=float) / 100)
    accumulated = StreamingMetrics(4, inputs="logits")
    accumulated.update(table, pd.Series(y.numpy(), index=table.index))
    assert accumulated.compute().n == 500
    assert torch.equal(accumulated.compute().confusion, metrics_from_logits(logits, y).confusion)


def test_the_auc_can_be_left_out(draw):
    logits, y = draw()
    accumulated = StreamingMetrics(4, inputs="logits", auc_bins=None)
    accumulated.update(logits, y)
    assert math.isnan(accumulated.compute().auc)
    assert math.isnan(accumulated.compute().auc_error)


def test_certain_probabilities_are_counted():
    accumulated = StreamingMetrics(2, inputs="probabilities")
    accumulated.update([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0 + 9e-7]], [1, 0, 1])
    assert accumulated.compute().auc == 1.0


@pytest.mark.parametrize(
    ("predictions", "y", "message"),
    [
        ([[0.5, 0.5]], [0], r"shape \(n, 3\); got \(1, 2\)"),
        (torch.zeros(0, 3), [], r"at least one; got shapes \(0, 3\) and \(0,\)"),
        ([[0.5, 0.5, 0.0]], [0, 1], r"at least one; got shapes \(1, 3\) and \(2,\)"),
        (torch.tensor(0.5), torch.tensor(0), r"at least one; got shapes \(\) and \(\)"),
        ([[0.5, 0.5, 0.5]], [0], "must sum to one"),
        ([[0.5, 0.5, 0.0]], [-1], "unlabelled"),
    ],
)
def test_wrong_pieces_are_refused(predictions, y, message):
    accumulated = StreamingMetrics(3, inputs="probabilities")
    with pytest.raises(ValueError, match=message):
        accumulated.update(predictions, y)


@pytest.mark.parametrize(
    ("classes", "settings", "message"),
    [
        (1, {"inputs": "logits"}, "classes must be at least 2"),
        (2, {"inputs": "scores"}, "inputs must be one of 'logits', 'probabilities'"),
        (2, {"inputs": "logits", "bins": 0}, "bins must be at least 1"),
        (2, {"inputs": "logits", "auc_bins": 1}, "auc_bins must be at least 2"),
    ],
)
def test_wrong_settings_are_refused(classes, settings, message):
    with pytest.raises(ValueError, match=message):
        StreamingMetrics(classes, **settings)


def test_nothing_seen_nothing_computed():
    with pytest.raises(ValueError, match="call update"):
        StreamingMetrics(2, inputs="logits").compute()


def peak_megabytes(rows, piece):
    """Peak memory of a fresh process, and how much of it came after the first tiny update."""
    code = f"""
        import resource, torch
        from dessl.evaluation import StreamingMetrics

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

        torch.set_num_threads(1)
        generator = torch.Generator().manual_seed(0)
        metrics = StreamingMetrics(1000, inputs="probabilities")
        metrics.update(torch.full((2, 1000), 1e-3), torch.tensor([0, 1]))
        before = peak()
        for first in range(0, {rows}, {piece}):
            p = torch.rand({piece}, 1000, generator=generator)
            p /= p.sum(dim=1, keepdim=True)
            metrics.update(p, torch.randint(1000, ({piece},), generator=generator))
        found = metrics.compute()
        assert found.n == {rows} + 2
        assert abs(found.auc - 0.5) < 0.01
        print(peak(), peak() - before)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    return tuple(float(part) for part in result.stdout.split())


@pytest.mark.slow
def test_memory_stays_small():
    """50,000 × 1,000 probabilities are 200 MB in float32 and twice that in float64."""
    _, added = peak_megabytes(rows=50_000, piece=2_000)
    assert added < 180


@pytest.mark.slow
def test_a_million_rows_of_a_thousand_classes_fit_in_two_gigabytes():
    peak, added = peak_megabytes(rows=1_000_000, piece=5_000)
    assert peak < 2_000
    assert added < 300
