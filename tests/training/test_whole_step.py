"""Batches of one step add up to the risk of all its rows, in value and in gradient."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import run_ranks
from torch import Tensor, distributed, nn

from dessl.objective import objective
from dessl.surrogates import Entropy, Rows, Scores
from dessl.training import WholeStep

SIZES = [(3, 7), (1, 2), (5, 11), (2, 1)]  # labelled and unlabelled rows of each batch
OPTIONS: dict[str, dict[str, Any]] = {
    "complete case": {"risk": "complete_case"},
    "complete case, weighted": {"risk": "complete_case", "weighted": "labelled"},
    "ssl": {"risk": "ssl"},
    "debiased": {"risk": "debiased"},
    "debiased, weighted": {"risk": "debiased", "weighted": "both"},
    "on all": {"risk": "debiased", "on": "all"},
    "on all, weighted": {"risk": "debiased", "on": "all", "weighted": "both"},
    "inverse propensity": {"risk": "inverse_propensity"},
    "inverse propensity, weighted": {"risk": "inverse_propensity", "weighted": "unlabelled"},
}


class Part:
    """A batch: rows of x, labels of the first ones, and what the risk may ask about them."""

    def __init__(self, x: Tensor, y: Tensor, option: dict[str, Any], generator: object) -> None:
        draw = torch.rand(len(x), generator=generator) + 0.2  # type: ignore[call-overload]
        self.x, self.y, self.option = x, y, dict(option)
        weighted = self.option.pop("weighted", "")
        if weighted in ("labelled", "both"):
            self.option["weights_labelled"] = draw[: len(y)]
        if weighted in ("unlabelled", "both"):
            self.option["weights_unlabelled"] = draw[len(y) :]
        if self.option["risk"] == "inverse_propensity":
            self.option["propensity"] = draw[: len(y)] / 1.2

    def scores(self, model: nn.Module) -> Scores:
        return Entropy()(model, Rows(self.x, torch.arange(len(self.x))))


def parts(option: dict[str, Any]) -> list[Part]:
    generator = torch.Generator().manual_seed(3)
    return [
        Part(
            torch.randn(n_l + n_u, 4, generator=generator),
            torch.randint(3, (n_l,), generator=generator),
            option,
            generator,
        )
        for n_l, n_u in SIZES
    ]


def together(batches: list[Part]) -> Part:
    """All rows as one batch, the labelled ones first."""
    whole = Part(batches[0].x, batches[0].y, {"risk": ""}, torch.Generator())
    labelled = torch.cat([part.x[: len(part.y)] for part in batches])
    whole.x = torch.cat([labelled, *(part.x[len(part.y) :] for part in batches)])
    whole.y = torch.cat([part.y for part in batches])
    whole.option = {
        name: torch.cat([part.option[name] for part in batches])
        if torch.is_tensor(value)
        else value
        for name, value in batches[0].option.items()
    }
    return whole


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([value.grad.flatten() for value in model.parameters()])


def expected(option: dict[str, Any]) -> tuple[Tensor, Tensor]:
    model, whole = network(), together(parts(option))
    risk = objective(whole.scores(model), whole.y, 0.7, **whole.option)
    risk.value.backward()
    return torch.stack(risk).detach(), gradient(model)


def accumulated(model: nn.Module, batches: list[Part]) -> Tensor:
    """Backward each batch's part; return the sums of the four values."""
    step = WholeStep(*(sum(counts) for counts in zip(*map(amounts, batches), strict=True)))
    total = torch.zeros(4)
    for part in batches:
        last = part is batches[-1]
        apart = model.no_sync() if hasattr(model, "no_sync") and not last else nullcontext()
        with apart:
            risk = step.objective(part.scores(model), part.y, 0.7, **part.option)
            risk.value.backward()
        total += torch.stack(risk).detach()
    return total


def amounts(part: Part) -> tuple[Tensor | int, Tensor | int]:
    """Labelled and unlabelled rows of a batch, or the sums of their weights."""
    n_u = len(part.x) - len(part.y)
    weights = (part.option.get(f"weights_{kind}") for kind in ("labelled", "unlabelled"))
    rows = (len(part.y), n_u)
    return tuple(n if its is None else its.sum() for n, its in zip(rows, weights, strict=True))


@pytest.mark.parametrize("name", OPTIONS)
def test_micro_batches_add_up_to_one_batch(name: str) -> None:
    values, gradients = expected(OPTIONS[name])
    model = network()
    torch.testing.assert_close(accumulated(model, parts(OPTIONS[name])), values)
    torch.testing.assert_close(gradient(model), gradients, atol=1e-6, rtol=0)


def test_the_mean_of_uneven_batches_would_be_wrong() -> None:
    """What the counts are for."""
    _, gradients = expected(OPTIONS["debiased"])
    model, batches = network(), parts(OPTIONS["debiased"])
    for part in batches:
        risk = objective(part.scores(model), part.y, 0.7)
        (risk.value / len(batches)).backward()
    assert (gradient(model) - gradients).abs().max() > 1e-2


def _on_a_rank(folder: Path) -> None:
    """Rank 0 takes one batch and rank 1 three; DDP averages the gradients."""
    found = {}
    for name, option in OPTIONS.items():
        model = nn.parallel.DistributedDataParallel(network())
        mine = parts(option)[:1] if distributed.get_rank() == 0 else parts(option)[1:]
        total = accumulated(model, mine)
        distributed.all_reduce(total)
        found[name] = [total / 2, gradient(model)]
    torch.save(found, folder / f"{distributed.get_rank()}.pt")


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this PyTorch has no gloo")
def test_batches_of_two_ranks_add_up_to_one_batch(tmp_path: Path) -> None:
    assert run_ranks(2, _on_a_rank, tmp_path) == [0, 0]
    for number in (0, 1):
        found = torch.load(tmp_path / f"{number}.pt", weights_only=True)
        for name, option in OPTIONS.items():
            values, gradients = expected(option)
            torch.testing.assert_close(found[name][0], values, msg=name)
            torch.testing.assert_close(found[name][1], gradients, atol=1e-6, rtol=0, msg=name)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((-1, 4), "n_labelled"),
        ((3, torch.ones(4)), "n_unlabelled must be a number or a tensor of shape"),
        (("three", 4), "n_labelled"),
    ],
)
def test_bad_counts_are_refused(counts: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        WholeStep(*counts)


def test_a_step_counted_without_unlabelled_rows_is_refused() -> None:
    (part, *_) = parts(OPTIONS["debiased"])
    with pytest.raises(ValueError, match="counted as 0 rows of a kind of which this batch has"):
        WholeStep(3, 0).objective(part.scores(network()), part.y)
    WholeStep(3, 0).objective(part.scores(network()), part.y, risk="complete_case")


def test_a_batch_of_labelled_rows_alone_is_not_to_be_skipped() -> None:
    (part, *_) = parts(OPTIONS["debiased"])
    scores = part.scores(network())
    alone = type(scores)(scores.h[: len(part.y)], scores.logits[:, : len(part.y)])
    with pytest.raises(ValueError, match="Do not skip it"):
        WholeStep(3, 4).objective(alone, part.y)
    WholeStep(3, 4).objective(alone, part.y, risk="complete_case")


def test_wrong_arguments_are_refused_as_by_the_objective() -> None:
    (part, *_) = parts(OPTIONS["debiased"])
    scores = part.scores(network())
    for given, message in (
        ({"scores": scores, "y": part.y, "risk": "debias"}, "risk must be one of"),
        ({"scores": scores.h, "y": part.y}, "scores must be what a surrogate returns"),
        ({"scores": scores, "y": part.y[0]}, r"y must be a tensor with the labels"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            WholeStep(3, 4).objective(**given)
