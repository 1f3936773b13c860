"""The report as a reader meets it: the real file in headless Chromium, on a phone and on a desk."""

import dataclasses
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dessl.report.page import write_report
from dessl.results.facts import RunFacts

DRIVER = runpy.run_path(str(Path(__file__).with_name("browser.py")))

pytestmark = pytest.mark.skipif(
    DRIVER["PROGRAM"] is None, reason="Chromium is not installed (apt-get install chromium)"
)

PHONE, DESK = (360, 740), (1280, 900)

# What is shown: boxes in CSS pixels, texts of plots, and colours as they are computed.
SHOWN = """(() => {
  const box = node => { const b = node.getBoundingClientRect();
    return {what: (node.id || node.tagName) + ' ' + (node.getAttribute('aria-label') || ''),
            left: b.left, right: b.right, width: b.width, height: b.height}; };
  const plots = [...document.querySelectorAll('figure .pictures svg')];
  return {
    width: document.documentElement.clientWidth,
    page: document.documentElement.scrollWidth,
    verdict: box(document.querySelector('#verdict')),
    sentence: document.querySelector('#verdict .sentence').innerText,
    table: box(document.querySelector('table.metrics')),
    regions: [...document.querySelectorAll('.wide')].filter(n => n.checkVisibility()).map(box),
    plots: plots.map(box),
    outside: plots.flatMap(plot => [...plot.querySelectorAll('text')].filter(text => {
      const [a, b] = [text.getBoundingClientRect(), plot.getBoundingClientRect()];
      return a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1;
    }).map(text => text.textContent)),
    letters: Math.min(...plots.flatMap(plot => [...plot.querySelectorAll('text')].map(
      text => 11 * plot.getBoundingClientRect().width / plot.viewBox.baseVal.width))),
    scripts: document.scripts.length,
    facts: JSON.parse(document.querySelector('#facts').textContent),
    colours: [...document.querySelectorAll('p, th, td, summary, figcaption, svg text')].map(
      node => { const style = getComputedStyle(node);
      return node.namespaceURI.endsWith('svg') ? style.fill : style.color; }),
    panel: getComputedStyle(document.querySelector('#verdict')).backgroundColor,
    paper: getComputedStyle(document.body).backgroundColor,
  };
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with DRIVER["running_browser"](tmp_path_factory.mktemp("profile")) as running:
        yield running


def _luminance(colour: str) -> float:
    channels = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _check(browser: Any, path: Path, size: tuple[int, int], *, dark: bool) -> dict[str, Any]:
    browser.open(path, width=size[0], height=size[1], dark=dark)
    shown: dict[str, Any] = browser.value(SHOWN)
    assert browser.complaints == []
    assert browser.requests == [path.as_uri()]
    assert shown["page"] <= shown["width"] == size[0], "the page moves sideways"
    for part in (shown["verdict"], *shown["regions"], *shown["plots"]):
        assert part["width"] > 40, part
        assert part["height"] > 20, part
        assert part["left"] >= 0, part
        assert part["right"] <= shown["width"] + 0.5, part
    assert shown["outside"] == []
    assert shown["letters"] >= 9, "letters of plots are too small to read"
    for ground in (shown["paper"], shown["panel"]):
        assert min(_contrast(colour, ground) for colour in set(shown["colours"])) >= 4.5
    assert shown["scripts"] == 1
    return shown


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_everything_is_visible(
    browser: Any, facts: RunFacts, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    write_report(tmp_path / "report.html", facts)
    shown = _check(browser, tmp_path / "report.html", size, dark=dark)
    assert shown["sentence"] == facts.verdict.sentence
    assert shown["table"]["height"] > 200
    pictures = {"differences": 3, "diagrams": 3, "classes": 2, "parts": 3, "validation": 2}
    assert len(shown["plots"]) == sum(pictures.values())
    assert shown["facts"] == json.loads(json.dumps([facts.as_dict()]))
    assert (_luminance(shown["paper"]) < 0.1) == dark


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_what_people_call_their_data_is_text(
    browser: Any, facts: RunFacts, hostile: RunFacts, tmp_path: Path, size: tuple[int, int]
) -> None:
    write_report(tmp_path / "two.html", [hostile, facts], names=["<i>a</i>", "runs/b"])
    shown = _check(browser, tmp_path / "two.html", size, dark=False)
    assert shown["facts"][0]["data"]["class_names"] == list(hostile.data.class_names)
    assert browser.value("document.querySelectorAll('main img, main b, main i').length") == 0
    assert browser.value("[...document.querySelectorAll('h2')].map(h => h.textContent)") == [
        f"<i>a</i>: {hostile.title}",
        f"runs/b: {facts.title}",
    ]


def test_the_checks_find_what_they_look_for(browser: Any, facts: RunFacts, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", facts)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = tmp_path / "bad.html"
    page.write_text(text.replace("<main>", "<main><img src='https://example.org/x.png'>"))
    browser.open(page, width=360, height=740)
    assert any("Content Security Policy" in line for line in browser.complaints)
    page.write_text(text.replace("<main>", "<main><div style='width:900px'>wide</div>"))
    with pytest.raises(AssertionError, match="sideways"):
        _check(browser, page, PHONE, dark=False)


def test_it_prints_light_on_a_dark_screen(browser: Any, facts: RunFacts, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", facts)
    browser.open(tmp_path / "report.html", width=1280, height=900, dark=True)
    browser.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    ink = browser.value("getComputedStyle(document.body).color")
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    shown = (
        "document.querySelector('details.settings table').checkVisibility("
        "{contentVisibilityAuto: true, visibilityProperty: true})"
    )
    settings = browser.value(shown)
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert settings, "the settings, folded on a screen, are not on paper"
    assert not browser.value(shown)
    assert _luminance(paper) == 1
    assert _contrast(ink, paper) > 7


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_one_method_fills_the_width(
    browser: Any, facts: RunFacts, tmp_path: Path, size: tuple[int, int]
) -> None:
    name = facts.methods[0].name
    runs = tuple(run for run in facts.runs if run.method == name and run.seed == 0)
    one = dataclasses.replace(facts, methods=facts.methods[:1], runs=runs, comparisons=())
    write_report(tmp_path / "report.html", one)
    browser.open(tmp_path / "report.html", width=size[0], height=size[1])
    shown = browser.value(
        "[...document.querySelectorAll('.narrow svg, .roomy svg')].filter(n => n.checkVisibility())"
        ".map(n => [n.getBoundingClientRect().width, n.viewBox.baseVal.width])"
    )
    main = browser.value("document.querySelector('main').getBoundingClientRect().width")
    assert len(shown) == 2  # calibration, learning; ten classes are two pictures
    for width, drawn in shown:
        assert width > 0.9 * main
        assert 11 * width / drawn >= 9
