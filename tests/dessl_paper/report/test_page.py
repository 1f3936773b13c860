"""The page of a reproduction as a reader meets it, in headless Chromium."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from dessl_paper.report.write import write_reproduction

ROOT = Path(__file__).parents[3]
DRIVER = runpy.run_path(str(Path(__file__).parents[2] / "report" / "browser.py"))

SHOWN = """(() => {
  const pictures = [...document.querySelectorAll('img')];
  return {
    width: document.documentElement.clientWidth,
    page: document.documentElement.scrollWidth,
    drawn: pictures.map(one => one.complete && one.naturalWidth > 0 && one.width > 0),
    named: pictures.every(one => one.alt.length > 10),
    lists: document.querySelectorAll('li').length,
    rows: document.querySelectorAll('tbody tr').length,
    facts: JSON.parse(document.querySelector('#facts').textContent),
  };
})()"""


@pytest.mark.skipif(
    DRIVER["PROGRAM"] is None, reason="Chromium is not installed (apt-get install chromium)"
)
@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)])
def test_the_page_fits_and_loads_nothing(
    smoke: Callable[[str], Path], tmp_path: Path, width: int, dark: bool
) -> None:
    folder = smoke("mnist")
    write_reproduction(folder)
    with DRIVER["running_browser"](tmp_path) as browser:
        browser.open(folder / "report.html", width=width, height=800, dark=dark)
        shown = browser.value(SHOWN)
        asked = [url for url in browser.requests if not url.startswith(("file:", "data:"))]
        assert asked == []
        assert browser.complaints == []
    assert shown["page"] <= shown["width"]
    assert shown["drawn"] == [True]
    assert shown["named"]
    assert shown["lists"] == len(shown["facts"]["findings"])
    assert shown["rows"] == 3 * 3 + 3 * 2  # λ with and without the complete case, three metrics


def test_the_site_has_what_a_report_on_it_links_to() -> None:
    pytest.importorskip("mkdocs", reason="the documentation's tools are not installed")
    site = runpy.run_path(str(ROOT / "docs" / "hooks" / "pages.py"))["_results"]()
    reports = [ROOT / name for name in site if name.endswith(".html")]
    assert reports
    for report in reports:
        for link in re.findall(r'href="(?!data:)([^"#]+)"', report.read_text(encoding="utf-8")):
            assert (report.parent / link).relative_to(ROOT).as_posix() in site
