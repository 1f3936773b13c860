"""Inputs that once hung, crashed or took all memory: each is now read, or refused in words."""

from pathlib import Path

import pytest
from cases import Case, judged
from limits import Watch

FILES = sorted((Path(__file__).parent / "corpus").glob("*.json"))
READ = {  # all others are refused
    "arguments-json-as-a-value-e8c7ef",
    "csv-a-class-of-a-million-characters",
    "excel-one-long-text-in-every-row",
    "resume-a-memory-of-truth-values-ec72e0",
    "resume-an-end-that-is-a-tensor-252826",
    "resume-an-optimiser-without-memory",
    "resume-rows-that-are-not-there",
    "resume-shards-of-another-shape",
    "resume-steps-as-text",
    "stored-tar-index-spoilt",
}


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
        accepted = judged(case, tmp_path)
    watch.disarm()
    assert accepted == (file.stem in READ)


def test_the_cases_that_are_read_exist() -> None:
    assert {file.stem for file in FILES} >= READ
