"""What every term inherits: its draws, its parts, and what it says of itself."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates import SURROGATES
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, as_is, forked, seed_generators

CPU = torch.device("cpu")
ROWS = Rows(torch.zeros(3, 2), torch.arange(3))


class Drawn(Surrogate):
    """H is a number drawn for each row."""

    def forward(self, model: Model, rows: Rows) -> Scores:
        h = torch.rand(len(rows.ids), generator=self.generator(rows.x.device))
        return Scores(h, model(rows.x)[None])


class Around(Drawn):
    """A term with others inside."""

    def __init__(self, *inside: Surrogate, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.inside = nn.ModuleList(inside)


class Moving(Drawn):
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        pass


class Prepared(Drawn):
    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        pass


class Holding(Drawn):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.zeros(1))


class Counting(Drawn):
    ids: Tensor | None = None

    def draws_from(self, ids: Tensor) -> None:
        self.ids = ids


def values(term: Surrogate) -> list[float]:
    found: Scores = term(lambda x: x, ROWS)
    return found.h.tolist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="the GPU is here")
def test_draws_of_a_gpu_that_is_not_here_begin_anew() -> None:
    surrogate = SURROGATES["fixmatch"](seed=3)
    state = {"seed": 5, "device": "cuda:0", "generator": torch.zeros(16, dtype=torch.uint8)}
    surrogate.load_state_dict({"_extra_state": state})
    drawn = torch.rand(2, generator=surrogate.generator(torch.device("cpu")))
    assert torch.equal(drawn, torch.rand(2, generator=torch.Generator().manual_seed(5)))


def test_draws_are_those_of_the_seed_and_go_on() -> None:
    term, expected = Drawn(seed=7), torch.Generator().manual_seed(7)
    for _ in range(2):
        assert values(term) == torch.rand(3, generator=expected).tolist()
    term.restart_draws()
    assert values(term) == values(Drawn(seed=7))
    assert term.seed == 7


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_a_seed_that_is_none_is_refused(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="seed must"):
        Drawn(seed=seed)


def test_a_saved_state_goes_on_with_its_draws() -> None:
    term = Drawn(seed=3)
    assert term.get_extra_state() == {"seed": 3}
    values(term)
    again = Drawn(seed=5)
    again.load_state_dict(term.state_dict())
    assert again.seed == 3
    assert values(again) == values(term)


def test_parts_are_the_term_and_all_inside_it() -> None:
    deep = Drawn()
    middle = Around(deep)
    outer = Around(middle, Moving())
    assert outer.parts() == [outer, middle, deep, outer.inside[1]]
    values(outer)
    values(deep)
    outer.restart_draws()
    assert values(deep) == values(Drawn())


def test_a_look_apart_leaves_no_trace_even_after_an_error() -> None:
    term = Around(Drawn(seed=1), seed=2)
    inner: Any = term.inside[0]
    values(term), values(inner)
    state = torch.get_rng_state()

    def look() -> None:
        with term.draws_apart(CPU):
            assert values(term) == values(Drawn(seed=2))
            values(term)
            values(inner), values(inner)
            torch.rand(5)
            raise RuntimeError("within")

    with pytest.raises(RuntimeError, match="within"):
        look()
    assert torch.equal(state, torch.get_rng_state())
    for part, seed in ((term, 2), (inner, 1)):
        fresh = Drawn(seed=seed)
        values(fresh)
        assert values(part) == values(fresh)  # the second draw


@pytest.mark.parametrize(
    ("term", "names"),
    [
        (Drawn(), ""),
        (Around(Drawn()), ""),
        (Moving(), "Moving"),
        (Prepared(), "Prepared"),
        (Holding(), "Holding"),
        (Around(Drawn(), Around(Prepared())), "Prepared"),
    ],
)
def test_a_term_with_state_needs_a_run_of_its_own(term: Surrogate, names: str) -> None:
    assert term.needs_own_run() == (
        f"{names} has state, which several runs cannot share." if names else ""
    )
    assert term.moves == isinstance(term, Moving)


def test_row_ids_reach_the_terms_that_count_them() -> None:
    counting = Counting()
    term = Around(Drawn(), Around(counting))
    assert term.counts_rows
    assert not Around(Drawn()).counts_rows
    ids = torch.arange(4)
    term.draws_from(ids)
    assert counting.ids is ids


def test_a_step_s_scores_are_those_of_a_call() -> None:
    found = Drawn(seed=4).step_scores(lambda x: x + 1, ROWS, n_labelled=1)
    assert found.h.tolist() == values(Drawn(seed=4))
    assert torch.equal(found.logits, torch.ones(1, 3, 2))


@pytest.mark.parametrize("rows", [ROWS.x, tuple(ROWS), None])
def test_anything_but_rows_is_refused(rows: Any) -> None:
    message = rf"rows must be dessl.Rows\(x, ids\); got {type(rows).__name__}\. Pass Rows\(x, ids\)"
    with pytest.raises(TypeError, match=message):
        Drawn()(nn.Linear(2, 2), rows)


def test_what_is_drawn_within_a_fork_is_forgotten() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    with forked(CPU):
        torch.rand(100)
    assert torch.equal(torch.rand(1), expected)
    assert as_is(ROWS.x, torch.Generator()) is ROWS.x


def test_draws_of_a_second_gpu_begin_anew_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    term = Drawn(seed=5)
    saved = {"seed": 5, "device": "cuda:1", "generator": torch.Generator().get_state()}
    term.set_extra_state(saved)
    assert values(term) == values(Drawn(seed=5))


def test_seeding_for_the_cpu_leaves_gpus_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    with forked(CPU):
        seed_generators(7, CPU)
        drawn = torch.rand(3)
        torch.manual_seed(7)
        assert torch.equal(drawn, torch.rand(3))
        assert seeds == [7]  # of the second call alone
        seed_generators(8, torch.device("mps"))
        assert seeds == [7, 8]
