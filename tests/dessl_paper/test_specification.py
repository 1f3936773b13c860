"""The grid: names, label draws that methods share, and what is trained at once."""

from collections.abc import Callable

import pytest
import torch

from dessl_paper.catalogue import load_experiment
from dessl_paper.specification import (
    Cell,
    DataSetting,
    Experiment,
    Method,
    cells_of,
    common_name,
    populations,
)

Tiny = Callable[..., Experiment]


Y = torch.arange(60) % 10


def same(first: Cell, second: Cell) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.draw(Y), second.draw(Y), strict=True))


def test_methods_of_a_split_share_its_labels_and_splits_differ(tiny: Tiny) -> None:
    cells = {cell.key: cell for cell in cells_of(tiny(lams=[0.5, 2.0]))}
    assert list(cells) == [
        "mnist-30-complete_case-lam0-seed0",
        "mnist-30-complete_case-lam0-seed1",
        "mnist-30-de_entropy-lam0.5-seed0",
        "mnist-30-de_entropy-lam0.5-seed1",
        "mnist-30-de_entropy-lam2-seed0",
        "mnist-30-de_entropy-lam2-seed1",
    ]
    for seed in (0, 1):
        group = [cell for cell in cells.values() if cell.seed == seed]
        assert all(same(group[0], other) for other in group)
    assert not same(*list(cells.values())[:2])
    draw = next(iter(cells.values())).draw(Y)
    assert [len(rows) for rows in draw] == [20, 10, 30]


def test_plans_have_the_cells_own_lambda_risk_and_seed(tiny: Tiny) -> None:
    experiment = tiny(methods={"de_entropy": {"plan": {"bound": "nonnegative", "momentum": 0.5}}})
    for cell in cells_of(experiment):
        plan = cell.plan(experiment)
        assert (plan.lam, plan.risk, plan.seed) == (cell.lam, cell.method.risk, cell.seed)
        assert plan.steps == 6
        own = cell.method.name == "de_entropy"
        assert (plan.bound, plan.momentum) == (("nonnegative", 0.5) if own else (None, 0.9))


def test_every_label_is_every_label_there_is() -> None:
    method = Method("supervised", "all labels", "complete_case", (0.0,), every_label=True)
    cell = Cell(DataSetting("stl10", 5, validation=10, draw="balanced"), method, 0.0, 0)
    y = torch.cat([Y, torch.full((40,), -1)])
    assert [len(rows) for rows in cell.draw(y)] == [50, 10, 40]
    assert cell.key == "stl10-all-supervised-lam0-seed0"


def test_all_labels_are_all_of_them_where_others_draw_balanced_ones(tiny: Tiny) -> None:
    data = {"name": "mnist", "labels": 4, "draw": "balanced"}
    own = {"title": "all", "risk": "complete_case", "every_label": True}
    experiment = tiny(data=[data], plan={"select": "last"}, methods={"supervised": own})
    y = torch.tensor([0] * 9 + [1] * 3)
    drawn = {cell.method.name: len(cell.draw(y).labelled) for cell in cells_of(experiment)}
    assert drawn == {"complete_case": 4, "de_entropy": 4, "supervised": 12}


def test_runs_of_one_name_are_refused(tiny: Tiny) -> None:
    with pytest.raises(
        ValueError, match=r"two runs with the same name \(mnist-30-de_entropy-lam0.5-seed0"
    ):
        cells_of(tiny(lams=[0.5, 0.500001]))


def test_populations_hold_all_cells_once_and_share_what_they_must(tiny: Tiny) -> None:
    two = [{"name": "mnist", "labels": labels} for labels in (20, 30)]
    experiment = tiny(
        data=two,
        seeds=3,
        lams=[0.1, 1.0],
        population=4,
        plan={"select": "last"},
        methods={"bounded": {"title": "b", "risk": "debiased", "plan": {"bound": "nonnegative"}}},
    )
    cells = cells_of(experiment)
    groups = populations(experiment, cells)
    assert sorted(cell.key for group in groups for cell in group) == sorted(c.key for c in cells)
    assert max(map(len, groups)) == 4
    for group in groups:
        assert len({cell.data for cell in group}) == 1
        assert len({str(cell.method.plan) for cell in group}) == 1
    assert len({common_name(group) for group in groups}) == len(groups)
    firsts = [(group[0].seed, group[0].data.labels) for group in groups]
    assert firsts == sorted(firsts)


def test_without_populations_each_cell_is_by_itself_one_split_after_the_other(tiny: Tiny) -> None:
    experiment = tiny(lams=[0.5, 2.0], seeds=2)
    cells = cells_of(experiment)
    groups = populations(experiment, cells)
    assert [cell.key for (cell,) in groups] == [
        cell.key for seed in (0, 1) for cell in cells if cell.seed == seed
    ]
    assert common_name([cells[0]]) == cells[0].key


def test_a_method_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match=r"method must be .*'de_pl'.*got 'nothing'"):
        load_experiment("mnist", "smoke").method("nothing")
