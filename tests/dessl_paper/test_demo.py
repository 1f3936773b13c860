"""``dessl demo``: one short run for all, and the committed one; its page can be written again."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dessl.data import DataError
from dessl.report.html import escaped
from dessl.results.facts import read_facts
from dessl_paper import demo
from dessl_paper.demo import DEMO, read_demo
from dessl_paper.demo_page import demo_lines, shown_parts, unbroken
from dessl_paper.demo_parts import demo_plan

Cli = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parent.parent.parent
COMMITTED = ROOT / "results" / "demo"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "run"


def test_demo_writes_its_page_and_the_report_of_its_fit(cli: Cli, folder: Path) -> None:
    code, out, err = cli("demo", "--steps", 3, "--out", folder)
    assert code == 0, err
    facts = read_demo(folder)
    assert facts.command == f"dessl demo --steps 3 --out {folder}"
    page = (folder / "report.html").read_text(encoding="utf-8")
    for line, part in zip(demo_lines(facts), shown_parts(facts), strict=True):
        assert line in out
        assert escaped(unbroken(part.details)) in page
    assert "limited to 3 steps" in page
    fit = read_facts(folder / "digits")
    assert [method.name for method in fit.methods] == ["complete case", "pool"]
    assert fit.average("pool", "accuracy").mean == pytest.approx(facts.gain.scores[1].value)
    assert (folder / "digits" / "report.html").is_file()
    assert 'href="digits/report.html"' in page


def test_a_random_teacher_gets_no_weight(folder: Path) -> None:
    advice = read_demo(folder).advice
    assert advice.lam == (0.0,) * 5
    assert advice.same
    alone, guarded, _ = advice.scores
    assert (guarded.value, guarded.low, guarded.high) == (alone.value, alone.low, alone.high)
    assert min(advice.lam_of_right) > 0


def test_the_page_can_be_written_again(cli: Cli, folder: Path) -> None:
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    code, out, err = cli("report", folder)
    assert code == 0, err
    assert str(folder / "report.html") in out
    assert (folder / "report.html").read_bytes() == before
    assert cli("report", folder, "--json")[0] == 0
    code, _, err = cli("report", folder, folder / "digits", "--out", folder / "both.html")
    assert code == 2
    assert "alone, without --out" in err


def test_files_of_something_else_are_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    code, _, err = cli("demo", "--steps", 2, "--out", tmp_path)
    assert code == 2
    assert "report.html, not written by dessl demo" in err
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_folder_is_ours_from_the_first_file_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    facts = read_demo(COMMITTED)
    monkeypatch.setattr(demo, "run_demo", lambda _: (facts, None))
    monkeypatch.setattr(demo, "write_facts", killed)
    monkeypatch.setattr(demo, "trial_facts", lambda *_, **__: None)
    for _ in range(2):  # the second time it is not refused
        with pytest.raises(KeyboardInterrupt):
            demo.made_demo(tmp_path, seed=None, steps=2, as_json=False)
        assert (tmp_path / "digits").is_dir()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda facts: facts.pop("harm"), "missing harm"),
        (lambda facts: facts["plan"].update(seed="one"), "plan.seed"),
        (lambda facts: facts.update(more=1), "no entry 'more'"),
    ],
)
def test_damaged_facts_are_named(
    tmp_path: Path, change: Callable[[dict], object], complaint: str
) -> None:
    entries = json.loads((COMMITTED / DEMO).read_text(encoding="utf-8"))
    change(entries)
    (tmp_path / DEMO).write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(DataError, match=complaint):
        read_demo(tmp_path)


def test_the_committed_run_has_the_settings_of_the_file_and_of_the_readme() -> None:
    facts = read_demo(COMMITTED)
    assert facts.plan == demo_plan()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in demo_lines(facts):
        assert line in readme
