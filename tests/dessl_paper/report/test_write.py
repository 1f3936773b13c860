import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from dessl.cli.main import main
from dessl.data import DataError
from dessl_paper.report.results import Results, read_results
from dessl_paper.report.tables.all import tables_of
from dessl_paper.report.write import (
    is_reproduction,
    reproduction_findings,
    write_reproduction,
)
from dessl_paper.specification import load_experiment

ALWAYS = ["table.md", "table.tex", "summary.json", "figure.png", "figure.svg", "report.html"]


def checked_picture(png: Path, svg: Path) -> str:
    """Refuse pictures that cannot be read or have nothing in them; return the SVG."""
    picture = Image.open(io.BytesIO(png.read_bytes()))
    assert picture.format == "PNG"
    assert picture.width > 500
    assert len(picture.convert("L").getcolors(256) or []) > 10
    text = svg.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    return text


@pytest.mark.parametrize("name", ["mnist", "medmnist", "consistency-cifar10", "toy", "risk-quality",
                                  "lambda-opt"])  # fmt: skip
def test_every_kind_of_experiment_is_written(smoke: Callable[[str], Path], name: str) -> None:
    folder = smoke(name)
    files = write_reproduction(folder)
    assert [file.name for file in files if file.name in ALWAYS] == ALWAYS
    for png in (file for file in files if file.suffix == ".png"):
        checked_picture(png, png.with_suffix(".svg"))
    page = (folder / "report.html").read_text(encoding="utf-8")
    markdown = (folder / "table.md").read_text(encoding="utf-8")
    assert "smoke run" in page
    assert "smoke run" in markdown
    assert "network" in markdown or name == "toy"
    assert all(table.caption in markdown for table in tables_of(read_results(folder)))
    assert all(finding.text in markdown for finding in reproduction_findings(folder))


def test_the_same_records_give_the_same_files(smoke: Callable[[str], Path]) -> None:
    first = {file.name: file.read_bytes() for file in write_reproduction(smoke("toy"))}
    again = {file.name: file.read_bytes() for file in write_reproduction(smoke("toy"))}
    assert first == again


def test_methods_have_learning_curves_and_classes(
    fixmatch: Results, folder_of: Callable[..., Path]
) -> None:
    folder = folder_of(load_experiment("fixmatch-cifar10", "fast"), fixmatch)
    written = [file.name for file in write_reproduction(folder)]
    assert {"figure-learning.png", "figure-classes.svg"} <= set(written)
    for name in ("figure", "figure-learning", "figure-classes"):
        svg = checked_picture(folder / f"{name}.png", folder / f"{name}.svg")
        assert "<!-- DeFixMatch -->" in svg  # what text a path shows is said beside it
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 3
    assert not re.findall(r'(?:src|href)="(?!data:|figure)', page)


def test_the_summary_has_every_number_for_programs(
    fixmatch: Results, folder_of: Callable[..., Path]
) -> None:
    folder = folder_of(load_experiment("fixmatch-cifar10", "fast"), fixmatch)
    write_reproduction(folder)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    (one,) = [
        mean
        for mean in summary["means"]
        if (mean["method"], mean["metric"]) == ("de_fixmatch", "brier")
    ]
    values = [r.metrics["brier"] for r in fixmatch.records if r.method == "de_fixmatch"]
    assert one["mean"] == pytest.approx(sum(values) / 3)
    assert (one["paper"], one["n"], one["labels"]) == (0.076, 3, 4000)
    assert len(summary["comparisons"]) == 4 * 5  # metrics, and pairs of methods
    assert summary["findings"]


def test_a_folder_without_runs_is_refused(tmp_path: Path, smoke: Callable[[str], Path]) -> None:
    with pytest.raises(DataError, match=r"with experiment\.json; got none"):
        write_reproduction(tmp_path)
    experiment = (smoke("toy") / "experiment.json").read_bytes()
    (tmp_path / "experiment.json").write_bytes(experiment)
    with pytest.raises(
        DataError, match=r"one finished.*Run it: dessl reproduce toy --profile smoke"
    ):
        write_reproduction(tmp_path)


def test_a_damaged_record_is_named(tmp_path: Path, smoke: Callable[[str], Path]) -> None:
    (tmp_path / "experiment.json").write_bytes((smoke("toy") / "experiment.json").read_bytes())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.json: expected JSON of a run"):
        write_reproduction(tmp_path)


def command(*arguments: object) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    return int(left.value.code or 0)


def test_the_command_tells_a_reproduction_from_a_run(
    smoke: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    folder = smoke("toy")
    assert is_reproduction(folder)
    assert not is_reproduction(tmp_path)
    (folder / "report.html").unlink(missing_ok=True)
    assert command("report", folder) == 0
    said = capsys.readouterr().out
    assert "toy: This is a smoke run" in said
    assert f"Written: {folder / 'report.html'}" in said
    assert (folder / "report.html").is_file()
    assert command("report", folder, "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["folder"] == str(folder)
    assert command("report", folder, tmp_path) != 0
    assert "Report them apart" in capsys.readouterr().err
    assert command("report", folder, "--out", tmp_path / "a.html") != 0
    assert "Leave --out away" in capsys.readouterr().err
