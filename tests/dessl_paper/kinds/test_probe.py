"""The probes: what is measured through a model, and λ_opt beside the paper's."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.report.tables import Table
from dessl.training import train
from dessl_paper.catalogue import load_experiment
from dessl_paper.kinds import probe
from dessl_paper.kinds.probe import findings as probe_findings
from dessl_paper.kinds.probe import probed
from dessl_paper.kinds.risk_curves import RiskSettings, _lams, loss_and_term
from dessl_paper.results import Results, read_results
from dessl_paper.sources import experiment_data
from dessl_paper.specification import Experiment, cells_of
from dessl_paper.targets import targets_at
from dessl_paper.training import network, shown, unlabelled_term


@pytest.fixture(scope="module")
def trained() -> tuple[nn.Module, SemiData]:
    """The smoke profile's model, and its data: the same in all three experiments."""
    experiment = load_experiment("risk-quality", "smoke")
    cell = cells_of(experiment)[0]
    data = experiment_data(experiment.data[0])
    result = train(
        network(experiment.model, data),
        unlabelled_term(cell.method.surrogate, experiment.views),
        data.with_labels(cell.draw(data.y)),
        cell.plan(experiment),
        transform=shown(experiment.views),
        progress=False,
    )
    return result.model, data


def changed(experiment: Experiment, **settings: object) -> Experiment:
    return dataclasses.replace(experiment, settings={**experiment.settings, **settings})


def by_hand(model: nn.Module, data: SemiData, views: dict, threshold: float) -> tuple:
    """L and the pseudo-label's H of every test row, with numpy from the logits of single rows."""
    model.eval()
    x = data.test.x.float() / 255
    mean, std = (torch.tensor(views[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.no_grad():
        logits = torch.cat([model(row[None]) for row in (x - mean) / std]).double().numpy()
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    most = log_p.max(1)
    loss = -log_p[np.arange(len(log_p)), data.test.y.numpy()]
    return loss, np.where(np.exp(most) > threshold, -most, 0.0), log_p


def test_the_risk_is_unbiased_and_its_variance_the_theory_s(trained) -> None:
    model, data = trained
    experiment = changed(load_experiment("risk-quality", "smoke"), splits=4000)
    metrics, arrays = probed(experiment, model, data)
    loss, h, _ = by_hand(model, data, experiment.views, threshold=0.3)
    slope = np.cov(loss, h)[0, 1] / h.var(ddof=1)
    assert metrics["oracle"] == pytest.approx(loss.mean(), rel=1e-5)
    assert metrics["oracle"] == pytest.approx(metrics["cross_entropy"], rel=1e-5)
    assert metrics["lam_opt"] == pytest.approx(slope * 110 / 120, rel=1e-3)
    assert metrics["correlation"] == pytest.approx(np.corrcoef(loss, h)[0, 1], rel=1e-3)
    assert metrics["share_with_h"] == pytest.approx((h > 0).mean())
    assert metrics["mean_h"] == pytest.approx(h.mean(), rel=1e-5)
    assert metrics["least_ratio"] == pytest.approx(1 - metrics["correlation"] ** 2)
    lams = np.array(arrays["lams"])
    assert len(lams) == 11
    assert np.abs(lams).max() == pytest.approx(2.5 * abs(metrics["lam_opt"]))
    debiased, ssl = np.array(arrays["debiased_mean"]), np.array(arrays["ssl_mean"])
    np.testing.assert_allclose(debiased, loss.mean(), atol=0.02)
    np.testing.assert_allclose(ssl - loss.mean(), lams * h.mean(), atol=0.02)
    assert metrics["debiased_largest_bias_in_errors"] < 4
    assert metrics["ssl_largest_bias_in_errors"] > 30
    assert metrics["ssl_largest_bias"] == pytest.approx(np.abs(ssl - loss.mean()).max(), rel=1e-4)
    np.testing.assert_allclose(arrays["ratio_empirical"], arrays["ratio_theory"], rtol=0.1)
    assert metrics["least_ratio_empirical"] == pytest.approx(metrics["least_ratio"], rel=0.1)
    assert all(low < high for low, high in zip(arrays["ssl_low"], arrays["ssl_high"], strict=True))


def test_the_gradient_s_curve_comes_from_every_row_s_gradient(trained) -> None:
    model, data = trained
    experiment = changed(load_experiment("gradient-variance", "smoke"), splits=60)
    metrics, arrays = probed(experiment, model, data)
    x = shown(experiment.views)(data.test.x)
    parameters = list(model.parameters())

    def gradient(value: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)])

    g_loss, g_h = [], []
    for row, label in zip(x, data.test.y, strict=True):
        log_p = model(row[None]).log_softmax(-1)[0]
        g_loss.append(gradient(-log_p[label]))
        log_p = model(row[None]).log_softmax(-1)[0]
        g_h.append(gradient(-log_p.max() * float(log_p.max().exp() > 0.3)))
    a, b = (torch.stack(g).double() for g in (g_loss, g_h))
    a, b = a - a.mean(0), b - b.mean(0)
    lam = float((a * b).sum() / b.square().sum()) * 110 / 120
    rho = float((a * b).sum() / (a.norm() * b.norm()))
    assert metrics["parameters"] == a.shape[1]
    assert metrics["lam_opt"] == pytest.approx(lam, rel=1e-3)
    assert metrics["correlation"] == pytest.approx(rho, rel=1e-3)
    assert metrics["least_ratio"] == pytest.approx(1 - rho**2, rel=1e-3)
    assert metrics["least_ratio_empirical"] == pytest.approx(metrics["least_ratio"], rel=0.25)
    _, h, _ = by_hand(model, data, experiment.views, threshold=0.3)
    assert metrics["lam_opt_of_the_risk"] != pytest.approx(lam, rel=0.01)
    assert h.max() > 0
    nearest = np.abs(np.array(arrays["lams"]) - lam).argmin()
    assert np.array(arrays["ratio_theory"]).argmin() == nearest


def test_lambda_opt_is_a_slope_times_the_share_of_unlabelled_rows(trained) -> None:
    model, data = trained
    experiment = load_experiment("lambda-opt", "smoke")
    metrics, arrays = probed(experiment, model, data)
    assert arrays == {}
    loss, h, log_p = by_hand(model, data, experiment.views, threshold=0.3)
    terms = {
        "pseudo_label": h,
        "pseudo_label_everywhere": -log_p.max(1),
        "entropy": -(np.exp(log_p) * log_p).sum(1),
    }
    sure = h > 0
    assert 0 < sure.sum() < 120
    for name, values in terms.items():
        slope, rho = np.polyfit(values, loss, 1)[0], np.corrcoef(values, loss)[0, 1]
        assert metrics[f"slope.{name}"] == pytest.approx(slope, rel=1e-3)
        assert metrics[f"lam_opt.{name}"] == pytest.approx(0.92 * slope, rel=1e-3)
        assert metrics[f"correlation.{name}"] == pytest.approx(rho, rel=1e-3)
        assert metrics[f"variance_ratio.{name}"] == pytest.approx(1 - 0.92 * rho**2, rel=1e-3)
        regime = sorted((metrics[f"regime_low.{name}"], metrics[f"regime_high.{name}"]))
        assert regime == pytest.approx(sorted((0.0, 2 * 0.92 * slope)), rel=1e-3)
    slope = np.polyfit(h[sure], loss[sure], 1)[0]
    assert metrics["slope.pseudo_label_confident"] == pytest.approx(slope, rel=1e-3)
    assert metrics["rows.pseudo_label_confident"] == sure.sum()
    assert metrics["rows.pseudo_label"] == 120
    assert metrics["rows.fixmatch"] == 120 > metrics["rows.fixmatch_confident"]
    paper = targets_at(experiment.targets)
    assert set(paper) < {name.removeprefix("lam_opt.") for name in metrics}


def test_fixmatch_s_views_are_drawn_anew_for_each_row_and_again_for_each_look(trained) -> None:
    model, data = trained
    experiment = load_experiment("lambda-opt", "smoke")
    surrogate = unlabelled_term({"name": "fixmatch", "threshold": 0.3}, experiment.views)
    again = unlabelled_term({"name": "fixmatch", "threshold": 0.3}, experiment.views)
    other = unlabelled_term({"name": "fixmatch", "threshold": 0.3}, experiment.views, seed=1)
    values = loss_and_term(surrogate, model, data.test)
    torch.testing.assert_close(loss_and_term(again, model, data.test), values)
    assert not torch.equal(loss_and_term(other, model, data.test).loss, values.loss)
    plain = loss_and_term(unlabelled_term({"name": "entropy"}, experiment.views), model, data.test)
    assert values.loss.dtype == values.h.dtype == torch.float64
    assert not torch.allclose(values.loss, plain.loss)


def test_rows_are_taken_in_parts_that_do_not_show(trained, monkeypatch) -> None:
    model, data = trained
    views = load_experiment("lambda-opt", "smoke").views
    whole = loss_and_term(unlabelled_term({"name": "entropy"}, views), model, data.test)
    monkeypatch.setattr("dessl_paper.kinds.risk_curves.AT_ONCE", 50)
    parts = loss_and_term(unlabelled_term({"name": "entropy"}, views), model, data.test)
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["risk-quality", "gradient-variance", "lambda-opt"])
def test_a_term_that_never_speaks_leaves_the_complete_case(trained, name) -> None:
    model, data = trained
    silent = [{"name": "pseudo_label", "threshold": 1.0}]
    outcome = probed(changed(load_experiment(name, "smoke"), terms=silent), model, data)
    json.dumps(outcome, allow_nan=False)
    metrics, arrays = outcome
    suffix = ".pseudo_label" if name == "lambda-opt" else ""
    assert metrics[f"lam_opt{suffix}"] == 0
    assert metrics[f"correlation{suffix}"] == 0
    if name != "lambda-opt":
        assert arrays["ratio_theory"] == arrays["ratio_empirical"] == [1.0] * 11


def test_a_model_that_is_sure_of_no_row_has_no_lambda_of_the_sure_ones(trained) -> None:
    model, data = trained
    shy = {"name": "pseudo_label", "as": "shy", "threshold": 1.0, "confident_rows_alone": True}
    experiment = changed(load_experiment("lambda-opt", "smoke"), terms=[shy, {"name": "entropy"}])
    metrics, _ = probed(experiment, model, data)
    assert (metrics["lam_opt.shy"], metrics["rows.shy"]) == (None, 0)
    assert metrics["lam_opt.entropy"] is not None


@pytest.mark.parametrize(
    ("best", "ends"), [(2.0, (0.0, 5.0)), (-2.0, (-5.0, 5.0)), (0.0, (0.0, 2.5))]
)
def test_curves_reach_past_lambda_opt_on_the_side_where_it_is(best, ends) -> None:
    lams = _lams(best, RiskSettings("risk", 10, 10, 2.5, 11, ()))
    np.testing.assert_allclose(lams, np.linspace(*ends, 11))


def test_what_is_not_finite_is_none(trained) -> None:
    model, data = trained
    rows = torch.zeros(120, dtype=torch.int64)
    rows[-1] = 1  # all alike but one, which neither split draws: no spread to divide by
    drawn = torch.Generator().manual_seed(0)
    assert all(torch.randperm(120, generator=drawn)[0] != 119 for _ in range(2))
    test = (data.test.x[rows], data.test.y[rows])
    two = SemiData(data.x, data.y, test=test, layout="NCHW")
    experiment = changed(load_experiment("risk-quality", "smoke"), labelled=1, splits=2)
    metrics, arrays = json.loads(json.dumps(probed(experiment, model, two), allow_nan=False))
    assert metrics["debiased_largest_bias_in_errors"] is None
    assert metrics["oracle"] == pytest.approx(metrics["cross_entropy"], rel=1e-5)
    assert set(arrays["ratio_empirical"]) == {None}  # 0/0 at each λ
    assert None not in arrays["ratio_theory"]


class Undecided(nn.Module):
    """The same logits for every row, to the last bit."""

    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), 10)


def test_a_loss_that_does_not_vary_is_refused(trained) -> None:
    _, data = trained
    with pytest.raises(ValueError, match="must vary over the rows"):
        probed(load_experiment("risk-quality", "smoke"), Undecided(), data)


def test_a_probe_that_cannot_be_is_refused(trained) -> None:
    model, data = trained
    experiment = load_experiment("gradient-variance", "smoke")
    with pytest.raises(ValueError, match="the probe of gradient-variance must be one of 'risk'"):
        probed(changed(experiment, probe="colour"), model, data)
    several = [{"name": "fixmatch", "threshold": 0.3}]
    with pytest.raises(ValueError, match="single view without randomness; FixMatch has several"):
        probed(changed(experiment, terms=several), model, data)
    with pytest.raises(ValueError, match="must have one unlabelled term; got 2"):
        probed(changed(experiment, terms=2 * several), model, data)


def test_the_model_is_looked_at_in_evaluation_mode_and_given_back_in_its_own(trained) -> None:
    model, data = trained
    experiment = load_experiment("lambda-opt", "smoke")
    noisy = nn.Sequential(model, nn.Dropout(0.9)).train()
    first, second = (probed(experiment, noisy, data)[0] for _ in range(2))
    assert first == second
    assert noisy.training
    assert not math.isnan(first["lam_opt.entropy"])


SHARED_RANGE = "λ at which every model's variance is below the complete case's"


def cell(table: Table, row: str, heading: str, nth: int = 0) -> str:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    places = [k for k, name in enumerate(table.headings) if name == heading]
    return found[places[nth]]


def test_probes_have_their_numbers(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("lambda-opt"))
    _, terms = probe.tables(results)
    values = [record.metrics["lam_opt.entropy"] for record in results.records]
    mean = f"{np.mean(values):.3f}".replace("-", "−")
    assert cell(terms, "entropy", "λ_opt").startswith(f"{mean} ± ")
    assert cell(terms, "entropy", "paper's") == "1.670"
    assert cell(terms, "entropy", SHARED_RANGE)
    (risk,) = probe.tables(read_results(smoke("risk-quality")))
    (record,) = read_results(smoke("risk-quality")).records
    shown = cell(risk, "risk on all test rows (oracle)", "ours")
    assert shown == f"{record.metrics['oracle']:.3f} (1)"


@pytest.mark.parametrize(
    ("ranges", "shown"),
    [
        ([(0.0, 0.188), (-1.948, 0.0)], "none"),
        ([(0.0, 0.0)], "none"),
        ([(0.0, 2.22), (0.0, 1.692), (0.0, 1.899)], "0.000 to 1.692"),
        ([(-3.0, 0.0), (-1.5, 0.0)], "−1.500 to 0.000"),
        ([(0.0, 2.0), (None, None)], "0.000 to 2.000"),
    ],
)
def test_variance_is_below_where_it_is_so_in_every_model(
    results_of: Callable[..., Results],
    ranges: list[tuple[float | None, float | None]],
    shown: str,
) -> None:
    splits = [
        {"lam_opt.entropy": 1.0, "regime_low.entropy": low, "regime_high.entropy": high}
        for low, high in ranges
    ]
    results = results_of(load_experiment("lambda-opt", "paper"), {("complete_case", 0.0): splits})
    (terms,) = probe.tables(results)
    assert cell(terms, "entropy", SHARED_RANGE) == shown


@pytest.mark.parametrize(
    ("fixmatch_lam", "models", "outcome"),
    [(0.3, 3, "agrees"), (1.2, 3, "differs"), (0.3, 1, "open")],
)
def test_the_order_of_lambdas_is_the_papers_or_not(
    results_of: Callable[..., Results], fixmatch_lam: float, models: int, outcome: str
) -> None:
    lams = {"entropy": 1.0, "pseudo_label": 18.0, "fixmatch": fixmatch_lam}
    splits = [
        {f"lam_opt.{name}": lam + 0.01 * split for name, lam in lams.items()}
        for split in range(models)
    ]
    results = results_of(load_experiment("lambda-opt", "paper"), {("complete_case", 0.0): splits})
    found = probe_findings(results)[-1]
    assert found.outcome == outcome
    assert found.text.endswith("in the paper: fixmatch, entropy and pseudo label.")
