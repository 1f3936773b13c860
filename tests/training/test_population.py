"""A population against its runs one by one, and what it refuses."""

import copy
import dataclasses
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl.data import LabelDraw, SemiData, draw_labels
from dessl.evaluation import metrics_from_logits
from dessl.models import MLP, LeNet, MedCNN
from dessl.surrogates import (
    UPS,
    Combine,
    Entropy,
    FixMatch,
    MeanTeacher,
    PseudoLabel,
    Smooth,
    Surrogate,
)
from dessl.surrogates.base import Rows, Scores, as_is
from dessl.training import loop
from dessl.training.guard import DivergenceError
from dessl.training.member import TrainResult
from dessl.training.plan import TrainPlan
from dessl.training.population import train_population
from dessl.training.single import train
from dessl.training.stacked_runs import Population, PopulationRun

LAMS = ((0.5, "debiased"), (2.0, "ssl"), (0.0, "complete_case"), (1.0, "debiased"))
on_cuda = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def table(n: int = 150) -> SemiData:
    x = torch.randn(n, 5, generator=torch.Generator().manual_seed(0))
    return SemiData(x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long())


def images(n: int, side: int) -> SemiData:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    levels = torch.randint(0, 200, (n, 1, side, side), dtype=torch.uint8, generator=g)
    return SemiData(levels + (y * 25).to(torch.uint8).view(-1, 1, 1, 1), y)


def drawn(data: SemiData, split: int) -> LabelDraw:
    g = torch.Generator().manual_seed(split)
    return draw_labels(data.y, 30, n_validation=12, generator=g)


def sweep(data: SemiData) -> list[PopulationRun]:
    """Two splits of every risk, mixed, so that results must find their way back."""
    draws = [drawn(data, split) for split in range(2)]
    return [PopulationRun(k, draw, *each) for k, draw in enumerate(draws) for each in LAMS]


def small_mlp() -> nn.Module:
    return MLP(5, 3, hidden=(12,), dropout=0.0)


def dropping() -> nn.Module:
    return MLP(5, 3, hidden=(12,), dropout=0.3)


def plan_of(**changes: Any) -> TrainPlan:
    settings = {"steps": 12, "labelled_batch": 8, "unlabelled_batch": 13, "evaluate_every": 5}
    return TrainPlan(**{**settings, **changes})


CASES = {
    "mlp": (
        small_mlp,
        table,
        PseudoLabel(0.4),
        {"optimiser": "adamw", "learning_rate": 0.01, "weight_decay": 0.1, "ema": 0.9}
        | {"select": "macro_f1", "patience": 1, "evaluate_every": 2, "bound": "nonnegative"},
    ),
    "lenet": (
        lambda: LeNet(3, size=8),
        lambda: images(120, 8),
        Entropy(),
        {"schedule": "cosine", "ramp": "linear_ramp", "weight_decay": 0.01, "select": "accuracy"},
    ),
    "medcnn": (
        lambda: MedCNN(3, 1),
        lambda: images(60, 28),
        Entropy(),
        {"steps": 5, "evaluate_every": 2, "on": "all", "learning_rate": 0.01, "momentum": 0.0}
        | {"nesterov": False},
    ),
}


def assert_same(found: TrainResult, alone: TrainResult, tolerance: float) -> None:
    assert (found.step, found.steps, found.plan) == (alone.step, alone.steps, alone.plan)
    theirs = alone.model.state_dict()
    for name, value in found.model.state_dict().items():
        torch.testing.assert_close(value, theirs[name], rtol=tolerance, atol=tolerance)
    assert len(found.history) == len(alone.history)
    for mine, other in zip(found.history, alone.history, strict=True):
        for field in dataclasses.fields(mine):
            value, expected = getattr(mine, field.name), getattr(other, field.name)
            if field.name == "validation":
                expected = {name: expected[name] for name in value}
            if value is None:
                assert expected is None or field.name in ("correlation", "lam_opt")
            elif field.name != "steps_per_second":
                assert value == pytest.approx(
                    expected, rel=10 * tolerance, abs=10 * tolerance, nan_ok=True
                )


def compare(case: str, tolerance: float, device: str = "cpu", **changes: Any) -> None:
    model, make_data, surrogate, settings = CASES[case]
    data, plan = make_data().to(device), plan_of(**settings, **changes)
    runs = sweep(data)
    results = train_population(model, surrogate, data, runs, plan, progress=False)
    for run, found in zip(runs, results, strict=True):
        own = data.with_labels(run.draw)
        alone = train(model, surrogate, own, run.plan(plan), progress=False)
        assert_same(found, alone, tolerance)
        assert not found.model.training


@pytest.mark.parametrize(
    ("case", "tolerance"),
    [
        ("mlp", 1e-5),
        ("lenet", 1e-5),
        pytest.param("medcnn", 2e-4, marks=pytest.mark.slow),  # BatchNorm magnifies rounding
    ],
)
def test_a_population_is_its_runs_one_by_one(case: str, tolerance: float) -> None:
    compare(case, tolerance)


def test_propensities_are_each_run_s_own_rows() -> None:
    data = table()
    chances = torch.rand(150, generator=torch.Generator().manual_seed(3)) / 2 + 0.2
    data = SemiData(data.x, data.y, propensity=chances)
    kinds = (("inverse_propensity", 0.5), ("ssl", 0.5), ("inverse_propensity", 0.1))
    runs = [PopulationRun(k, drawn(data, k), lam, risk) for k in range(2) for risk, lam in kinds]
    plan = plan_of(on="all")  # of the debiased risk alone
    for run, found in zip(
        runs, train_population(small_mlp, "entropy", data, runs, plan), strict=True
    ):
        alone = train(small_mlp, "entropy", data.with_labels(run.draw), run.plan(plan))
        assert_same(found, alone, 1e-5)
    with pytest.raises(ValueError, match="needs the probability of each labelled row"):
        train_population(small_mlp, "entropy", table(), runs, plan)
    debiased = [PopulationRun(0, drawn(data, 0), 0.5)]
    (again,) = train_population(small_mlp, "entropy", data, debiased, plan_of())
    assert again.plan.risk == "inverse_propensity"


@pytest.mark.parametrize("case", [pytest.param(case, marks=on_cuda) for case in CASES])
def test_on_a_gpu_too(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A single run's convolutions are cuDNN's, in TensorFloat32 unless told otherwise.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    compare(case, 1e-3, "cuda", compile="off", graph="off")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("case", [pytest.param("lenet", marks=on_cuda)])
def test_compiled_and_captured_too(case: str) -> None:
    model, make_data, surrogate, settings = CASES[case]
    data = make_data().to("cuda")
    runs = sweep(data)
    plans = plan_of(**settings), plan_of(**settings, compile="off", graph="off")
    fast, slow = (
        train_population(model, surrogate, data, runs, plan, progress=False) for plan in plans
    )
    assert (fast[0].mode, slow[0].mode) == ("population compiled graph", "population")
    for mine, other in zip(fast, slow, strict=True):
        assert_same(mine, dataclasses.replace(other, plan=mine.plan), 1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own
def test_compiled_on_request() -> None:
    data = table()
    runs = [PopulationRun(0, drawn(data, 0), 1.0, risk) for risk in ("ssl", "debiased")]
    both = [
        train_population(small_mlp, Entropy(), data, runs, plan_of(compile=switch))
        for switch in ("off", "on")
    ]
    assert [results[0].mode for results in both] == ["population", "population compiled"]
    for off, on in zip(*both, strict=True):
        assert_same(on, dataclasses.replace(off, plan=on.plan), 1e-5)


def test_patience_ends_runs_apart() -> None:
    data = table()
    plan = plan_of(steps=60, evaluate_every=3, select="accuracy", patience=3, learning_rate=0.3)
    results = train_population(small_mlp, Entropy(), data, sweep(data), plan)
    ends = {result.steps for result in results}
    assert len(ends) > 1  # or the test shows nothing
    for result in results:
        waited = [event.step for event in result.history if event.step > result.step]
        assert len(waited) <= 3
        assert result.steps == result.history[-1].step
        best = max(event.validation["accuracy"] for event in result.history)
        selected = next(event for event in result.history if event.step == result.step)
        assert selected.validation["accuracy"] == best


def test_a_complete_case_sees_no_unlabelled_row() -> None:
    data = table()
    runs = [run for run in sweep(data) if run.risk == "complete_case"]
    seen = torch.cat([part for run in runs for part in run.draw[:2]])
    seen = torch.cat([seen, torch.arange(12)])  # and what the surrogate is tried on
    poisoned = copy.copy(data)
    poisoned.x = torch.full_like(data.x, torch.nan).index_copy(0, seen, data.x[seen])
    pair = [train_population(small_mlp, Entropy(), d, runs, plan_of()) for d in (data, poisoned)]
    for clean, other in zip(*pair, strict=True):
        for mine, theirs in zip(clean.model.parameters(), other.model.parameters(), strict=True):
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("select", ["last", "accuracy", "macro_f1"])
def test_a_run_that_diverges_leaves_the_others_alone(select: str) -> None:
    data = table()
    draw = drawn(data, 0)
    runs = [PopulationRun(0, draw, lam, "ssl") for lam in (1.0, 1e30)]
    plan = plan_of(steps=20, optimiser="sgd", learning_rate=0.1, select=select)
    with pytest.warns(UserWarning, match="λ = 1e\\+30 diverged at step"):
        good, bad = train_population(small_mlp, Entropy(), data, runs, plan)
    alone = train(small_mlp, Entropy(), data.with_labels(draw), runs[0].plan(plan))
    assert_same(good, alone, 1e-5)
    assert (good.diverged, bad.diverged) == (False, True)
    with pytest.raises(DivergenceError) as caught:
        train(small_mlp, Entropy(), data.with_labels(draw), runs[1].plan(plan))
    assert bad.steps == caught.value.step < 5
    assert bad.history == ()
    assert all(bool(torch.isfinite(p).all()) for p in bad.model.parameters())


@pytest.mark.parametrize("select", ["last", "brier"])
def test_weights_that_overflow_in_the_last_step_are_seen(select: str) -> None:
    data = table()
    plan = plan_of(steps=1, learning_rate=1e25, select=select)
    with pytest.warns(UserWarning, match="diverged at step 1"):
        (bad,) = train_population(small_mlp, Entropy(), data, sweep(data)[:1], plan)
    assert bad.diverged
    assert all(bool(torch.isfinite(p).all()) for p in bad.model.parameters())


def test_without_a_metric_to_select_by_the_last_weights_are_kept() -> None:
    data = table()
    first = (data.y == 0).nonzero().flatten()[:12]  # one class has no area under a curve
    rest = torch.tensor([row for row in range(len(data)) if row not in first])
    run = PopulationRun(0, LabelDraw(rest[:30], first, rest[30:]))
    plan = plan_of(select="auc")
    with pytest.warns(UserWarning, match="select='auc' is undefined on the validation rows"):
        (found,) = train_population(small_mlp, Entropy(), data, [run], plan)
    with pytest.warns(UserWarning, match="at step 5; a class may be missing"):
        alone = train(small_mlp, Entropy(), data.with_labels(run.draw), run.plan(plan))
    assert_same(found, alone, 1e-5)
    assert found.step == 12


def test_a_validation_part_of_its_own_serves_every_run() -> None:
    whole = table()
    pair = whole.x[100:], whole.y[100:]
    data = SemiData(whole.x[:100], whole.y[:100], validation=pair)
    g = torch.Generator().manual_seed(0)
    runs = [PopulationRun(seed, draw_labels(data.y, 30, generator=g)) for seed in range(2)]
    plan = plan_of(select="cross_entropy")
    results = train_population(small_mlp, Entropy(), data, runs, plan)
    for run, found in zip(runs, results, strict=True):
        alone = train(small_mlp, Entropy(), data.with_labels(run.draw), run.plan(plan))
        assert_same(found, alone, 1e-5)


class Sharing(nn.Module):
    """Two layers with one weight, and a buffer that no ``state_dict`` has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.full((5,), 0.5), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x * self.scale).relu()).relu())


def test_shared_weights_and_unsaved_buffers_are_trained_as_alone() -> None:
    data, plan = table(), plan_of(optimiser="adamw", ema=0.9, weight_decay=0.1)
    runs = sweep(data)[:2]
    for run, found in zip(
        runs, train_population(Sharing, Entropy(), data, runs, plan), strict=True
    ):
        alone = train(Sharing, Entropy(), data.with_labels(run.draw), run.plan(plan))
        assert_same(found, alone, 1e-5)
        assert found.model.first.weight is found.model.second.weight


class Counted(nn.Module):
    """A model with a whole number among its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)
        self.groups = nn.Parameter(torch.tensor(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def test_whole_numbers_stay_out_of_the_average() -> None:
    data, plan = table(), plan_of(ema=0.9)
    runs = sweep(data)[:2]
    for run, found in zip(
        runs, train_population(Counted, Entropy(), data, runs, plan), strict=True
    ):
        alone = train(Counted, Entropy(), data.with_labels(run.draw), run.plan(plan))
        assert_same(found, alone, 1e-5)


@pytest.mark.parametrize("chunk", [None, 1])
def test_one_module_handed_out_again_serves_every_run(chunk: int | None) -> None:
    data, model = table(), small_mlp()
    before = copy.deepcopy(model)
    runs = sweep(data)
    results = train_population(lambda: model, Entropy(), data, runs, plan_of(), chunk=chunk)
    for run, found in zip(runs, results, strict=True):
        own = data.with_labels(run.draw)
        alone = train(copy.deepcopy(before), Entropy(), own, run.plan(plan_of()))
        assert_same(found, alone, 1e-5)
    for mine, theirs in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(("model", "came"), [(small_mlp(), "MLP"), (lambda: 3, "int")])
def test_what_builds_no_model_is_refused(model: Any, came: str) -> None:
    data = table()
    with pytest.raises(TypeError, match=f"a function that builds an nn.Module.*got {came}"):
        train_population(model, Entropy(), data, sweep(data), plan_of())


def test_a_model_of_too_few_classes_is_refused() -> None:
    data = table()
    with pytest.raises(ValueError, match="data's 3 classes; it gives 2 for a row"):
        train_population(lambda: nn.Linear(5, 2), Entropy(), data, sweep(data), plan_of())


class Greedy(nn.Linear):
    """A model that asks for more memory than there is, in training."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            raise torch.OutOfMemoryError("no room")
        return super().forward(x)


def test_runs_that_do_not_fit_are_told_of_chunks() -> None:
    data = table()
    with pytest.raises(torch.OutOfMemoryError) as caught:
        train_population(lambda: Greedy(5, 3), Entropy(), data, sweep(data), plan_of())
    assert caught.value.__notes__ == ["2 runs at a time do not fit in memory: pass chunk=1."]


def test_dropout_draws_for_each_run_apart() -> None:
    data = table()
    twins = [PopulationRun(0, drawn(data, 0))] * 2
    one, other = train_population(lambda: MLP(5, 3, dropout=0.5), Entropy(), data, twins, plan_of())
    assert one.history[-1].loss != other.history[-1].loss
    assert 0 < one.history[-1].loss < 3


def test_half_precision_stays_near() -> None:
    data = table()
    runs = sweep(data)
    whole, half = (
        train_population(small_mlp, Entropy(), data, runs, plan_of(precision=precision))
        for precision in ("float32", "bf16")
    )
    for one, near in zip(whole, half, strict=True):
        assert near.history[-1].loss != one.history[-1].loss
        assert near.history[-1].loss == pytest.approx(one.history[-1].loss, rel=0.05)


@pytest.mark.parametrize("chunk", [1, 3])
def test_chunks_change_nothing(chunk: int) -> None:
    data = table()
    runs = sweep(data)
    whole = train_population(small_mlp, Entropy(), data, runs, plan_of())
    parts = train_population(small_mlp, Entropy(), data, runs, plan_of(), chunk=chunk)
    for one, other in zip(whole, parts, strict=True):
        assert_same(one, other, 1e-5)


class BrokenOffError(RuntimeError):
    pass


def assert_logits_kept(result: TrainResult, y: Tensor) -> None:
    """One (n, classes) for each event, whose accuracy and cross-entropy are the event's."""
    assert result.validation_logits is not None
    for logits, event in zip(result.validation_logits, result.history, strict=True):
        metrics = metrics_from_logits(logits, y)
        assert event.validation is not None
        assert metrics.accuracy == event.validation["accuracy"]
        assert metrics.cross_entropy == pytest.approx(event.validation["cross_entropy"], rel=1e-5)


@pytest.mark.parametrize(
    ("model", "settings"),
    [(small_mlp, {}), (dropping, {"optimiser": "adamw", "ema": 0.9, "steps": 14})],
)
def test_a_broken_off_sweep_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any, settings: dict[str, Any]
) -> None:
    data = table()
    runs, plan = sweep(data), plan_of(**settings, select="accuracy")
    whole = train_population(model, Entropy(), data, runs, plan, keep_logits=True)
    monkeypatch.setattr(Population, "save_seconds", 0.0)
    saved = loop.save_checkpoint

    def breaking(folder: Path, step: int, *rest: Any) -> Path:
        place = saved(folder, step, *rest)
        if folder.parent.name == "population-1" and step == 5:
            time.sleep(0.5)
        if folder.parent.name == "population-1" and step == 10:
            raise BrokenOffError
        return place

    monkeypatch.setattr(loop, "save_checkpoint", breaking)
    with pytest.raises(BrokenOffError):
        train_population(model, Entropy(), data, runs, plan, out=tmp_path, keep_logits=True)
    monkeypatch.setattr(loop, "save_checkpoint", saved)
    went_on = train_population(model, Entropy(), data, runs, plan, out=tmp_path, keep_logits=True)
    for run, one, other in zip(runs, whole, went_on, strict=True):
        assert_same(one, other, 0)
        assert_logits_kept(one, data.y[run.draw.validation])
        assert other.validation_logits is not None
        assert torch.equal(one.validation_logits, other.validation_logits)
    joint = [result.seconds for result in went_on if result.plan.risk != "complete_case"]
    assert sum(joint) > 0.5  # the first session's pause is counted
    other_lam = dataclasses.replace(runs[-1], lam=0.123)
    other_x = copy.copy(data)
    other_x.x = -data.x
    other_ids = SemiData(data.x, data.y, ids=torch.arange(len(data)).flip(0))
    other_rate = lambda: MLP(5, 3, hidden=(12,), dropout=0.1)  # noqa: E731
    wider = lambda: MLP(5, 3, hidden=(13,), dropout=0.0)  # noqa: E731
    for network, surrogate, its, some, complaint in (
        (model, Entropy(), data, runs[:-1], "runs: 8 there, 7 now"),
        (model, Entropy(), data, [*runs[:-1], other_lam], "different settings of the runs"),
        (model, Entropy(seed=1), data, runs, r"surrogate: 'Entropy\(seed=0\)' there"),
        (model, Entropy(), other_x, runs, "different rows or labels"),
        (model, Entropy(), other_ids, runs, "different rows or labels"),
        (other_rate, Entropy(), data, runs, "a different model"),
        (wider, Entropy(), data, runs, "parameters: 111 there, 120 now"),
    ):
        with pytest.raises(ValueError, match=rf"has a different run \(.*{complaint}"):
            train_population(network, surrogate, its, some, plan, out=tmp_path)
    with pytest.raises(FileExistsError, match="resume=True"):
        train_population(model, Entropy(), data, runs, plan, out=tmp_path, resume=False)


def test_histories_are_ready_for_json() -> None:
    data = table()
    results = train_population(small_mlp, Entropy(), data, sweep(data)[:2], plan_of())
    lines = [json.loads(event.as_line()) for event in results[0].history]
    assert [line["step"] for line in lines] == [5, 10, 12]


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))


class Mixing(Surrogate):
    """A term whose rows depend on each other."""

    def forward(self, model: Any, rows: Rows) -> Scores:
        logits = model(rows.x)
        return Scores(logits.std(0).sum() + logits[:, 0], logits.unsqueeze(0))


APART = FixMatch(weak=as_is, strong=as_is, targets="apart")  # no draws that could be found


@pytest.mark.parametrize(
    ("surrogate", "complaint"),
    [
        (MeanTeacher(), "MeanTeacher has state.*one by one"),
        (FixMatch(), "FixMatch gives different values.*draws at random.*one by one"),
        (Mixing(), "Mixing gives different values.*rows depend on each other"),
        (Smooth(MeanTeacher()), "MeanTeacher has state"),
        (Combine([Entropy(), FixMatch()]), "Combine gives different values"),
        (UPS(), "UPS makes passes that must not change.*BatchNorm"),
        (FixMatch(targets="apart"), "targets='apart' gives BatchNorm different batches"),
        (Smooth(APART), "FixMatch with targets='apart' gives BatchNorm different batches"),
        (Combine([Entropy(), APART]), "FixMatch with targets='apart' gives BatchNorm different"),
    ],
)
def test_surrogates_that_need_a_run_of_their_own_are_refused(
    surrogate: Surrogate, complaint: str
) -> None:
    data = table()
    with pytest.raises(ValueError, match=complaint):
        train_population(normalised, surrogate, data, sweep(data), plan_of())


@pytest.mark.parametrize(
    ("model", "surrogate"),
    [
        (normalised, Smooth(PseudoLabel(0.3), epsilon=0.1)),
        (normalised, Combine([Entropy(), PseudoLabel(0.3)], weights=[1.0, 0.5])),
        (small_mlp, UPS(3, positive=0.3)),
    ],
)
def test_terms_of_terms_and_side_passes_are_as_alone(model: Any, surrogate: Surrogate) -> None:
    data, plan = table(), plan_of()
    runs = sweep(data)
    results = train_population(model, surrogate, data, runs, plan)
    for run, found in zip(runs, results, strict=True):
        alone = train(model, surrogate, data.with_labels(run.draw), run.plan(plan))
        assert_same(found, alone, 2e-4)


def test_a_plain_function_is_a_surrogate_here_too() -> None:
    data = table()

    def gini(logits: Tensor) -> Tensor:
        return 1 - logits.softmax(-1).square().sum(-1)

    run = sweep(data)[0]
    (found,) = train_population(small_mlp, gini, data, [run], plan_of())
    assert_same(
        found, train(small_mlp, gini, data.with_labels(run.draw), run.plan(plan_of())), 1e-5
    )


def test_what_does_not_fit_together_is_refused() -> None:
    data = table()
    run = sweep(data)[0]
    g = torch.Generator().manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fewer = PopulationRun(0, draw_labels(data.y, 20, n_validation=2, generator=g))
        none = PopulationRun(0, draw_labels(data.y, 20, generator=g))
    refused = [
        ([], plan_of(), "at least one PopulationRun"),
        ([run, fewer], plan_of(), "same number of validation rows; got 2, 12"),
        ([run, dataclasses.replace(none)], plan_of(), "same number of labelled rows; got 18, 20"),
        ([run], plan_of(optimiser="muon"), "Muon works on whole matrices"),
        ([none], plan_of(select="accuracy"), "needs validation rows"),
    ]
    for runs, plan, complaint in refused:
        with pytest.raises(ValueError, match=complaint):
            train_population(small_mlp, Entropy(), data, runs, plan)
    with pytest.raises(ValueError, match="FromFunction is NaN or infinite for the first rows"):
        train_population(small_mlp, lambda z: z.sum(1) * torch.nan, data, [run], plan_of())
    for given, complaint in (
        ((data, [run.draw], plan_of()), "each of runs must be a PopulationRun; got LabelDraw"),
        ((data, run, plan_of()), "runs must be a list of PopulationRun; got one"),
        ((data, [run], {"steps": 3}), "plan must be a TrainPlan; got dict"),
        (((data.x, data.y), [run], plan_of()), "data must be a SemiData; got tuple"),
    ):
        with pytest.raises(TypeError, match=complaint):
            train_population(small_mlp, Entropy(), *given)
    with pytest.raises(ValueError, match="chunk must be at least 1"):
        train_population(small_mlp, Entropy(), data, [run], plan_of(), chunk=0)
