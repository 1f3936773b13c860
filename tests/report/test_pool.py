import dataclasses
import re

from dessl.report.page import report_html
from dessl.report.pool import pool_section, unlabelled_effect
from dessl.results.facts import RunFacts
from dessl.teachers import Gain, Member, PoolReport

POOL = PoolReport(
    n=80,
    members=(
        Member("cc", 0.4, 0.5, Gain(0.0, 0.0), False),
        Member("graph α=0.5 s=0.1", 0.7, 0.45, Gain(0.05, 0.02), True),
        Member("<b>mine</b>", 0.0, 0.61, Gain(-0.11, 0.03), False),
    ),
    anchor=0.5,
    without_unlabelled=0.46,
    pooled=0.41,
    ensembling=Gain(0.04, 0.01),
    unlabelled=Gain(0.05, 0.02),
    total=Gain(0.09, 0.02),
)


def text_of(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def test_a_run_without_a_pool_has_no_such_section(facts: RunFacts) -> None:
    assert pool_section(facts) is None


def test_the_gain_is_shown_in_its_two_parts_and_by_member(facts: RunFacts) -> None:
    page = report_html([dataclasses.replace(facts, pool=POOL)])
    text = text_of(page[page.index("<h3>Pool") : page.index("<h3>Learning")])
    assert "networks alone 0.500 –" in text
    assert "with other predictors trained on the labelled rows 0.460 −0.040 ± 0.010" in text
    assert "with the unlabelled rows too (the pool) 0.410 −0.050 ± 0.020" in text
    assert "networks 0.40 0.500 – –" in text
    assert "graph α=0.5 s=0.1 0.70 0.450 −0.050 ± 0.020 used" in text
    assert "&lt;b&gt;mine&lt;/b&gt;" in page


def test_labels_of_groups_are_counted_as_labels(facts: RunFacts) -> None:
    grouped = dataclasses.replace(POOL, n=248, n_groups=31)
    page = report_html([dataclasses.replace(facts, pool=grouped)])
    assert "From 248 labels of 31 groups, each predicted by" in text_of(page)
    assert grouped.verdict.startswith("On 248 held-out labels of 31 groups, the cross-entropy")
    older = {name: entry for name, entry in POOL.as_dict().items() if name != "n_groups"}
    assert PoolReport.from_dict(older) == POOL


def test_words_follow_the_interval() -> None:
    assert "clearly lowered" in unlabelled_effect(POOL)
    worse = dataclasses.replace(POOL, unlabelled=Gain(-0.05, 0.02))
    assert "clearly raised" in unlabelled_effect(worse)
    assert "no clear effect" in unlabelled_effect(
        dataclasses.replace(POOL, unlabelled=Gain(0.05, 0.03))
    )
    rounding = dataclasses.replace(POOL, unlabelled=Gain(3e-7, 1e-8))  # shown as 0.000
    assert "no clear effect" in unlabelled_effect(rounding)
