"""The notebook in examples/ runs from its first cell to its last, and shows what it promises."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def run_cell(source: str, names: dict[str, Any], where: str) -> Any:
    """Run a cell as a notebook does, and return the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), where, "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [
        run_cell("".join(cell["source"]), names, f"{path.name}, {cell['id']}")
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
    pictures = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    if path.name != "first_steps.ipynb":
        return
    assert "Fitted in" in capsys.readouterr().out
    assert sum(picture.startswith('<div style="border-left') for picture in pictures) == 2
    scores = [value for value in shown if isinstance(value, float)]
    assert scores[0] > 0.85
    assert shown[-1][1]


def test_a_notebook_is_there() -> None:
    assert EXAMPLES / "first_steps.ipynb" in NOTEBOOKS


@pytest.mark.parametrize(
    ("page", "script", "blocks"), [("fine-tuning", "fine_tuning", 4), ("ray", "with_ray", 4)]
)
def test_a_page_shows_its_example(page: str, script: str, blocks: int) -> None:
    text = (EXAMPLES.parent / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```py\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    code = "".join((EXAMPLES / f"{script}.py").read_text(encoding="utf-8").split())
    assert len(shown) == blocks
    assert [block for block in shown if "".join(block.split()) not in code] == []
