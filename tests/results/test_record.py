"""Records: whole or absent, and of the run that their key names."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from dessl.data import DataError
from dessl.results.record import EVENTS, Record, read_records, thinned, write_record
from dessl.training import Event


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
        ('{"experiment": "x", "history": 5}', "history must be a list; got 5"),
        ('{"experiment": "x", "lam": "one"}', "lam must be a finite number; got 'one'"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, content: str, says: str) -> None:
    write_record(tmp_path, record())
    (tmp_path / "runs" / "bad.json").write_text(content)
    with pytest.raises(DataError, match=f"bad.json: .*{says}.* Remove it, and run again"):
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
    with pytest.raises(
        DataError, match=r"\(copy\)\.json: .* the record of 'a-1-x-lam1-seed0'.* Remove"
    ):
        read_records(tmp_path)


@pytest.mark.parametrize("other", [{"seed": 1}, {"lam": 2.0}, {"method": "de_x"}])
def test_a_record_is_of_the_run_that_its_key_names(tmp_path: Path, other: dict[str, Any]) -> None:
    """A copy with another key would count as one more split, or at another λ."""
    write_record(tmp_path, record(**other))
    own = "{method}-lam{lam:g}-seed{seed}".format(**{"method": "x", "lam": 1, "seed": 0} | other)
    with pytest.raises(DataError, match=f"lam1-seed0.json: expected .* got the record of '{own}'"):
        read_records(tmp_path)
