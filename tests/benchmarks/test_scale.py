import argparse
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]
OURS = ("dessl fit", "dessl fit, .npy", "dessl fit, network", "DeSSLClassifier")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_growth_is_the_steepest_exponent(script: Script) -> None:
    growth = script("scale").growth
    sizes = {"1000": {"s": 2.0}, "10000": {"s": 20.0}, "100000": {"s": 2000.0}, "10": {"x": 1}}
    assert growth(sizes, "s", 1.0) == 2.0
    assert growth({"1000": {"s": 0.1}, "10000": {"s": 0.9}}, "s", 1.0) == 0.0
    assert growth({"1000": {"s": 3.0}}, "s", 1.0) is None


def test_a_method_that_gave_up_is_not_tried_again(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = script("scale")
    asked = []

    def limited(method: str, rows: int, options: object) -> dict[str, object]:
        asked.append(rows)
        return {"gave up": "time"} if rows == 100 else {"processor": rows / 10, "gigabytes": 1.0}

    monkeypatch.setattr(scale, "limited", limited)
    options = argparse.Namespace(out=tmp_path / "a" / "scale.json")
    found: dict[str, dict[str, object]] = {"methods": {}}
    peer, own = "LabelSpreading", "DeSSLClassifier"
    for _ in range(2):  # the second time, all is known
        scale.series(peer, [10, 20, 100, 1000], options, found, threading.Lock())
        for size in (1000, 100, 10):
            scale.series(own, [size], options, found, threading.Lock())
    assert asked == [10, 20, 100, 1000, 100, 10]
    written = json.loads(options.out.read_text())
    assert written["growth"][peer] == {"processor": 1.0, "gigabytes": 0.0}
    assert written["methods"][peer]["100"] == {"gave up": "time"}
    assert list(written["methods"][own]) == ["10", "100", "1000"]


def test_the_largest_sizes_of_ours_are_measured_first(script: Script) -> None:
    tasks = script("scale").tasks(["DeSSLClassifier", "LabelSpreading"], [10, 100])
    assert tasks == [
        ("DeSSLClassifier", [100]),
        ("LabelSpreading", [10, 100]),
        ("DeSSLClassifier", [10]),
    ]


@pytest.mark.parametrize("form", ["csv", "npy"])
def test_files_have_the_rows(script: Script, tmp_path: Path, form: str) -> None:
    scale = script("scale")
    scale.main(["--write", str(tmp_path), "--rows", "30", "--format", form])
    if form == "csv":
        lines = (tmp_path / "rows.csv").read_text().splitlines()
        assert len(lines) == 1 + scale.LABELS + 30
        assert sum(line.endswith(",") for line in lines) == 30
        assert lines[0] == "x0,x1,x2,x3,label"


def test_a_fit_past_its_limits_is_ended(script: Script) -> None:
    scale = script("scale")
    options = argparse.Namespace(minutes=0.0, gigabytes=8.0, deadline=float("inf"))
    assert "minutes" in scale.limited("LabelSpreading", 1000, options)["gave up"]


def test_committed_growth_of_ours_is_at_most_linear() -> None:
    found = json.loads((RESULTS / "scale.json").read_text())
    for name in OURS:
        done = [int(n) for n, one in found["methods"][name].items() if "gave up" not in one]
        assert done == [10**k for k in range(3, 8)]
        assert max(found["growth"][name].values()) <= 1.0
