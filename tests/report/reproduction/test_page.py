"""The page of a reproduction as a reader meets it, in headless Chromium."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from dessl.report.reproduction.write import write_reproduction

DRIVER = runpy.run_path(str(Path(__file__).parents[1] / "page" / "browser.py"))

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
