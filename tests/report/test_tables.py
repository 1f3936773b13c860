"""Tables in Markdown and LaTeX."""

import html
import re

import pytest

from dessl.report.tables import (
    Table,
    latex_fragment,
    latex_table,
    latex_text,
    markdown_list,
    markdown_table,
    markdown_text,
)

ODD = Table(
    "50 % of p(1|x) & more_of {it}",
    ("method", *"abcdefgh"),
    (("FixMatch*", *["93.1 ± 0.2 (3)"] * 8), ("Π-model", *["−0.5"] * 8)),
)


def unescaped(sign: str, line: str) -> int:
    return len(re.findall(rf"(?<!\\){re.escape(sign)}", line))


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="must have 2 cells, one per heading; got 1"):
        Table("t", ("a", "b"), (("x",),))


def test_markdown_rows_have_one_bar_more_than_cells() -> None:
    lines = markdown_table(ODD).splitlines()[2:]
    assert {unescaped("|", line) for line in lines} == {10}
    heading = markdown_table(Table("t", ("p(1|x)",), ())).splitlines()[2]
    assert heading == r"| p(1\|x) |"


TITLE = "<script>alert(1)</script> a|b_c & $x^2$ \\foo *i* __init__ `code` [x](y) ~z~ **b**\nend"


@pytest.mark.parametrize("kind", ["gfm-like", "mkdocs"])
@pytest.mark.parametrize(
    "text", [TITLE, "# head", "- dash", "> quote", "FixMatch*, p < 0.05, λ_opt"]
)
def test_markdown_shows_a_text_as_it_is(text: str, kind: str) -> None:
    def shown(source: str) -> str:
        if kind == "mkdocs":
            page = pytest.importorskip("markdown").markdown(source, extensions=["tables"])
        else:
            page = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
            page = page.render(source)
        assert not re.search("<(?!/?(p|h2|ul|li|table|thead|tbody|tr|th|td)[ >])", page)
        words = html.unescape(re.sub("<[^>]*>", " ", page))
        return " ".join(words.split())

    line = " ".join(text.split())
    assert shown(markdown_text(text)) == line
    assert shown(markdown_list("Besides", [text, "two"])) == f"Besides {line} two"
    table = shown(markdown_table(Table(text, ("one", text), ((text, "1"), ("a", "b")))))
    assert table == f"{line} one {line} {line} 1 a b"


def test_latex_has_balanced_braces_and_environments_and_is_ascii() -> None:
    assert latex_text("two\n\nlines") == "two  lines"
    text = latex_fragment("λ & co", [ODD, ODD], ["a_b is 5 % more", "x < y"], ["foot # 1"])
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert text.isascii()
    assert unescaped("{", body) == unescaped("}", body)
    begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", body) for word in ("begin", "end"))
    assert sorted(begun) == sorted(ended)
    assert begun.count("tabular") == 2
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {unescaped("&", row) for row in rows} == {8}
    assert unescaped("$", body) % 2 == 0
    assert unescaped("%", body) == body.count("{!}{%")  # else a comment would eat the line


def test_wide_tables_are_scaled_to_the_page_and_narrow_ones_are_not() -> None:
    assert r"\resizebox{\textwidth}" in latex_table(ODD)
    assert r"\resizebox" not in latex_table(Table("t", ("a", "b"), ()))


@pytest.mark.parametrize("sign", list("\\{}%_&#$~^<>|±−–∞×λΠρ≥≤é漢"))
def test_no_sign_is_left_that_latex_would_take_for_itself(sign: str) -> None:
    written = latex_text(sign)
    assert written.isascii()
    assert written != sign or sign not in "\\{}%_&#$~^"
