"""What the site has and docs/ has not: a first page from README.md, the API, and results."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

# One page for each module that people import from; names that start with _ stay out.
API = {
    "dessl": "Top-level names",
    "dessl.risk": "Risks",
    "dessl.functional": "Per-sample terms",
    "dessl.objective": "Objective",
    "dessl.theory": "Theory",
    "dessl.surrogates": "Surrogates",
    "dessl.data": "Data",
    "dessl.augment": "Augmentation",
    "dessl.models": "Models",
    "dessl.training": "Training",
    "dessl.schedules": "Schedules",
    "dessl.evaluation": "Evaluation",
    "dessl.teachers": "Teachers",
    "dessl.safety": "Safety",
    "dessl.recipes": "Recipes",
    "dessl.estimator": "Estimator",
    "dessl.sklearn": "scikit-learn",
    "dessl.export": "Export",
    "dessl.integrations": "Integrations",
}
REPORT = "report.html"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave pages that are not there out of the navigation, and put the API's in."""
    config.nav = [entry for entry in map(_present, config.nav or []) if entry]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=_from_readme(readme)))
    for module, title in _api().items():
        files.append(File.generated(config, _api_page(module), content=_api_text(module, title)))
    for name in _results():
        files.append(File(name, str(ROOT), config.site_dir, use_directory_urls=False))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Show a link that leaves docs/ as the place it leads to, where the site has not that file.

    Of results it has the pictures, and for a folder's table the report with the same numbers.
    """

    def shown(match: re.Match[str]) -> str:
        target = ((DOCS / page.file.src_uri).parent / match[3]).resolve()
        for place in (target, target.parent / REPORT):
            if files.get_file_from_path(result := _below(place, ROOT)):
                return f"{match[1]}[{match[2]}]({result})"
        inside = target.is_relative_to(DOCS) and files.get_file_from_path(_below(target, DOCS))
        if match[1] or inside:
            return match[0]
        return f"{match[2]} (`{_below(target, ROOT)}` in the repository)"

    return _outside_code(shown, markdown)


def _from_readme(text: str) -> str:
    """README.md as it reads from inside docs/."""
    return _outside_code(lambda m: f"{m[1]}[{m[2]}]({_from_docs(m[3])}{m[4] or ''})", text)


def _outside_code(replace: Callable[[re.Match[str]], str], text: str) -> str:
    """Replace links, but not in code blocks: ``models[name](x)`` is none."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts)


def _from_docs(target: str) -> str:
    return target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"


def _below(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


def _results() -> list[str]:
    """The reports, and the figures that they and the pages show or link to."""
    places = (ROOT / "results").rglob("*")
    kept = [one for one in places if one.suffix in (".png", ".svg") or one.name == REPORT]
    return sorted(one.relative_to(ROOT).as_posix() for one in kept)


def _present(entry: str | dict[str, Any]) -> str | dict[str, Any] | None:
    if isinstance(entry, str):
        return entry if entry == "index.md" or (DOCS / entry).exists() else None
    [(title, content)] = entry.items()
    if content == "api":
        return {title: [{name: _api_page(module)} for module, name in _api().items()]}
    return {title: [part for part in content if _present(part)]}


def _api() -> dict[str, str]:
    source = ROOT / "src"
    places = {module: source.joinpath(*module.split(".")) for module in API}
    return {
        module: title
        for module, title in API.items()
        if places[module].is_dir() or places[module].with_suffix(".py").exists()
    }


def _api_page(module: str) -> str:
    return f"api/{module}.md"


def _api_text(module: str, title: str) -> str:
    return f"# {title}\n\n::: {module}\n"
