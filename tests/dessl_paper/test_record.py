"""Records and their folder: whole or absent, of one experiment for good."""

import dataclasses
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dessl.data import DataError
from dessl.results.record import EVENTS, Record, read_records, thinned, write_record
from dessl.training import Event
from dessl_paper.folder import begin, finished, read_experiment
from dessl_paper.specification import Experiment

Tiny = Callable[..., Experiment]


def record(**other: Any) -> Record:
    entries: dict[str, Any] = {
        "experiment": "tiny", "profile": "smoke", "key": "a-1-x-lam1-seed0", "data": "a",
        "labels": 1, "method": "x", "title": "DeΠ", "risk": "ssl", "lam": 1.0, "seed": 0,
        "settings": {"plan": {"steps": 3}}, "metrics": {"accuracy": 0.5, "auc": None},
        "training": {"diverged": None}, "made_with": {"commit": None},
    }  # fmt: skip
    return Record(**(entries | other))


def test_a_record_is_the_same_after_a_trip_through_its_file(tmp_path: Path) -> None:
    both = [
        record(),
        record(key="b-x-lam1-seed0", metrics={}, arrays={"x": [1.5]}, history=[{"step": 1}]),
    ]
    for one in both:
        write_record(tmp_path, one)
    assert read_records(tmp_path) == both
    assert "DeΠ" in (tmp_path / "runs" / "b-x-lam1-seed0.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"experiment": "ti', "got .*line 1"),
        ("[1, 2]", "other entries than a record's"),
        ('{"experiment": "x", "colour": 1}', "other entries than a record's"),
        ('{"experiment": "x"}', "missing"),
        ('{"experiment": "x", "history": 5}', "history 5"),
        ('{"experiment": "x", "lam": "one"}', "lam 'one'"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, content: str, says: str) -> None:
    write_record(tmp_path, record())
    (tmp_path / "runs" / "bad.json").write_text(content)
    with pytest.raises(DataError, match=f"bad.json: .*{says}.* remove it, run again"):
        read_records(tmp_path)


def test_a_full_disk_leaves_no_half_of_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_record(tmp_path, record())
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_record(tmp_path, record(metrics={"accuracy": 0.9}))
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a-1-x-lam1-seed0.json"]
    assert read_records(tmp_path) == [record()]


def test_nothing_that_json_cannot_hold_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_record(tmp_path, record(metrics={"accuracy": float("nan")}))
    assert not (tmp_path / "runs").exists()


def test_a_folder_is_of_one_experiment_for_good(tmp_path: Path, tiny: Tiny) -> None:
    begin(tmp_path, tiny(), resume=True)
    begin(tmp_path, tiny(), resume=True)
    with pytest.raises(DataError, match="of 'tiny' at profile 'smoke'; got other settings: plan"):
        begin(tmp_path, tiny(plan={"learning_rate": 0.5}), resume=True)
    with pytest.raises(DataError, match="got other settings: profile"):
        begin(tmp_path, dataclasses.replace(tiny(), profile="paper"), resume=True)
    with pytest.raises(DataError, match="no results yet, as resume is off; got those of 'tiny'"):
        begin(tmp_path, tiny(), resume=False)
    assert read_experiment(tmp_path) == json.loads(json.dumps(tiny().as_dict()))


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path, tiny: Tiny) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / ".experiment.json.abcdefgh").touch()  # of a process that was killed
    with pytest.raises(DataError, match=r"got one that holds 'training'\. Choose another --out"):
        begin(tmp_path, tiny(), resume=True)
    (tmp_path / "training").rmdir()
    begin(tmp_path, tiny(), resume=True)


def test_words_and_populations_may_change_and_seeds_grow(tmp_path: Path, tiny: Tiny) -> None:
    begin(tmp_path, tiny(seeds=3, notes=["said of these runs"]), resume=True)
    other = tiny(seeds=1, notes=["another word"], title="Another title", population=4)
    begin(tmp_path, other, resume=True)
    kept = read_experiment(tmp_path)
    assert (kept["seeds"], kept["title"], kept["population"]) == (3, "Another title", 4)
    assert kept["notes"] == ["said of these runs"]
    begin(tmp_path, tiny(seeds=5), resume=True)
    assert read_experiment(tmp_path)["seeds"] == 5


def test_what_is_no_experiments_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the folder of an experiment, with experiment"):
        read_experiment(tmp_path)
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(
        DataError, match=r"an experiment; got Experiment is missing name,.* damaged"
    ):
        read_experiment(tmp_path)


@pytest.mark.parametrize("n", [0, 1, EVENTS, EVENTS + 1, 1024])
def test_thinned_histories_are_even_and_end_at_the_end(n: int) -> None:
    events = [
        Event(
            step=k + 1, steps=n, epoch=0.0, risk=0.0, loss=0.0, h_labelled=0.0, h_unlabelled=0.0,
            mask_labelled=1.0, mask_unlabelled=None, gradient_norm=0.0, learning_rate=0.1, lam=0.0,
            steps_per_second=1.0, validation=None, best=False,
        )
        for k in range(n)
    ]  # fmt: skip
    steps = [event["step"] for event in thinned(events)]
    assert len(steps) == min(n, EVENTS)
    assert steps == sorted(set(steps))
    if n:
        assert steps[-1] == n
        gaps = [b - a for a, b in zip([0, *steps], steps, strict=False)]
        assert max(gaps) - min(gaps) <= 1


def test_a_copy_of_a_record_is_no_further_split(tmp_path: Path) -> None:
    write_record(tmp_path, record())
    (file,) = (tmp_path / "runs").iterdir()
    file.with_name("a-1-x-lam1-seed0 (copy).json").write_bytes(file.read_bytes())
    with pytest.raises(DataError, match=r"\(copy\)\.json: .* that of 'a-1-x-lam1-seed0'.* remove"):
        read_records(tmp_path)


@pytest.mark.parametrize("other", [{"seed": 1}, {"lam": 2.0}, {"method": "de_x"}])
def test_a_record_is_of_the_run_that_its_key_names(tmp_path: Path, other: dict[str, Any]) -> None:
    """A copy with another key would count as one more split, or at another λ."""
    write_record(tmp_path, record(**other))
    own = "{method}-lam{lam:g}-seed{seed}".format(**{"method": "x", "lam": 1, "seed": 0} | other)
    with pytest.raises(DataError, match=f"lam1-seed0.json: expected .* got that of '{own}'"):
        read_records(tmp_path)


@pytest.mark.parametrize("other", [{"experiment": "mnist"}, {"profile": "paper"}])
def test_a_record_of_another_experiment_is_refused(
    tmp_path: Path, tiny: Tiny, other: dict[str, str]
) -> None:
    begin(tmp_path, tiny(), resume=True)
    write_record(tmp_path, record())
    assert finished(tmp_path) == [record()]
    write_record(tmp_path, record(key="b-x-lam1-seed0", **other))
    (value,) = other.values()
    with pytest.raises(
        DataError, match=f"b-.*json: .* run of 'tiny' at .*; got one of .*'{value}'"
    ):
        finished(tmp_path)


def test_runs_on_real_and_on_made_up_rows_are_not_mixed(tmp_path: Path, tiny: Tiny) -> None:
    begin(tmp_path, tiny(), resume=True)
    settings = {"data": {"name": "mnist"}}
    write_record(tmp_path, record(data="mnist", settings=settings))
    write_record(
        tmp_path, record(key="b-x-lam1-seed0", data="rings", settings={"data": {"name": "rings"}})
    )
    assert len(finished(tmp_path)) == 2
    write_record(
        tmp_path, record(key="c-x-lam1-seed0", data="mnist (generated)", settings=settings)
    )
    with pytest.raises(DataError, match=r"as 'mnist' in all runs; got mnist and mnist \(generated"):
        finished(tmp_path)


def test_runs_of_one_method_are_trained_alike_but_for_split_and_lambda(
    tmp_path: Path, tiny: Tiny
) -> None:
    begin(tmp_path, tiny(), resume=True)

    def write(seed: int, **plan: Any) -> None:
        plan = {"seed": seed, "lam": 1.0, "learning_rate": 0.1, **plan}
        key = f"a-1-x-lam{plan['lam']:g}-seed{seed}"
        settings = {"data": {"name": "a"}, "plan": plan, "curve": "test"}
        write_record(tmp_path, record(key=key, seed=seed, lam=plan["lam"], settings=settings))

    write(0)
    write(1, lam=2.0)
    write(2, patience=3)  # a setting that older runs did not have
    assert len(finished(tmp_path)) == 3
    write(3, learning_rate=9.0)
    with pytest.raises(
        DataError,
        match=r"seed3\.json: expected the plan of 'a-1-x.*learning_rate = 9\.0, not 0\.1",
    ):
        finished(tmp_path)
