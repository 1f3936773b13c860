import dataclasses
import html
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dessl.report.html import element, escaped
from dessl.report.page import embedded_json, report_html, write_report
from dessl.results.facts import Estimate, MethodFacts, RunFacts

VOID = {"br", "hr", "link", "meta"}


class Reader(HTMLParser):
    """Reads a page as a browser does: elements in balance, texts and attributes unescaped."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_names_from_data_reach_the_page_as_text_and_nothing_else(
    facts: RunFacts, hostile: RunFacts
) -> None:
    tame, wild = Reader(report_html([facts])), Reader(report_html([hostile]))
    # Hostile names add no element of a kind that tame ones do not need.
    assert set(wild.tags) == set(tame.tags)
    assert wild.tags.count("script") == 1
    assert not [key for key, _ in wild.attributes if key.startswith("on")]
    loading = {"src", "action", "formaction", "data", "poster", "background"}
    assert not [key for key, _ in wild.attributes if key in loading]
    for name in hostile.data.class_names[:4]:
        assert name in wild.texts
    assert hostile.title in wild.texts
    assert "<img src=x onerror=alert(3)> hurt." in wild.texts


def test_embedded_json_gives_the_facts_back(hostile: RunFacts) -> None:
    page = report_html([hostile, hostile])
    found = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', page, re.S)
    assert len(found) == 1
    assert "<" not in found[0]
    first, second = json.loads(found[0])
    assert first == second == json.loads(json.dumps(hostile.as_dict()))
    assert RunFacts.from_dict(first).data.class_names == hostile.data.class_names


def test_embedded_json_refuses_what_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        embedded_json({"value": math.nan})


def test_the_same_facts_give_the_same_bytes(facts: RunFacts, tmp_path: Path) -> None:
    write_report(tmp_path / "a.html", facts)
    write_report(str(tmp_path / "b.html"), [facts])
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert len((tmp_path / "a.html").read_bytes()) < 300_000


def test_a_report_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one run; got none"):
        report_html([])


def test_file_names_that_are_no_text_are_written(facts: RunFacts, tmp_path: Path) -> None:
    odd = dataclasses.replace(facts, data=dataclasses.replace(facts.data, name="a\udcffb\x00"))
    write_report(tmp_path / "a.html", odd)
    assert "a\ufffdb\ufffd" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_escaping_is_the_inverse_of_what_a_reader_does() -> None:
    text = "<a href='x'>\"&amp;\u2028</a>"
    assert html.unescape(escaped(text)) == text
    assert Reader(element("p", text, title=text)).texts == [text]


def test_the_table_marks_the_best_mean_and_shows_its_t_interval(facts: RunFacts) -> None:
    brier = {
        "complete case": [0.30, 0.34],
        "PseudoLabel": [0.28, 0.31],
        "DePseudoLabel": [0.3, 0.3],
    }
    changed = [
        dataclasses.replace(run, metrics=run.metrics | {"brier": brier[run.method][run.seed]})
        for run in facts.runs
    ]
    page = report_html([dataclasses.replace(facts, runs=tuple(changed))])
    row = re.search(r'<tr><th scope="row">Brier score</th>(.*?)</tr>', page)
    assert row
    cells = row[1].split("</td>")[:-1]
    assert ["★" in cell for cell in cells] == [False, True, False]
    for cell, values in zip(cells, brier.values(), strict=True):
        half = stats.t.ppf(0.975, 1) * np.std(values, ddof=1) / np.sqrt(2)
        assert f">{np.mean(values):.3f}<" in cell
        assert f">± {half:.3f}<" in cell


def test_all_labels_are_no_rival_of_the_others(facts: RunFacts) -> None:
    brier = {"complete case": 0.3, "PseudoLabel": 0.2, "DePseudoLabel": 0.25}
    runs = [dataclasses.replace(run, metrics={"brier": brier[run.method]}) for run in facts.runs]
    full = MethodFacts("all labels", "supervised", "pseudo_label", 0.0)
    perfect = [
        dataclasses.replace(run, method="all labels", metrics={"brier": 0.0}) for run in runs[:2]
    ]
    page = report_html(
        [dataclasses.replace(facts, methods=(*facts.methods, full), runs=(*runs, *perfect))]
    )
    row = re.search(r'<tr><th scope="row">Brier score</th>(.*?)</tr>', page)
    assert row
    cells = row[1].split("</td>")[:-1]
    assert ["★" in cell for cell in cells] == [False, True, False, False]
    assert "not counting all labels;" in page


def test_one_run_has_no_interval_and_estimates_have_theirs(facts: RunFacts) -> None:
    single = dataclasses.replace(
        facts,
        runs=tuple(run for run in facts.runs if run.seed == 0),
        estimates=(Estimate("DePseudoLabel", "accuracy", 0.8, 0.712, 0.9, 0.95, 60, 940),),
        comparisons=(),
        warnings=(),
    )
    page = report_html([single])
    assert "± " not in page
    assert "71 to 90" in page
    assert "60 labelled and 940 unlabelled held-out rows" in page
    for absent in ("Choice of λ", "Warnings", "Difference from the complete case"):
        assert absent not in page


def test_runs_side_by_side_are_told_apart_by_folder_and_settings(facts: RunFacts) -> None:
    other = dataclasses.replace(
        facts, settings=facts.settings | {"steps": 41, "extra": "a"}, command="dessl fit b.csv"
    )
    page = report_html([facts, other], names=["runs/a", "runs/<b>"])
    overview = page[page.index('<section id="runs">') : page.index("</section>")]
    rows = dict(re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', overview))
    shown = {re.sub("<[^>]*>", "", name): re.sub("<[^>]*>", "|", cells).split("|")
             for name, cells in rows.items()}  # fmt: skip
    assert [cell for cell in shown["steps"] if cell] == ["40", "41"]
    assert [cell for cell in shown["extra"] if cell] == ["–", "a"]
    assert "learning_rate" not in shown  # the same in both
    assert [cell for cell in shown["command"] if cell] == [facts.command, "dessl fit b.csv"]
    assert 'href="#run-2"><bdi>runs/&lt;b&gt;</bdi>' in overview
    assert f'<h2 dir="auto">runs/a: {facts.title}</h2>' in page


def test_a_name_for_each_run_is_needed(facts: RunFacts) -> None:
    with pytest.raises(ValueError, match="one entry for each of the 2 runs"):
        report_html([facts, facts], names=["a"])


def test_learning_curves_name_their_network(facts: RunFacts) -> None:
    own = {"networks": 5, "network": "mlp (hidden = [64])"}
    page = report_html([dataclasses.replace(facts, settings=own)])
    assert "The first of 5 networks of each method: mlp (hidden = [64])." in page


def test_facts_without_history_diagrams_or_classes_make_a_page(facts: RunFacts) -> None:
    keep = ("accuracy", "cross_entropy")
    bare = dataclasses.replace(
        facts,
        runs=tuple(
            dataclasses.replace(run, history=[], metrics={key: run.metrics[key] for key in keep})
            for run in facts.runs
        ),
        settings={},
    )
    page = report_html([bare])
    Reader(page)
    for absent in ("Calibration", "Classes", "Learning", "Brier score"):
        assert f">{absent}<" not in page
