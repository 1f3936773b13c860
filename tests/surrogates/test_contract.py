"""What every entry of SURROGATES must do; a new entry is tested without a word here."""

import importlib
import inspect
import io
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dessl.surrogates
from dessl.augment import Weak
from dessl.data import Batches, SemiData
from dessl.models import LeNet
from dessl.surrogates import (
    SURROGATES,
    FlexMatch,
    FromFunction,
    Model,
    Rows,
    Scores,
    Surrogate,
    as_is,
    named_surrogate,
)

NAMES = list(SURROGATES)
WITHOUT_NAME = {FromFunction}  # made from a user's function, by as_surrogate
AVERAGED = {"mean_teacher", "ict", "combine"}  # those that keep an average of the weights
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.cuda,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ],
    ),
]
each_surrogate = pytest.mark.parametrize("name", NAMES)


def draws_at_random(surrogate: Surrogate, model: nn.Module, rows: Rows) -> bool:
    """Whether a second pass over the same rows gives another H."""
    return not torch.equal(surrogate(model, rows).h, surrogate(model, rows).h)


def buffers(surrogate: Surrogate) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in surrogate.named_buffers()}


def descendants(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def test_every_surrogate_of_the_room_is_in_the_dict() -> None:
    for module in pkgutil.iter_modules(dessl.surrogates.__path__):
        importlib.import_module(f"dessl.surrogates.{module.name}")
    room = {
        kind
        for kind in descendants(Surrogate)
        if kind.__module__.startswith("dessl.surrogates.") and not inspect.isabstract(kind)
    }
    assert room - WITHOUT_NAME == set(SURROGATES.values())


def test_rows_have_no_labels() -> None:
    assert Rows._fields == ("x", "ids")
    for kind in SURROGATES.values():
        assert list(inspect.signature(kind.forward).parameters) == ["self", "model", "rows"]


@each_surrogate
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_one_finite_value_a_row_with_finite_gradients(
    name: str,
    device: str,
    dtype: torch.dtype,
    build: Any,
    make_network: Any,
    make_rows: Any,
    train_a_little: Any,
) -> None:
    if dtype == torch.bfloat16 and name in AVERAGED:
        pytest.skip("it averages weights, which half precision is too coarse for")
    model = make_network().to(device, dtype)
    x, ids = make_rows()
    rows = Rows(x.to(device, dtype), ids.to(device))
    surrogate = train_a_little(build(name), model, rows)
    h, logits = surrogate(model, rows)
    assert h.shape == (12,)
    assert logits.ndim == 3
    assert logits.shape[1:] == (12, 3)
    assert h.device == logits.device == rows.x.device
    assert h.isfinite().all()
    assert logits.isfinite().all()
    assert h.requires_grad
    assert logits.requires_grad
    (h.mean() + logits.square().mean()).backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@each_surrogate
def test_a_surrogate_in_double_precision_trains(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model, rows = make_network().double(), make_rows()
    rows = Rows(rows.x.double(), rows.ids)
    surrogate = train_a_little(build(name), model, rows).double()
    before = buffers(surrogate)
    scores = surrogate(model, rows)
    surrogate.after_step(model, rows, scores)
    assert scores.h.dtype == torch.float64
    assert all(value.isfinite().all() for value in buffers(surrogate).values())
    assert {key: value.dtype for key, value in buffers(surrogate).items()} == {
        key: value.dtype for key, value in before.items()
    }


@pytest.mark.parametrize("name", ["freematch", "softmatch", "remixmatch"])
def test_running_means_in_half_precision_are_refused(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model, rows = make_network(), make_rows()
    surrogate = train_a_little(build(name), model, rows).bfloat16()
    with pytest.raises(
        TypeError, match=r"a moving average must be in float32.*got torch\.bfloat16"
    ):
        surrogate.after_step(model, rows, surrogate(model, rows))


@each_surrogate
def test_an_infinite_bound_means_that_h_is_bounded(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model, rows = make_network(), make_rows()
    surrogate = train_a_little(build(name), model, rows)
    if surrogate.bounded_up_to < float("inf"):
        pytest.skip("unbounded for some λ: the method's own tests show it")
    with torch.no_grad():
        model[-1].weight *= 1e4
        assert surrogate(model, rows).h.max() < 10


@each_surrogate
def test_every_bound_is_stated(name: str, build: Any) -> None:
    assert build(name).bound_is_stated


def test_a_subclass_without_a_bound_states_none() -> None:
    class Own(Surrogate):
        def forward(self, model: Model, rows: Rows) -> Scores:
            logits = model(rows.x)
            return Scores(logits.square().sum(-1), logits.unsqueeze(0))

    class Bounded(Own):
        bounded_up_to = float("inf")

    assert not Own().bound_is_stated
    assert Bounded().bound_is_stated


@each_surrogate
def test_images_go_through_views(name: str, build: Any) -> None:
    x = torch.randint(256, (6, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    rows = Rows(x.to(torch.uint8), torch.arange(6))
    model = LeNet(n_classes=3, size=8)
    surrogate = build(name, view=Weak(flip=False))
    surrogate.prepare(model, 6, 3)
    scores = surrogate(model, rows)
    assert scores.h.shape == (6,)
    assert scores.h.isfinite().all()


@each_surrogate
def test_no_gradient_reaches_teachers(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model, rows = make_network(), make_rows()
    surrogate = train_a_little(build(name), model, rows)
    surrogate.train()
    surrogate(model, rows).h.mean().backward()
    state = [*surrogate.parameters(), *surrogate.buffers()]
    assert all(not tensor.requires_grad and tensor.grad is None for tensor in state)


@each_surrogate
def test_forward_changes_no_state(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model, rows = make_network(batch_norm=True), make_rows()
    surrogate = train_a_little(build(name), model, rows)
    before = {name: value.clone() for name, value in surrogate.named_parameters()}
    before |= buffers(surrogate)
    surrogate(model, rows)
    after = dict(surrogate.named_parameters()) | buffers(surrogate)
    assert all(torch.equal(before[key], after[key]) for key in before)


@each_surrogate
def test_other_labels_give_the_same_bits(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    x = make_rows().x
    keep = torch.arange(12) % 3 == 0
    seen = []
    for shift in (0, 1):
        y = (torch.arange(12) + shift) % 3
        data = SemiData(x, y, class_names=("a", "b", "c")).with_labels(keep)
        batch = next(Batches(data, 4, 8, seed=7))
        rows = Rows(
            torch.cat([batch.x_labelled, batch.x_unlabelled]),
            torch.cat([batch.ids_labelled, batch.ids_unlabelled]),
        )
        model = make_network()
        surrogate = train_a_little(build(name), model, make_rows())
        seen.append((batch.y, surrogate(model, rows).h))
    (y_first, h_first), (y_second, h_second) = seen
    assert not torch.equal(y_first, y_second)
    assert torch.equal(h_first, h_second)


@each_surrogate
def test_neither_place_nor_company_matters(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    """Labelled rows come first in a batch, so this is also: which rows have labels matters not.

    Without draws, a row's H is the same in any order and in any other batch. With draws (a random
    direction, partners within the batch), its law is the same in any order of the same batch:
    means over 300 draws agree within their error.
    """
    model, rows = make_network(), make_rows()
    surrogate = train_a_little(build(name, view=as_is), model, rows)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    turned = Rows(rows.x[order], rows.ids[order])
    with torch.no_grad():
        if draws_at_random(surrogate, model, rows):
            straight = torch.stack([surrogate(model, rows).h for _ in range(300)])[:, order]
            shuffled = torch.stack([surrogate(model, turned).h for _ in range(300)])
            error = ((straight.var(0) + shuffled.var(0)) / 300).sqrt().clamp(min=1e-6)
            z = (straight.mean(0) - shuffled.mean(0)) / error
            assert z.abs().max() < 4
        else:
            h = surrogate(model, rows).h
            torch.testing.assert_close(surrogate(model, turned).h, h[order])
            few = Rows(rows.x[:5], rows.ids[:5])
            torch.testing.assert_close(surrogate(model, few).h, h[:5])


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        ("flexmatch", True),
        ("temporal_ensembling", True),
        ("temporal_ensembling", False),
        ("teacher", False),
    ],
)
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (torch.tensor([3]), r"one id for each of the 12 rows, shape \(12,\); got \(1,\)"),
        (torch.arange(11), r"one id for each of the 12 rows, shape \(12,\); got \(11,\)"),
        (torch.arange(-1, 11), r"ids must lie in \[0, 11\]; got from -1 to 10"),
        (torch.arange(1, 13), r"ids must lie in \[0, 11\]; got from 1 to 12"),
        (torch.ones(12, dtype=torch.bool), "whole numbers, one for each row; got torch.bool"),
    ],
)
def test_ids_that_are_not_the_rows_own_are_refused(
    name: str,
    moves: bool,
    ids: Tensor,
    message: str,
    build: Any,
    make_network: Any,
    make_rows: Any,
) -> None:
    model, rows = make_network(), make_rows()
    surrogate = build(name)
    surrogate.prepare(model, 12, 3)
    scores, wrong = surrogate(model, rows), Rows(rows.x, ids)
    with pytest.raises((TypeError, ValueError), match=message):
        surrogate.after_step(model, wrong, scores) if moves else surrogate(model, wrong)


def test_small_integers_are_ids_too(build: Any, make_network: Any, make_rows: Any) -> None:
    """Indexing takes bytes for a mask."""
    model, rows = make_network(), make_rows()
    for name in ("flexmatch", "temporal_ensembling", "teacher"):
        states = []
        for dtype in (torch.uint8, torch.int64):
            few = Rows(rows.x[:3], torch.tensor([0, 1, 1], dtype=dtype))
            surrogate = build(name)
            surrogate.prepare(model, 12, 3)
            surrogate.after_step(model, few, surrogate(model, few))
            scores = surrogate(model, few)
            states.append([*scores, *surrogate.buffers()])
        for small, usual in zip(*states, strict=True):
            torch.testing.assert_close(small, usual, rtol=0, atol=0)


@each_surrogate
def test_a_saved_state_goes_on_bit_for_bit(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    model, rows = make_network(), make_rows()
    surrogate = train_a_little(build(name), model, rows)
    file = io.BytesIO()
    torch.save(surrogate.state_dict(), file)
    file.seek(0)
    resumed = build(name)
    resumed.prepare(make_network(seed=9), 12, 3)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(3):
        scores, again = surrogate(model, rows), resumed(model, rows)
        assert torch.equal(scores.h, again.h)
        assert torch.equal(scores.logits, again.logits)
        surrogate.after_step(model, rows, scores)
        resumed.after_step(model, rows, again)


@each_surrogate
def test_a_look_with_draws_apart_changes_no_draw(
    name: str, build: Any, make_network: Any, make_rows: Any
) -> None:
    model, rows = make_network(), make_rows()
    seen, unseen = build(name), build(name)
    for surrogate in (seen, unseen):
        surrogate.prepare(model, len(rows.ids), 3)
        surrogate(model, rows)  # somewhere in the middle of a run
    state = torch.get_rng_state()
    with seen.draws_apart(rows.x.device):
        seen(model, rows)
    assert torch.equal(state, torch.get_rng_state())
    for one, other in zip(seen.parts(), unseen.parts(), strict=True):
        device = rows.x.device
        assert torch.equal(one.generator(device).get_state(), other.generator(device).get_state())


@each_surrogate
def test_a_step_gives_the_h_of_a_plain_call(
    name: str, build: Any, make_network: Any, make_rows: Any
) -> None:
    model, rows = make_network(), make_rows()
    one, other = build(name), build(name)
    for surrogate in (one, other):
        surrogate.prepare(model, len(rows.ids), 3)
    plain, step = one(model, rows), other.step_scores(model, rows, 4)
    torch.testing.assert_close(plain, step)


@pytest.mark.parametrize(
    ("name", "settings", "counts"),
    [
        ("pseudo_label", {"threshold": 0.5}, True),
        ("pseudo_label", {"threshold": 0.5, "temperature": 0.5}, True),
        ("fixmatch", {"threshold": 0.5}, True),
        ("fixmatch_star", {"threshold": 0.5}, True),
        ("flexmatch", {}, True),
        ("freematch", {}, True),
        ("uda", {"threshold": 0.5}, False),
    ],
)
def test_a_row_at_the_threshold(name: str, settings: dict[str, float], counts: bool) -> None:
    """It counts, as in the originals; UDA's paper and code have a strict inequality."""
    rows = Rows(torch.zeros(1, 2, dtype=torch.float64), torch.arange(1))
    assert rows.x.log_softmax(-1).exp().tolist() == [[0.5, 0.5]]  # to the last bit
    surrogate = named_surrogate(name, **settings, views=dict.fromkeys(_views(name), as_is))
    surrogate.prepare(nn.Linear(2, 2), 1, 2)
    if isinstance(surrogate, FlexMatch):
        surrogate.thresholds = torch.full((2,), 0.5)
    assert bool(surrogate(lambda x: x, rows).h > 0) == counts


def _views(name: str) -> tuple[str, ...]:
    return ("view",) if name == "pseudo_label" else ("weak", "strong")


@each_surrogate
def test_h_has_a_gradient_at_once(build: Any, make_network: Any, name: str) -> None:
    surrogate, model = build(name), make_network()
    surrogate.prepare(model, 12, 3)
    assert surrogate.step_scores(model, Rows(torch.randn(12, 4), torch.arange(12)), 4).h.grad_fn


@pytest.mark.parametrize("name", NAMES)
def test_a_view_of_a_wrong_type_is_refused_before_the_first_pass(build: Any, name: str) -> None:
    for wrong in ("weak", 3, Weak):
        with pytest.raises(TypeError, match="must be a view, a function of rows x"):
            build(name, view=wrong)
