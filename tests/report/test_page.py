import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
from tests.report.reader import Reader

from dessl.report.page import embedded_json, report_html, write_report
from dessl.results.facts import RunFacts


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


def test_the_columns_of_teachers_are_listed(facts: RunFacts) -> None:
    columns = {"llm": ["llm"], "p": ["p_no", "p_yes"]}
    page = report_html([dataclasses.replace(facts, settings={"teachers": columns})])
    assert "<bdi>llm, p (p_no, p_yes)</bdi>" in page


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
