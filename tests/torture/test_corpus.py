"""Inputs that once hung, crashed or took all memory: each is now read, or refused in words."""

from pathlib import Path

import pytest
from cases import Case, judged
from limits import Watch

FILES = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.fixture(scope="module")
def watch() -> Watch:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the memory of a case is measured on Linux alone")
    return Watch()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_case_of_the_corpus(
    file: Path, tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESSL_DATA", str(tmp_path / "none"))
    case = Case.load(file)
    case.write(tmp_path)
    judged(case, tmp_path)  # imports are not a case's memory
    with watch.limited(case.decoded):
        judged(case, tmp_path)
    watch.disarm()
