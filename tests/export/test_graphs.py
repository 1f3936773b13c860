"""Every teacher as a module of tensors predicts as the teacher does."""

from collections.abc import Callable

import pytest
import torch
from sklearn.naive_bayes import GaussianNB

from dessl.data import SemiData
from dessl.export import graphs
from dessl.export.graphs import (
    MEMBERS,
    ExportError,
    Probabilities,
    exported_members,
    member_module,
    probabilities_of,
)
from dessl.recipes import TaughtPredictor
from dessl.teachers import (
    KINDS,
    FromClassifier,
    Gaussians,
    Graph,
    Kernel,
    Linear,
    NetworkSetting,
    Sparse,
    Trees,
    learn_from_answers,
)


@pytest.mark.parametrize("d", [3, 70])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "make",
    [lambda: Linear(0.03), lambda: Kernel(0.5), lambda: Trees(20), Graph, Gaussians, Sparse],
    ids=["linear", "kernel", "trees", "graph", "gaussians", "sparse"],
)
def test_a_member_predicts_as_its_teacher(
    fitted: Callable, rows: Callable, make: object, d: int, n_classes: int
) -> None:
    teacher = fitted(make(), d, n_classes)
    x = rows(50, 2, d)
    with torch.no_grad():
        found = member_module(teacher.name, teacher)(x)
    assert torch.allclose(found, teacher.predict_log_proba(x), rtol=0, atol=1e-6)


def test_every_kind_of_tensors_is_there() -> None:
    assert set(KINDS) - set(MEMBERS) == {"boosting"}  # whose trees only its library reads


@pytest.mark.parametrize("anchor", [0.3, 0.0])
def test_a_pool_predicts_as_the_pool(make_pool: Callable, rows: Callable, anchor: float) -> None:
    model = make_pool(Linear(), Graph(), Kernel(), Gaussians(), Trees(5), anchor=anchor)
    x = rows(50, 2)
    assert torch.allclose(probabilities_of(model)(x).double(), model(x).exp(), rtol=0, atol=1e-6)
    alone = probabilities_of(model, networks_only=True)(x)
    assert torch.allclose(alone, model.networks(x).exp(), atol=1e-6)
    assert model.networks.members[0].weight.requires_grad  # the model itself stays as it was


def test_a_student_predicts_without_its_teacher(rows: Callable) -> None:
    x = rows(120, 0)
    y = (x[:, 0] > 10).long()
    data = SemiData(x, torch.where(torch.arange(120) < 30, y, -1))
    setting = NetworkSetting(steps=5, student_steps=5)
    model = TaughtPredictor(learn_from_answers(data, y, setting=setting, seed=0))
    found = probabilities_of(model)(rows(20, 2))
    assert torch.allclose(found.double(), model(rows(20, 2)).exp(), rtol=0, atol=1e-6)
    assert model.taught.others
    assert set(model.taught.others) <= set(exported_members(model))
    assert "tree student" in exported_members(model)
    alone = TaughtPredictor(model.taught.networks_alone())
    found = probabilities_of(model, networks_only=True)(rows(20, 2))
    assert torch.allclose(found.double(), alone(rows(20, 2)).exp(), rtol=0, atol=1e-6)
    assert exported_members(model, networks_only=True) == ("networks",)


def test_what_is_not_made_of_tensors_is_named(fitted: Callable) -> None:
    own = fitted(FromClassifier(GaussianNB()))
    with pytest.raises(ExportError, match=r"'GaussianNB' cannot be exported.*--networks-only"):
        member_module("GaussianNB", own)


def test_a_graph_that_looks_not_at_all_rows_is_refused(
    fitted: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "EXACT_UP_TO", 10)
    with pytest.raises(ExportError, match=r"it has 70 rows, and above 10 .* approximate"):
        member_module("graph", fitted(Graph()))


def test_rows_with_two_neighbours_equally_far_are_known() -> None:
    grid = torch.arange(20.0)[:, None]
    graph = Graph().fit(grid[:4], torch.tensor([0, 1, 0, 1]), grid[4:], 2)
    member = member_module("graph", graph)
    # Four on each side of 9.5; nine within reach of 10, of which the last two are equally far.
    z = member.space(torch.tensor([[9.5], [10.0], [10.1]]))
    assert member.tied(z).tolist() == [False, True, False]
    whole = Probabilities(member)
    assert whole.tied(torch.tensor([[9.5], [10.0], [10.1]])).tolist() == [False, True, False]
    assert whole.tied_share() == pytest.approx(12 / 20)  # all but four at each end
