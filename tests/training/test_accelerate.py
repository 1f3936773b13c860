"""Compiled and captured steps end where eager ones do; what does not work says so."""

import logging
from typing import Any

import pytest
import torch
from torch import nn

from dessl import SemiData
from dessl.surrogates import Entropy, FixMatch, MeanTeacher
from dessl.training import TrainResult, train
from dessl.training.accelerate import unmoved
from dessl.training.run import Run

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def images(device: str) -> SemiData:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(160) % 2
    x = torch.randint(128, (160, 3, 8, 8), generator=generator) + 127 * y[:, None, None, None]
    x = x.clamp(max=255).to(torch.uint8)
    labels = torch.where(torch.arange(120) < 20, y[:120], -1)
    return SemiData(x[:120], labels, validation=(x[120:], y[120:])).to(device)


def network() -> nn.Module:
    # No bias before BatchNorm: its gradient is rounding, which AdamW would make steps of.
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(288, 2),
    )


def test_a_trial_step_leaves_no_trace(make_data: Any, make_model: Any, make_plan: Any) -> None:
    data, plan = make_data(), make_plan(optimiser="adamw", ema=0.9)
    run = Run(make_model(), MeanTeacher(), data, plan, None)
    rows = torch.cat(run.batches.draw())

    def state() -> list[torch.Tensor]:
        step = run.step
        assert step.average is not None
        modules = (step.model, step.surrogate, step.average.model)
        tensors = [value for module in modules for value in module.state_dict().values()]
        kept = [value.clone() for value in tensors if isinstance(value, torch.Tensor)]
        random = [torch.get_rng_state(), step.surrogate.generator(data.device).get_state()]
        return [*kept, *random, *(t.clone() for t in step.totals.tensors)]

    before = state()
    with unmoved(run.step):
        run.step(rows, 0.5)
        assert not all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert all(not tensor.any() for tensor in run.step.optimiser.state_tensors())
    run.step(rows, 0.5)
    moved = [t.clone() for t in run.step.optimiser.state_tensors()]
    with unmoved(run.step):
        run.step(rows, 0.5)
    assert all(map(torch.equal, moved, run.step.optimiser.state_tensors()))


def test_what_cannot_be_had_here_is_refused(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    with pytest.raises(ValueError, match="graph='on' needs CUDA; the data is on cpu"):
        train(make_model, Entropy(), make_data(), make_plan(graph="on"))


def test_falling_back_says_why(
    make_data: Any,
    make_model: Any,
    make_plan: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(function: Any, **options: Any) -> Any:
        raise RuntimeError("no compiler here\nand more")

    data = make_data()
    plain = train(make_model, Entropy(), data, make_plan(compile="off"))
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(torch, "compile", broken)
        with pytest.raises(RuntimeError, match="no compiler here"):
            train(make_model, Entropy(), data, make_plan(compile="on"))
        run = Run(make_model(), Entropy(), data, make_plan(), None)
        fast = run.accelerated
        fast._plain, fast._compile = False, True  # as on CUDA, where "auto" tries
        fast(torch.cat(run.batches.draw()), 0.1, 0.5)
    assert fast.mode == plain.mode == "eager"
    assert [r.getMessage() for r in caplog.records] == [
        "the step is not compiled: no compiler here"
    ]


@pytest.mark.slow
def test_a_compiled_run_ends_where_an_eager_one_does(make_plan: Any) -> None:
    plan = {"lam": 0.5, "ema": 0.9, "learning_rate": 0.01}
    eager = train(network, FixMatch(0.6), images("cpu"), make_plan(**plan))
    compiled = train(network, FixMatch(0.6), images("cpu"), make_plan(compile="on", **plan))
    assert compiled.mode == "compiled"
    assert_close(eager, compiled, 1e-4)


@cuda
@pytest.mark.cuda
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize("risk", ["complete_case", "ssl", "debiased"])
def test_with_and_without_graph_runs_end_alike(optimiser: str, risk: str, make_plan: Any) -> None:
    settings = {"lam": 0.5, "ema": 0.9, "learning_rate": 0.01, "optimiser": optimiser, "risk": risk}
    ways = {"eager": ("off", "off"), "graph": ("off", "on"), "compiled graph": ("on", "on")}
    ends = {}
    for mode, (compiled, graph) in ways.items():
        plan = make_plan(compile=compiled, graph=graph, **settings)
        ends[mode] = train(network, FixMatch(0.6), images("cuda"), plan)
        assert ends[mode].mode == mode
    assert_close(ends["eager"], ends["graph"], 1e-4)
    assert_close(ends["eager"], ends["compiled graph"], 1e-3)


@cuda
@pytest.mark.cuda
@pytest.mark.parametrize("targets", ["joint", "apart"])
def test_muon_and_both_ways_to_guess_are_captured_too(targets: Any, make_plan: Any) -> None:
    ends = []
    for graph in ("off", "on"):
        plan = make_plan(lam=0.5, optimiser="muon", learning_rate=1e-3, compile="off", graph=graph)
        ends.append(train(network, FixMatch(0.6, targets=targets), images("cuda"), plan))
    assert [end.mode for end in ends] == ["eager", "graph"]
    assert_close(*ends, 1e-2)  # bfloat16, and small singular values grow


@cuda
@pytest.mark.cuda
def test_a_captured_run_resumes(make_plan: Any, tmp_path: Any) -> None:
    plan = make_plan(lam=0.5, ema=0.9, learning_rate=0.01, graph="on", compile="off")
    whole = train(network, FixMatch(0.6), images("cuda"), plan)

    class StopError(Exception):
        pass

    def stop(event: Any) -> None:
        if event.step == 8:
            raise StopError

    with pytest.raises(StopError):
        train(network, FixMatch(0.6), images("cuda"), plan, out=tmp_path, callbacks=[stop])
    assert_close(whole, train(network, FixMatch(0.6), images("cuda"), plan, out=tmp_path), 1e-4)


@cuda
@pytest.mark.cuda
def test_no_captured_step_waits_for_the_device(make_plan: Any, no_waiting: Any) -> None:
    plan = make_plan(lam=0.5, ema=0.9, graph="on", compile="off")
    run = Run(network(), FixMatch(0.6), images("cuda"), plan, None)
    run.take(0)
    with no_waiting():
        for step in range(1, 11):  # some epochs of both streams
            run.take(step)
    assert run.step.totals.troubles() == [None]


def assert_close(one: TrainResult, other: TrainResult, tolerance: float) -> None:
    for key, value in one.model.state_dict().items():
        torch.testing.assert_close(
            value, other.model.state_dict()[key], rtol=tolerance, atol=tolerance
        )
    for a, b in zip(one.history, other.history, strict=True):
        assert a.risk == pytest.approx(b.risk, rel=10 * tolerance)
        assert a.mask_labelled == pytest.approx(b.mask_labelled, abs=0.05)
