"""Confidence and λ of the gradient on some rows, against loops; both parts of an experiment."""

import pytest
import torch
from torch import nn

from dessl.functional import cross_entropy, entropy
from dessl.surrogates import Entropy, PseudoLabel, as_is
from dessl_paper.catalogue import load_experiment
from dessl_paper.kinds.confidence import confidence_on, still_term
from dessl_paper.kinds.probe import probed
from dessl_paper.sources import generated
from dessl_paper.training import network


def test_against_one_backward_pass_a_row() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 4).double()
    x, y = torch.randn(30, 3, dtype=torch.float64), torch.randint(4, (30,))
    found = confidence_on(model, x, y, {"entropy": Entropy(view=as_is)}, n_labelled=6, at_once=7)
    p = model(x).softmax(-1).detach()
    accuracy = sum(int(p[i].argmax()) == int(y[i]) for i in range(30)) / 30
    assert found["accuracy"] == pytest.approx(accuracy)
    assert found["overconfidence"] == pytest.approx(float(p.amax(-1).mean()) - accuracy)
    gradients = []
    for term in (lambda z, i: cross_entropy(z, y[i : i + 1]), lambda z, _: entropy(z)):
        rows = [
            torch.autograd.grad(term(model(x[i : i + 1]), i).sum(), list(model.parameters()))
            for i in range(30)
        ]
        stacked = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
        gradients.append(stacked - stacked.mean(0))
    slope = (gradients[0] * gradients[1]).sum() / gradients[1].square().sum()
    assert found["gradient_lam_opt_entropy"] == pytest.approx(0.8 * slope.item())
    # The other rows are the whole pool: only the choice of the labelled ones is random.
    rest = gradients[0] - slope * gradients[1]
    ratio = (rest.square().sum() / gradients[0].square().sum()).item()
    assert found["gradient_least_ratio_entropy"] == pytest.approx(ratio)


def test_rows_learned_by_heart_have_their_pseudo_labels_gradient() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(3, 4), torch.randn(20, 3)
    y = model(x).argmax(-1)
    term = {"pseudo_label": PseudoLabel(threshold=0.0, view=as_is)}
    found = confidence_on(model, x, y, term, n_labelled=5)
    assert found["overconfidence"] < 0
    assert found["gradient_lam_opt_pseudo_label"] == pytest.approx(0.75, rel=1e-5)
    assert found["gradient_least_ratio_pseudo_label"] == pytest.approx(0, abs=1e-5)


def test_the_experiment_looks_at_the_rows_that_were_trained_on() -> None:
    experiment = load_experiment("confidence", "smoke")
    data = generated("cifar10", 60)
    keep = torch.arange(60) < 15
    model = network(experiment.model, data)()
    with torch.no_grad():
        model(torch.zeros(2, 3, 32, 32))
    right = generated("cifar10", 60)
    found, _ = probed(experiment, model, data.with_labels(keep))
    every, _ = probed(experiment, model, right)
    assert found["test_accuracy"] == every["test_accuracy"]
    assert found["training_overconfidence"] != every["training_overconfidence"]
    assert {metric for metric in experiment.metrics if "." not in metric} <= set(found)


def test_a_term_of_several_views_is_refused() -> None:
    with pytest.raises(ValueError, match="single view without randomness; FixMatch has several"):
        still_term({"name": "fixmatch"})
