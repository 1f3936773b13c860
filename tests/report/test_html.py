"""Elements: what is text stays text."""

import html
from typing import Any

import pytest
from tests.report.reader import Reader

from dessl.report.html import (
    Markup,
    element,
    escaped,
    figure,
    joined,
    named,
    section,
    shortened,
    table,
)


def test_escaping_is_the_inverse_of_what_a_reader_does() -> None:
    text = "<a href='x'>\"&amp;\u2028</a>"
    assert html.unescape(escaped(text)) == text
    assert Reader(element("p", text, title=text)).texts == [text]


def test_attributes_are_named_as_in_html() -> None:
    made = element("p", class_="a", stroke_width=2, title='"<', id=None, tabindex=0)
    assert Reader(made).attributes == [
        ("class", "a"), ("stroke-width", "2"), ("title", '"<'), ("tabindex", "0"),
    ]  # fmt: skip
    assert element("br", class_="x") == '<br class="x">'
    assert isinstance(made, Markup)


@pytest.mark.parametrize(
    ("children", "made"),
    [
        (None, ""),
        (0, "0"),
        (["a<", None, [Markup("<b>x</b>"), 2.5]], "a&lt;<b>x</b>2.5"),
        (("&", ("a",)), "&amp;a"),
    ],
)
def test_children_are_joined(children: Any, made: str) -> None:
    assert joined(children) == made
    assert element("p", children) == f"<p>{made}</p>"


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\x7f", "\x85", "\udcff", "\ufffe"])
def test_what_no_document_may_have_is_replaced(bad: str) -> None:
    assert escaped(f"a{bad}b\n") == "a\ufffdb\n"
    escaped(bad).encode("utf-8")


def test_names_of_the_user_s_are_isolated() -> None:
    assert named("<a>") == "<bdi>&lt;a&gt;</bdi>"
    assert named(3) == "<bdi>3</bdi>"


@pytest.mark.parametrize("name", ["chromosome", "染色体染色体", "a染b色c体", "ｗｉｄｅ"])
def test_a_shortened_name_has_room(name: str) -> None:
    def width(text: str) -> int:
        return sum(1 if ord(letter) < 256 or letter == "…" else 2 for letter in text)

    for most in range(1, 14):
        found = shortened(name, most)
        assert width(found) <= most
        if found != name:
            assert width(name) > most
            assert found.endswith("…")
            assert name.startswith(found[:-1])
            assert most - width(found) < 2  # as much as fits


def test_a_table_has_heads_of_rows_and_columns_and_scrolls() -> None:
    own = element("td", "d", class_="best")
    made = table(("", "x<"), [("a", 1), ("b", own)], label="Two", class_="facts")
    page = Reader(made)
    assert page.texts == ["x<", "a", "1", "b", "d"]
    assert page.tags.count("th") == 4
    assert page.tags.count("td") == 2
    assert ("class", "best") in page.attributes
    assert ("aria-label", "Two") in page.attributes
    assert ("class", "facts") in page.attributes
    assert ("class", "") not in Reader(table(("a",), [], label="None")).attributes


def test_figures_and_sections_have_their_parts_in_order() -> None:
    made = figure("A & B", Markup("<svg></svg>"), numbers=Markup("<table></table>"))
    page = Reader(section("Title", made, None))
    assert page.tags == [
        "section", "h3", "figure", "figcaption", "div", "svg", "details", "summary", "table",
    ]  # fmt: skip
    assert page.texts == ["Title", "A & B", "Numbers"]
