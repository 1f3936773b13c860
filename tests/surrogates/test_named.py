"""Surrogates by name: the views they take, settings that are checked, strings wherever H goes."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dessl import SemiData, TrainPlan
from dessl.models import MLP
from dessl.surrogates import (
    SURROGATES,
    Combine,
    Entropy,
    FixMatch,
    FromFunction,
    PseudoLabel,
    Smooth,
    as_surrogate,
    named_surrogate,
)
from dessl.training import train


def shown(x: Tensor, generator: torch.Generator) -> Tensor:
    return x


def other(x: Tensor, generator: torch.Generator) -> Tensor:
    return 2 * x


@pytest.mark.parametrize("name", sorted(set(SURROGATES) - {"teacher", "combine", "smooth"}))
def test_a_surrogate_gets_the_views_that_it_takes(name: str) -> None:
    views = {"view": shown, "weak": shown, "strong": other}
    made: Any = named_surrogate(name, views=views, seed=3)
    assert type(made) is SURROGATES[name]
    assert made.seed == 3
    for which, view in views.items():
        assert getattr(made, which, view) is view


def test_settings_reach_it_and_go_before_views() -> None:
    made = named_surrogate("fixmatch", views={"weak": shown}, threshold=0.7, weak=other)
    assert isinstance(made, FixMatch)
    assert (made.threshold, made.weak) == (0.7, other)


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("fixmacht", {}, "surrogate must be one of"),
        ("fixmatch", {"thresold": 0.9}, "no setting 'thresold'; did you mean 'threshold'"),
        ("entropy", {"rounds": 2}, "no setting 'rounds'; it has "),
        ("smooth", {}, "no default for surrogate.*pass dessl.SURROGATES"),
    ],
)
def test_what_it_cannot_make_is_refused(name: str, settings: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        named_surrogate(name, **settings)


def test_names_functions_and_surrogates_are_taken() -> None:
    own = Entropy()
    assert as_surrogate(own) is own
    assert isinstance(as_surrogate("pseudo_label"), PseudoLabel)
    assert isinstance(as_surrogate(lambda logits: logits[:, 0]), FromFunction)
    wrong: Any = Entropy
    with pytest.raises(TypeError, match=r"a name in dessl\.SURROGATES, or a function"):
        as_surrogate(wrong)


def test_training_takes_a_name() -> None:
    data = SemiData(torch.randn(30, 4), torch.where(torch.arange(30) < 8, torch.arange(30) % 2, -1))
    plan = TrainPlan(steps=3, labelled_batch=4, unlabelled_batch=8)
    ends = [train(lambda: MLP(4, 2), h, data, plan).model for h in ("entropy", Entropy())]
    for one, two in zip(*(end.parameters() for end in ends), strict=True):
        assert torch.equal(one, two)


PAGE = Path(__file__).parents[2] / "docs" / "surrogates.md"


def differences() -> list[list[str]]:
    """The cells of the page's table of what differs from the originals, row by row."""
    section = PAGE.read_text(encoding="utf-8").split("## What differs from the originals")[1]
    section = section.split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines]


def test_the_page_has_every_method_that_a_paper_has() -> None:
    named = {name for cells in differences() for name in re.findall(r"`(\w+)`", cells[0])}
    assert named == set(SURROGATES) - {"teacher", "combine", "smooth"}
    assert {len(cells) for cells in differences()} == {5}


@pytest.mark.parametrize("cells", differences(), ids=lambda cells: cells[0].strip("`"))
def test_the_tests_that_the_page_names_exist(cells: list[str]) -> None:
    tests = re.findall(r"`([\w./]+)::(\w+)`", cells[-1])
    assert tests
    for file, name in tests:
        source = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert f"def {name}(" in source


def test_a_term_around_others_is_made_by_name_too() -> None:
    smooth = named_surrogate("smooth", surrogate=Entropy(), epsilon=0.1, seed=3)
    assert isinstance(smooth, Smooth)
    assert smooth.epsilon == 0.1
    both = named_surrogate("combine", surrogates=[Entropy(), PseudoLabel()], views={"view": shown})
    assert isinstance(both, Combine)
