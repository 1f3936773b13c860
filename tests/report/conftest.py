"""Facts of real, small runs: digits, three risks, two seeds."""

import dataclasses

import pytest
import torch
from torch import nn

import dessl
from dessl.evaluation.verdict import Verdict
from dessl.models import MLP
from dessl.results.facts import DataFacts, MethodFacts, RunFacts
from dessl.results.machine import machine_facts
from dessl.results.record import Record, thinned
from dessl.training import TrainPlan, train
from dessl_paper.comparison import by_seed, over_seeds

METHODS = (
    MethodFacts("complete case", "complete_case", "pseudo_label", 0.0),
    MethodFacts("PseudoLabel", "ssl", "pseudo_label", 1.0),
    MethodFacts("DePseudoLabel", "debiased", "pseudo_label", 1.0),
)
SEEDS = (0, 1)
PLAN = TrainPlan(
    steps=40,
    labelled_batch=32,
    unlabelled_batch=64,
    optimiser="adamw",
    learning_rate=0.005,
    evaluate_every=10,
)


def _network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), MLP(64, 10, hidden=(64,)))


def _trained(method: MethodFacts, lam: float, seed: int) -> Record:
    digits = dessl.data.load("digits")
    generator = torch.Generator().manual_seed(seed)
    draw = dessl.draw_labels(digits.y, 100, n_validation=20, generator=generator)
    data = digits.with_labels(draw)
    plan = dataclasses.replace(PLAN, risk=method.risk, lam=lam, seed=seed)
    surrogate = dessl.SURROGATES[method.surrogate]()
    result = train(_network, surrogate, data, plan)
    metrics = dessl.evaluate(result.model, data.test.x / 255, data.test.y)
    return Record(
        experiment="demo",
        profile="",
        key=f"{method.risk}-lam{lam:g}-seed{seed}",
        data="digits",
        labels=100,
        method=method.name,
        title=method.name,
        risk=method.risk,
        lam=lam,
        seed=seed,
        settings={},
        metrics=metrics.as_dict(),
        training={"selected_step": result.step, "steps": result.steps},
        made_with={},
        history=thinned(result.history),
    )


@pytest.fixture(scope="session")
def facts() -> RunFacts:
    """What three methods with two seeds found on digits."""
    runs = [_trained(method, method.lam, seed) for method in METHODS for seed in SEEDS]
    of = {method.name: [run for run in runs if run.method == method.name] for method in METHODS}
    baseline, *others = of
    comparisons = tuple(
        over_seeds(metric, name, baseline, *(by_seed(of[one], metric) for one in (name, baseline)))
        for name in others
        for metric in ("accuracy", "cross_entropy", "ece")
    )
    return RunFacts(
        title="Digits with 100 labels",
        command="dessl demo --out runs/demo",
        data=DataFacts(
            name="digits",
            rows=1437,
            labelled=80,
            unlabelled=1337,
            validation=20,
            test=360,
            test_unlabelled=0,
            class_names=tuple(str(digit) for digit in range(10)),
            shape=(1, 8, 8),
        ),
        methods=METHODS,
        runs=tuple(runs),
        comparisons=comparisons,
        verdict=Verdict("cannot tell yet", "Cannot tell yet from 100 labels.", 0.01, 200),
        settings=PLAN.as_dict(),
        made_with=machine_facts(),
        seconds=1.5,
        warnings=("Two seeds are few.",),
    )


@pytest.fixture(scope="session")
def hostile(facts: RunFacts) -> RunFacts:
    """The same facts of data whose names were chosen to break a page."""
    names = (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "سرطان الجلد",
        "שפיר",
        "x" * 300,
        "a name of many words " * 20,
        "染色体異常の一種である何か",
        "&amp; 'quoted'",
        "\u202enrut",
        "\x00 \x1b[31m",
    )
    new_name = {method.name: f"<b>{method.name}</b> " + "y" * 80 for method in facts.methods}
    return dataclasses.replace(
        facts,
        title="</title></script><script>alert(2)</script>",
        command="dessl fit '<i>a</i>.csv' --label " + "z" * 200,
        data=dataclasses.replace(
            facts.data,
            name='/data/<b>people</b> & "others".csv',
            class_names=names,
            feature_names=names * 5,
            left_out={"<i>id</i>": "one value for each row " * 10},
        ),
        methods=tuple(
            dataclasses.replace(method, name=new_name[method.name]) for method in facts.methods
        ),
        runs=tuple(dataclasses.replace(run, method=new_name[run.method]) for run in facts.runs),
        comparisons=tuple(
            dataclasses.replace(
                entry, method=new_name[entry.method], against=new_name[entry.against]
            )
            for entry in facts.comparisons
        ),
        verdict=dataclasses.replace(facts.verdict, sentence="<img src=x onerror=alert(3)> hurt."),
        settings={"<u>key</u>": ["</script>", None, 3]},
        warnings=("<script>alert(4)</script>",),
    )
