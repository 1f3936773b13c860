"""The kinds: every experiment has one, and every one is whole."""

import dataclasses
import inspect

import pytest

from dessl._entries import EntryError
from dessl_paper import kinds
from dessl_paper.catalogue import PROFILES, experiment_names, file_entries, load_experiment
from dessl_paper.kinds import KINDS, Kind, kind_of
from dessl_paper.specification import Profile

MEMBERS = [name for name in vars(Kind) if not name.startswith("_")]


@pytest.mark.parametrize("name", experiment_names())
def test_every_file_says_a_kind_that_there_is(name: str) -> None:
    assert file_entries(name)["kind"] in KINDS


def test_every_kind_has_an_experiment() -> None:
    assert {file_entries(name)["kind"] for name in experiment_names()} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_whole(name: str) -> None:
    """It is the module of its name, and has all that a Kind has, with its arguments."""
    kind = KINDS[name]
    assert kind is getattr(kinds, name)
    assert {"check", "run_cells", "tables", "figures", "findings", "comparisons"} <= set(MEMBERS)
    for member in MEMBERS:
        wanted = [
            one for one in inspect.signature(getattr(Kind, member)).parameters if one != "self"
        ]
        given = list(inspect.signature(getattr(kind, member)).parameters)
        assert given[: len(wanted)] == wanted, member
    assert isinstance(kind.PUBLIC_DATA, bool)
    assert kind.REPEATS in ("splits", "models")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sweep_goes_over_lambda_and_a_comparison_does_not(profile: Profile) -> None:
    for name in experiment_names():
        experiment = load_experiment(name, profile)
        several = any(len(method.lams) > 1 for method in experiment.methods)
        if experiment.kind == "methods":
            assert not several
        elif experiment.kind == "sweep":
            assert several or profile == "smoke"


def test_a_kind_that_there_is_not_is_named() -> None:
    other = dataclasses.replace(load_experiment("toy", "smoke"), kind="training")
    with pytest.raises(
        EntryError, match=r"the kind of toy must be one of 'sweep'.* got 'training'"
    ):
        kind_of(other)
