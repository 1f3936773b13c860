import time
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from torch import Tensor

from dessl.teachers import (
    FromClassifier,
    Gaussians,
    Graph,
    Kernel,
    Linear,
    Teacher,
    Trees,
    out_of_fold,
)
from dessl.teachers.crossfit import (
    FOLDS,
    each_out_of_fold,
    selected_by_others,
    stratified_folds,
)
from dessl.teachers.graph import SharedEdges

TEACHERS = [
    Graph(0.95), Linear(), Kernel(), Gaussians(), Trees(20), FromClassifier(GaussianNB()),
]  # fmt: skip


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda t: t.name)
def test_a_rows_own_label_plays_no_part(blobs: Callable, teacher: Teacher) -> None:
    rows = blobs()
    one = out_of_fold(teacher, rows.x_l, rows.y_l, rows.x_u, rows.folds, 3)
    held = rows.folds == 2
    flipped = torch.where(held, (rows.y_l + 1) % 3, rows.y_l)
    two = out_of_fold(teacher, rows.x_l, flipped, rows.x_u, rows.folds, 3)
    assert one[held].numpy() == pytest.approx(two[held].numpy(), abs=1e-5)
    assert not torch.allclose(one[~held], two[~held])


@pytest.mark.parametrize("teacher", TEACHERS, ids=lambda t: t.name)
def test_labels_of_no_fold_are_always_trained_on(blobs: Callable, teacher: Teacher) -> None:
    rows = blobs()
    folds = rows.folds.clone()
    folds[:3] = -1
    found = out_of_fold(teacher, rows.x_l, rows.y_l, rows.x_u, folds, 3)
    assert found[:3].isnan().all()
    assert found[3:].isfinite().all()
    assert found[3:].exp().sum(1).numpy() == pytest.approx(1)
    flipped = rows.y_l.clone()
    flipped[:3] = (flipped[:3] + 1) % 3
    again = out_of_fold(teacher, rows.x_l, flipped, rows.x_u, folds, 3)
    assert not torch.allclose(found[3:], again[3:])


def test_graphs_together_are_graphs_apart(blobs: Callable) -> None:
    rows = blobs()
    edges = SharedEdges()
    graphs = [Graph(a, s, edges=edges) for a in (0.5, 0.95) for s in (0.1, 1.0)]
    arguments = (rows.x_l, rows.y_l, rows.x_u, rows.folds, 3)
    together = each_out_of_fold([*graphs, Linear()], *arguments)
    for graph in graphs:
        apart = out_of_fold(Graph(graph.alpha, graph.smoothing), *arguments)
        assert together[graph.name].numpy() == pytest.approx(apart.numpy(), abs=1e-6)
    assert "linear C=1" in together


class _Careless:
    name = "careless"

    def __init__(self, answer: Callable[[Tensor], Tensor]) -> None:
        self.answer = answer

    def fit(self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int) -> "_Careless":
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        return self.answer(x)


def test_a_teachers_wrong_answer_is_named(blobs: Callable) -> None:
    rows = blobs()
    arguments = (rows.x_l, rows.y_l, rows.x_u, rows.folds, 3)
    with pytest.raises(ValueError, match=r"'careless' must return .* shape"):
        out_of_fold(_Careless(lambda x: torch.zeros(len(x), 2)), *arguments)
    with pytest.raises(ValueError, match="finite log-probabilities"):
        out_of_fold(_Careless(lambda x: torch.zeros(len(x), 3).log()), *arguments)


def test_wrong_folds_are_refused(blobs: Callable) -> None:
    rows = blobs()
    with pytest.raises(ValueError, match="one number for each"):
        out_of_fold(Linear(), rows.x_l, rows.y_l, rows.x_u, rows.folds[1:], 3)
    with pytest.raises(ValueError, match="hold some labels out"):
        out_of_fold(Linear(), rows.x_l, rows.y_l, rows.x_u, torch.full((40,), -1), 3)


def test_folds_are_even_and_each_class_is_spread() -> None:
    y = torch.tensor([0] * 37 + [1] * 11 + [2] * 3)
    folds = stratified_folds(y, seed=4)
    assert sorted(folds.bincount(minlength=FOLDS).tolist()) == [10, 10, 10, 10, 11]
    for c in range(3):
        counts = folds[y == c].bincount(minlength=FOLDS)
        assert int(counts.max() - counts.min()) <= 1
    assert not torch.equal(folds, stratified_folds(y, seed=5))


def test_each_rows_step_is_chosen_by_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 9, 3, generator=generator)
    y = torch.randint(0, 3, (9,), generator=generator)
    found = selected_by_others(logits, y)
    for row in range(9):
        others = [k for k in range(9) if k != row]
        means = [
            torch.nn.functional.cross_entropy(logits[step][others].double(), y[others]).item()
            for step in range(7)
        ]
        step = min(range(7), key=lambda s: means[s])
        expected = logits[step, row].double().log_softmax(0)
        assert found[row].numpy() == pytest.approx(expected.numpy())


def test_a_rows_own_label_does_not_choose() -> None:
    logits = torch.randn(7, 9, 3, generator=torch.Generator().manual_seed(1))
    y = torch.arange(9) % 3
    other = y.clone()
    other[4] = (y[4] + 1) % 3
    assert torch.equal(selected_by_others(logits, y)[4], selected_by_others(logits, other)[4])


def test_noise_is_not_flattered() -> None:
    """Steps that are noise: chosen by the rows themselves they look better than they are."""
    logits = torch.randn(40, 1000, 6, 2, generator=torch.Generator().manual_seed(2))
    y = torch.arange(6) % 2
    truth = torch.nn.functional.cross_entropy(logits.flatten(0, 2), y.repeat(40_000)).item()
    honest, flattered = [], []
    for fold in logits.transpose(0, 1):
        losses = torch.stack([torch.nn.functional.cross_entropy(step, y) for step in fold])
        flattered.append(losses.min().item())
        log_p = selected_by_others(fold, y)
        honest.append(-log_p.gather(1, y[:, None]).mean().item())
    assert sum(honest) / 1000 == pytest.approx(truth, abs=0.05)
    assert sum(flattered) / 1000 < truth - 0.3


def test_a_single_row_has_the_last_step() -> None:
    logits = torch.tensor([[[5.0, 0.0]], [[0.0, 0.0]]])
    assert selected_by_others(logits, torch.tensor([0]))[0].exp().tolist() == [0.5, 0.5]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="evaluations, 3, classes"):
        selected_by_others(torch.zeros(2, 4, 2), torch.zeros(3).long())


def test_copies_do_not_choose_for_each_other() -> None:
    logits = torch.randn(7, 5, 3, generator=torch.Generator().manual_seed(3))
    y = torch.tensor([0, 1, 2, 0, 1])
    copied = torch.tensor([0, 0, 0, 1, 2, 3, 3, 4])
    found = selected_by_others(logits[:, copied], y[copied], copied * 10)
    assert torch.equal(found[0], found[2])
    weights = torch.tensor([3.0, 1.0, 1.0, 2.0, 1.0])
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), y.repeat(7), reduction="none"
    ).view(7, 5)
    for row, place in enumerate([0, 3, 4, 5, 7]):
        others = torch.arange(5) != row
        step = (losses * weights)[:, others].sum(1).argmin()
        expected = logits[step, row].double().log_softmax(0)
        assert found[place].numpy() == pytest.approx(expected.numpy())


@pytest.mark.parametrize("teacher", [Trees(trees=5), Linear(1.0), Kernel()], ids=lambda t: t.name)
def test_folds_fitted_at_once_give_the_same_predictions(
    teacher: Teacher, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 4, generator=g), torch.arange(60) % 3
    folds, threads = stratified_folds(y), torch.get_num_threads()
    together = out_of_fold(teacher, x, y, x[:0], folds, 3)
    assert torch.get_num_threads() == threads
    monkeypatch.setattr("dessl.teachers.crossfit.AT_ONCE", 1)
    assert torch.equal(together, out_of_fold(teacher, x, y, x[:0], folds, 3))


def test_a_classifier_of_the_user_is_fitted_one_fold_at_a_time() -> None:
    inside, most = [], []

    class Watched(GaussianNB):
        def fit(self, x: np.ndarray, y: np.ndarray) -> "Watched":
            inside.append(1)
            most.append(len(inside))
            super().fit(x, y)
            time.sleep(0.01)
            inside.pop()
            return self

    x, y = torch.randn(40, 2), torch.arange(40) % 2
    out_of_fold(FromClassifier(Watched()), x, y, x[:0], stratified_folds(y), 2)
    assert most == [1] * 5
