"""Everything that is written of a folder, whole or unfinished, and the page in a browser."""

import dataclasses
import io
import json
import math
import random
import re
import runpy
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image

from dessl.cli.main import main
from dessl.data import DataError
from dessl.report.tables import latex_text
from dessl.results.record import Record
from dessl_paper.catalogue import experiment_names, load_experiment
from dessl_paper.findings import Finding
from dessl_paper.kinds import kind_of
from dessl_paper.made_with import made_with, run_count
from dessl_paper.results import Results, read_results
from dessl_paper.wording import listed
from dessl_paper.writing import (
    findings_of,
    is_reproduction,
    reproduction_findings,
    summary,
    summary_entries,
    write_reproduction,
)

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
    results = read_results(folder)
    tables = kind_of(results.experiment).tables(results)
    assert all(table.caption in markdown for table in tables)
    assert all(finding.text in markdown for finding in reproduction_findings(folder))


@pytest.mark.slow
def test_the_same_records_give_the_same_files(smoke: Callable[[str], Path]) -> None:
    first = {file.name: file.read_bytes() for file in write_reproduction(smoke("toy"))}
    again = {file.name: file.read_bytes() for file in write_reproduction(smoke("toy"))}
    assert first == again


@pytest.mark.slow
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
    assert page.count("<figure>") == page.count('<div class="picture') == 3
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


@pytest.mark.slow
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
    assert "Report them separately" in capsys.readouterr().err
    assert command("report", folder, "--out", tmp_path / "a.html") != 0
    assert "Omit --out" in capsys.readouterr().err


ROOT = Path(__file__).parents[2]


DRIVER = runpy.run_path(str(Path(__file__).parents[1] / "report" / "browser.py"))


SHOWN = """(() => {
  const pictures = [...document.querySelectorAll('.picture svg')];
  const fills = [...document.querySelectorAll('.picture svg path')].map(
    one => getComputedStyle(one).fill);
  return {
    width: document.documentElement.clientWidth,
    page: document.documentElement.scrollWidth,
    drawn: pictures.map(one => one.getBoundingClientRect().width > 300),
    named: pictures.every(one => one.getAttribute('aria-label').length > 10),
    paper: getComputedStyle(document.body).backgroundColor,
    ground: fills[0],
    claims: document.querySelectorAll('.claims tbody tr').length,
    first: document.querySelector('main h3').textContent,
    lists: document.querySelectorAll('li').length,
    rows: document.querySelectorAll('.numbers tbody tr').length,
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
    assert shown["ground"] == shown["paper"]  # the figure turns dark with its page
    assert shown["first"] == "Claims"
    assert shown["claims"] + shown["lists"] == len(shown["facts"]["findings"])
    assert shown["rows"] == 3 * 3 + 3 * 2  # λ with and without the complete case, three metrics


def test_the_site_has_what_a_report_on_it_links_to() -> None:
    pytest.importorskip("mkdocs", reason="the documentation's tools are not installed")
    site = runpy.run_path(str(ROOT / "docs" / "hooks" / "pages.py"))["_results"]()
    reports = [ROOT / name for name in site if name.endswith(".html")]
    assert reports
    for report in reports:
        for link in re.findall(r'href="(?!data:)([^"#]+)"', report.read_text(encoding="utf-8")):
            assert (report.parent / link).relative_to(ROOT).as_posix() in site


NAMES = ["mnist", "medmnist", "consistency-cifar10", "toy", "risk-quality", "lambda-opt"]


def dead(record: Record) -> Record:
    return dataclasses.replace(
        record, metrics={}, arrays={}, history=[], training={"diverged": "the risk is NaN"}
    )


@pytest.mark.parametrize("name", NAMES)
def test_any_part_of_the_records_can_be_reported(smoke: Callable[[str], Path], name: str) -> None:
    full = read_results(smoke(name))
    source = random.Random(0)
    for _ in range(12):
        some = source.sample(full.records, source.randint(1, len(full.records)))
        records = tuple(dead(one) if source.random() < 0.3 else one for one in some)
        results = Results(full.experiment, records)
        assert all(table.rows for table in kind_of(results.experiment).tables(results))
        assert all(finding.text for finding in findings_of(results))
        summary = json.loads(
            json.dumps(summary_entries(results, findings_of(results)), allow_nan=False)
        )
        assert all(mean["n"] for mean in summary["means"])  # of nothing there is no mean


@pytest.mark.parametrize("name", NAMES)
def test_one_run_alone_or_only_diverged_ones_can_be_drawn(
    smoke: Callable[[str], Path], name: str
) -> None:
    full = read_results(smoke(name))
    figures = kind_of(full.experiment).figures
    assert figures(Results(full.experiment, full.records[:1]))
    figures(Results(full.experiment, tuple(map(dead, full.records))))


def test_what_is_missing_is_counted(smoke: Callable[[str], Path]) -> None:
    full = read_results(smoke("mnist"))
    assert run_count(full) == "10 runs"
    part = Results(full.experiment, (dead(full.records[0]), *full.records[1:4]))
    assert run_count(part) == "4 of 10 runs, 1 of them diverged"


def test_data_sets_without_runs_are_named_at_the_top(smoke: Callable[[str], Path]) -> None:
    full = read_results(smoke("medmnist"))
    assert "Not run" not in summary(full, [])
    first = full.blocks[0]
    part = Results(full.experiment, tuple(full.of(first)))
    missing = [f"{name} with {labels} labels" for name, labels in full.blocks[1:]]
    assert missing
    assert summary(part, []).endswith(f" Not run: {listed(missing)}.")


def test_every_machine_and_commit_is_named(smoke: Callable[[str], Path]) -> None:
    full = read_results(smoke("mnist"))
    *rest, last = full.records
    other = last.made_with | {"device": "NVIDIA H200", "commit": "0123456789abcdef"}
    moved = dataclasses.replace(last, made_with=other)
    line = made_with(Results(full.experiment, (*rest, moved)))
    assert "on NVIDIA H200 and cpu; " in line
    assert "commit 0123456789ab" in line


def test_runs_that_were_trained_side_by_side_are_said_to(smoke: Callable[[str], Path]) -> None:
    full = read_results(smoke("mnist"))
    assert "summed over the runs; " in made_with(full)
    *rest, last = full.records
    beside = dataclasses.replace(last, made_with=last.made_with | {"processes": 3})
    line = made_with(Results(full.experiment, (*rest, beside)))
    assert "summed over the runs, in up to 3 processes at a time; " in line


def swept(
    results_of: Callable[..., Results], usual: Sequence[float], debiased: Sequence[float]
) -> Results:
    """Cross-entropies at λ = 10, where the paper has 0.8914 and 0.2706."""
    experiment = load_experiment("mnist", "paper")
    experiment = dataclasses.replace(experiment, metrics=("cross_entropy",))
    cells = {
        (method, 10.0): [{"cross_entropy": value} for value in values]
        for method, values in (("pl", usual), ("de_pl", debiased))
    }
    return results_of(experiment, cells)


def about(findings: list[Finding], *words: str) -> Finding:
    (found,) = [one for one in findings if all(word in one.text for word in words)]
    return found


def test_a_diverged_run_is_named_and_left_out(fixmatch: Results) -> None:
    first = fixmatch.records[3]
    dead = dataclasses.replace(first, metrics={}, training={"diverged": "risk is NaN"})
    results = Results(fixmatch.experiment, (*fixmatch.records[:3], dead, *fixmatch.records[4:]))
    text = about(findings_of(results), "Diverged").text
    assert text.endswith("FixMatch at λ = 0.5, split 0.")


def test_an_infinite_loss_is_named_and_decides_nothing(
    fixmatch: Results, results_of: Callable[..., Results]
) -> None:
    first = fixmatch.records[3]
    lost = dataclasses.replace(first, metrics=first.metrics | {"cross_entropy": "Infinity"})
    results = Results(fixmatch.experiment, (*fixmatch.records[:3], lost, *fixmatch.records[4:]))
    found = findings_of(results)
    assert about(found, "Infinite").text.endswith(
        "difference or p-value: cross-entropy of FixMatch at λ = 0.5 (1 of 3 splits)."
    )
    assert about(found, "ross-entropy of DeFixMatch and FixMatch cannot be compared")
    table = next(
        one for one in kind_of(results.experiment).tables(results) if "paired" in one.caption
    )
    row = next(row for row in table.rows if row[:2] == ("DeFixMatch − FixMatch", "cross-entropy"))
    assert row[2:7] == ("–",) * 5

    sweep = swept(results_of, [math.inf, 0.88, 0.9], [0.27, 0.27, 0.28])
    assert about(findings_of(sweep), "cannot be compared").outcome == "open"
    assert not any(
        " − " in heading for heading in kind_of(sweep.experiment).tables(sweep)[0].headings
    )


def test_diverged_runs_of_several_data_sets_are_told_apart(
    record_of: Callable[..., Record],
) -> None:
    experiment = load_experiment("medmnist", "paper")
    dead = {"training": {"diverged": "risk is NaN"}}
    records = [record_of(experiment, "pl", 1.0, 0, {}, place, **dead) for place in (0, 3)]
    (found,) = findings_of(Results(experiment, tuple(records)))
    assert found.text.endswith(
        "breastmnist, 78 labels: PseudoLabel at λ = 1, split 0 and "
        "dermamnist, 1,000 labels: PseudoLabel at λ = 1, split 0."
    )


def test_a_smoke_run_says_that_it_is_one(fixmatch: Results) -> None:
    smoke = Results(dataclasses.replace(fixmatch.experiment, profile="smoke"), fixmatch.records)
    assert "smoke run" in summary(smoke, findings_of(smoke))
    assert "smoke run" not in summary(fixmatch, findings_of(fixmatch))


Entries = dict[str, Any]


def said_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What dessl report says in refusing a folder."""
    with pytest.raises(SystemExit) as left:
        main(["report", str(folder)])
    assert left.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def change_file(path: Path, change: Callable[[Entries], object]) -> None:
    entries = json.loads(path.read_text(encoding="utf-8"))
    change(entries)
    path.write_text(json.dumps(entries), encoding="utf-8")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")


def test_what_is_only_seen_in_use_names_the_folders_files(
    smoke: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(smoke("toy"), tmp_path / "toy")
    for file in (folder / "runs").glob("*.json"):
        change_file(file, lambda entries: entries["arrays"].pop("grid"))
    said = said_of(folder, capsys)
    assert (
        f"{folder / 'experiment.json'} or {folder / 'runs'}: expected a file written by dessl"
        in said
    )
    assert "KeyError: 'grid'" in said


@pytest.mark.parametrize("metric", ["ssl_largest_bias_in_errors", "least_ratio"])
def test_of_numbers_that_are_not_there_nothing_is_said(
    smoke: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str
) -> None:
    folder = shutil.copytree(smoke("risk-quality"), tmp_path / "risk-quality")
    (file,) = (folder / "runs").glob("*.json")
    change_file(file, lambda entries: entries["metrics"].pop(metric))
    assert f"KeyError: '{metric}'" in said_of(folder, capsys)


@pytest.mark.parametrize("name", experiment_names())
def test_no_sign_of_an_experiment_is_lost_in_latex(name: str) -> None:
    experiment = load_experiment(name, "paper")
    titles = (method.title for method in experiment.methods)
    for text in (experiment.title, experiment.paper, *experiment.notes, *titles):
        assert latex_text(text).count("?") == text.count("?")
