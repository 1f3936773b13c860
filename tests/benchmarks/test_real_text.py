import json
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def real(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("real_text")


@pytest.fixture(scope="module")
def sets(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("real_text_sets")


def archive(files: dict[str, bytes]) -> BytesIO:
    written = BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
    written.seek(0)
    return written


def test_sentences_of_mean_zero_are_left_out(sets: ModuleType, tmp_path: Path) -> None:
    inner = archive(
        {
            "hutto_ICWSM_2014/tweets_GroundTruth.txt": b"1\t1.5\tgood\n2\t0.0\tso\n3\t-0.5\tbad\n",
            "hutto_ICWSM_2014/tweets_anonDataRatings.txt": (
                b"3\t-0.5\t1\t[0, -1]\n2\t0\t1\t[1, -1]\n1\t1.5\t1\t[-2, 3]\n"
            ),
        }
    )
    path = tmp_path / "vader.tar.gz"
    path.write_bytes(archive({"x/hutto_ICWSM_2014.tar.gz": inner.read()}).read())
    found = sets.sentences(path, "tweets")
    assert found == (["good", "bad"], [1, 0], {"annotator": [0, -1]})


def test_mails_and_packages_are_read(sets: ModuleType, tmp_path: Path) -> None:
    text = "Subject: Hello\nContent-Type: text/html\n\n<b>Buy</b>\n  now"
    message = json.dumps({"group": "spam-1", "text": text}).encode()
    path = tmp_path / "mail.tgz"
    path.write_bytes(archive({"package/data/spam-1/1.json": message}).read())
    assert sets.mails(path) == (["Hello. Buy now"], [1], {})
    listing = tmp_path / "packages.txt"
    record = "Package: a\nSection: games\nDescription: A game\n of chess\n"
    listing.write_text(f"{record}\n{record}\nPackage: b\nSection: libs\nDescription: Other\n")
    assert sets.packages(listing) == (["A game"], [sets.SECTIONS.index("games")], {})


def texts(place: Path, g: np.random.Generator) -> Path:
    """A set of texts as it is written, with two teachers."""
    y = g.integers(0, 2, 400)
    x = (g.normal(size=(400, 6)) + 2 * y[:, None]).astype(np.float32)
    said = np.where(g.random(400) < 0.2, -1, y)
    named = {"annotator": said, "zero-shot": np.stack([1.0 - y, y], 1) * 0.8 + 0.1}
    arrays = {f"tweets.answers.{name}": its for name, its in named.items()}
    np.savez(place, **{"tweets.x": x, "tweets.y": y}, **arrays)
    return place


def test_cells_with_and_without_a_teacher(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tree_students  # where the networks are trained

    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = tree_students.NetworkSetting(**short)
    monkeypatch.setattr(tree_students, "NetworkSetting", lambda: setting)
    prepared = texts(tmp_path / "texts.npz", np.random.default_rng(0))
    for teacher in (real.NONE, "annotator", real.ALL):
        found = real.measured(real.Cell("tweets", 40, teacher, 0), prepared)
        losses = {name: one["cross_entropy"] for name, one in found["scores"].items()}
        assert all(0 <= loss < 1 for loss in losses.values())
        if teacher == "annotator":
            assert found["teacher_alone"]["right"] == 1
            assert 0.6 < found["teacher_alone"]["answered"] < 0.95


def test_dictionaries_are_asked_of_sentences_alone(real: ModuleType) -> None:
    wanted = real.cells(2)
    assert len({*wanted}) == len(wanted) == 2 * (6 * 3 + 4 * 2 * 6 + 2 * 2)
    assert {cell.teacher for cell in wanted if cell.data == "mail"} == {real.NONE, "zero-shot"}


def test_the_committed_page_is_that_of_its_numbers(real: ModuleType) -> None:
    results = Path(real.__file__).parent / "results"
    found: dict[str, Any] = json.loads((results / "real_text.json").read_text())
    assert real.page(found) == (results / "real_text.md").read_text()
    assert found["runs"] == len(real.cells(found["draws"]))
