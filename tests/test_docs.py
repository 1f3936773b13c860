"""Every code block of README and docs runs, and the examples do what they say.

A page's ``python`` blocks run in order in one namespace; ``pycon`` blocks are doctests in the same
namespace.
"""

import doctest
import re
import runpy
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for match in BLOCK.finditer(text):
        line = text[: match.start()].count("\n") + 1
        kind, code = match.groups()
        if kind == "python":
            exec(compile("\n" * line + code, str(page), "exec"), names)
        else:
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_two_line_change_shows_the_bias_and_its_cure() -> None:
    example = runpy.run_path(str(ROOT / "examples" / "two_line_change.py"))
    found = {kind: example["train"](kind, steps=400) for kind in ("usual SSL", "debiased")}
    assert found["debiased"] == pytest.approx(0.25, abs=0.06)
    assert found["usual SSL"] < 0.14
