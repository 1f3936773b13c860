"""Charts: what is drawn where, in the page's colours, the same bytes for the same numbers."""

import re
from importlib import resources
from xml.etree import ElementTree

import pytest

from dessl.report.chart import (
    COLOURS,
    IN_PAGE,
    SERIES,
    SETTINGS,
    Chart,
    drawing,
    inside,
    lambda_axis,
    magnitude_axis,
    page_svg,
    pictures,
)


@pytest.fixture(autouse=True)
def _in_page() -> object:
    with drawing(SETTINGS | IN_PAGE):
        yield


def drawn(chart: Chart, title: str = "t", description: str = "d") -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg(title, description))


def test_the_light_theme_has_the_charts_colours_and_the_dark_one_its_own() -> None:
    style = resources.files("dessl.report").joinpath("page.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", part)) for part in style.split("@media")[:2])
    assert {name: light[name] for name in COLOURS} == COLOURS
    assert all(dark[name] != colour for name, colour in COLOURS.items())


def test_a_line_is_where_its_points_are_and_has_the_pages_colour() -> None:
    chart = Chart.of("x", "y", width=360, height=250, left=44)
    chart.axes.plot([0, 10], [0, 1], color=SERIES[2].colour)
    chart.axes.set(xlim=(0, 10), ylim=(0, 1))
    (line,) = [p for p in drawn(chart).iter("path") if "--s2" in p.get("style", "")]
    assert re.findall(r"-?[\d.]+", line.get("d", "")) == ["44", "210", "344", "24"]
    assert "#" not in "".join(p.get("style", "") for p in drawn(chart).iter())


def test_the_same_numbers_give_the_same_bytes() -> None:
    def once() -> tuple[str, dict[str, bytes]]:
        chart = Chart.of("x", "y")
        chart.axes.fill_between([0, 1], [0, 0], [1, 2], color=SERIES[1].colour)
        return chart.svg("a", "b"), pictures(chart.axes.figure)

    assert once() == once()


@pytest.mark.parametrize("name", ["<script>", "$x^2$", "سرطان", "\x00\x1b", "x" * 300])
def test_a_name_is_text_and_its_whole_is_kept(name: str) -> None:
    chart = Chart.of(name, "a $b$")
    chart.label(name, SERIES[0].colour)
    svg = drawn(chart, title=name)
    clean = name.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert svg.findtext("title") == clean
    titles = [text.findtext("title") for text in svg.iter("text")]
    assert clean in titles
    assert {node.tag for node in svg.iter()} <= {"svg", "title", "desc", "path", "text"}
    assert all("id" not in node.attrib for node in svg.iter())


def test_a_lambda_axis_has_zero_apart() -> None:
    chart = Chart.of("λ", "y")
    lambda_axis(chart.axes, [0.1, 1.0, 10.0])
    texts = [text.text for text in drawn(chart).iter("text")]
    assert texts[:4] == ["0", "0.1", "1", "10"]


def test_an_axis_of_magnitudes_has_powers_of_ten_on_both_sides() -> None:
    chart = Chart.of("x", "y")
    magnitude_axis(chart.axes, [-0.004, 2.0, float("nan")])
    texts = [text.text for text in drawn(chart).iter("text")]
    assert [text for text in texts if text in ("−0.01", "0", "0.01", "0.1", "10")] == [
        "−0.01", "0", "0.01", "0.1", "10",
    ]  # fmt: skip


def test_an_interval_past_what_a_metric_can_be_does_not_stretch_its_axis() -> None:
    assert inside((90.0, 140.0), "accuracy") == (90.0, 100.5)
    assert inside((0.2, 140.0), "brier") == (0.2, 140.0)


def test_a_figure_in_a_page_is_cut_at_its_axes_and_keeps_its_exponents() -> None:
    from matplotlib.figure import Figure

    look = {"figure.facecolor": COLOURS["paper"], "text.parse_math": True, "svg.fonttype": "path"}
    with drawing(SETTINGS | look):
        figure = Figure(figsize=(4, 3))
        axes = figure.subplots()
        axes.plot([0, 100], [1e-3, 1e3], color=COLOURS["s1"])
        axes.set(xlim=(0, 10), yscale="log")
        found = pictures(figure)
    page = page_svg(found["page"], "a", "b", clipped=True)
    (frame,) = set(re.findall(r'clip-path="url\(#(\w+)\)"', page))
    assert f'<clipPath id="{frame}"><rect' in page
    assert "stroke:var(--s1)" in page
    assert "fill:var(--paper)" in page  # the ground turns dark with the page
    assert re.search(r">1</tspan><tspan[^>]*>0</tspan>", page)
    assert "clip-path" not in page_svg(found["page"], "a", "b")
    assert found["svg"] != found["page"]  # letters of the file are shapes, of the page text
