"""The hooks of the documentation's site: links that leave docs/, the first page, docstrings."""

import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
HOOKS = ROOT / "docs" / "hooks"


@pytest.fixture(scope="module")
def pages() -> dict[str, Any]:
    pytest.importorskip("mkdocs", reason="the documentation's tools are not installed")
    return runpy.run_path(str(HOOKS / "pages.py"))


@pytest.fixture
def site() -> dict[str, Any]:
    """A page of the site, and a site that has every file of docs/ and no other."""
    inside = SimpleNamespace(get_file_from_path=lambda path: (ROOT / "docs" / path).is_file())
    return {"page": SimpleNamespace(file=SimpleNamespace(src_uri="faq.md")), "files": inside}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see [data](data.md#from-files).", "see [data](data.md#from-files)."),
        ("[web](https://example.org)", "[web](https://example.org)"),
        ("![toy](images/toy.png)", "![toy](images/toy.png)"),
        ("the [licence](../LICENSE)", "the licence (`LICENSE` in the repository)"),
        ("```python\nmodels[name](x)\n```", "```python\nmodels[name](x)\n```"),
    ],
)
def test_only_links_that_leave_docs_become_text(
    pages: dict[str, Any], site: dict[str, Any], written: str, shown: str
) -> None:
    assert pages["on_page_markdown"](written, **site, config=None) == shown


def test_the_first_page_is_the_readme_seen_from_docs(pages: dict[str, Any]) -> None:
    read = pages["_from_readme"]("[a](docs/data.md) [b](LICENSE) ![c](docs/images/toy.png)")
    assert read == "[a](data.md) [b](../LICENSE) ![c](images/toy.png)"


def test_pages_that_do_not_exist_leave_the_navigation(pages: dict[str, Any]) -> None:
    nav = ["index.md", "nowhere.md", {"Work": ["data.md", "nowhere.md"]}, {"API": "api"}]
    kept = pages["on_config"](SimpleNamespace(nav=nav)).nav
    assert kept[:2] == ["index.md", {"Work": ["data.md"]}]
    assert {"Risks": "api/dessl.risk.md"} in kept[2]["API"]


def test_every_room_that_people_import_from_has_a_page(pages: dict[str, Any]) -> None:
    inside = {"cli", "report", "results", "saved"}  # used through the command line
    source = ROOT / "src" / "dessl"
    rooms = {path.stem for path in source.iterdir() if (path / "__init__.py").exists()}
    rooms |= {path.stem for path in source.glob("[a-z]*.py")}
    assert {f"dessl.{room}" for room in rooms - inside} <= set(pages["API"])


def test_doctests_become_code_blocks_and_roles_code() -> None:
    pytest.importorskip("griffe", reason="the documentation's tools are not installed")
    as_markdown = runpy.run_path(str(HOOKS / "docstrings.py"))["as_markdown"]
    text = "Of :class:`~dessl.Risk`.\n\nExample:\n    >>> 1 + 1\n    2\n\nMore.\n"
    assert as_markdown(text) == (
        "Of `dessl.Risk`.\n\nExample:\n    ```pycon\n    >>> 1 + 1\n    2\n    ```\n\nMore.\n"
    )


SEARCHED = """
const query = document.querySelector('[data-md-component=search-query]');
query.focus();
query.value = 'zebra';
query.dispatchEvent(new Event('input', { bubbles: true }));
query.dispatchEvent(new KeyboardEvent('keyup', { bubbles: true }));
1
"""
FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href).join(' ')"


def test_a_site_opened_from_a_folder_can_be_searched(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="the documentation's tools are not installed")
    browser = runpy.run_path(str(ROOT / "tests" / "report" / "browser.py"))
    if not browser["PROGRAM"]:
        pytest.skip("no Chromium")
    docs = tmp_path / "docs"
    (docs / "scripts").mkdir(parents=True)
    shim = (ROOT / "docs" / "scripts" / "iframe-worker.js").read_text(encoding="utf-8")
    (docs / "scripts" / "iframe-worker.js").write_text(shim, encoding="utf-8")
    (docs / "index.md").write_text("# First\n\nNothing.\n")
    (docs / "other.md").write_text("# Second\n\nA zebra.\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: []\nnav: [index.md, other.md]\n"
        f"docs_dir: {docs}\nsite_dir: {tmp_path / 'site'}\nplugins: [search, offline]\n"
    )
    build = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(tmp_path / "mkdocs.yml")]
    subprocess.run(build, check=True, capture_output=True)
    with browser["running_browser"](tmp_path / "profile") as page:
        page.open(tmp_path / "site" / "index.html", width=1200, height=800)
        page.value(SEARCHED)
        for _ in range(200):
            if found := page.value(FOUND):
                break
            time.sleep(0.1)
        assert "other.html" in found
        assert [url for url in page.requests if url.startswith("http")] == []
        assert page.complaints == []


def test_the_site_has_the_search_that_was_tried() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "  - offline" in settings
    assert "polyfills: [scripts/iframe-worker.js]" in settings
