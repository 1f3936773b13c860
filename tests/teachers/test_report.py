import pytest
import torch

from dessl.teachers import Gain, Member, PoolReport


def test_the_error_is_that_of_a_mean() -> None:
    before, after = torch.rand(50).double(), torch.rand(50).double()
    gain = Gain.of(before, after)
    fall = before - after
    assert gain.mean == pytest.approx(float(fall.mean()))
    assert gain.standard_error == pytest.approx(float(fall.std()) / 50**0.5)


def test_copies_do_not_make_it_surer() -> None:
    before, after = torch.rand(50).double(), torch.rand(50).double()
    once = Gain.of(before, after)
    tenfold = Gain.of(before.repeat(10), after.repeat(10), torch.arange(50).repeat(10))
    assert tenfold.mean == pytest.approx(once.mean)
    assert tenfold.standard_error == pytest.approx(once.standard_error)


def test_one_label_says_nothing() -> None:
    assert Gain.of(torch.ones(1), torch.zeros(1)).standard_error == float("inf")


def test_a_printed_pool_names_its_networks() -> None:
    gain = Gain(0.1, 0.2)
    members = tuple(Member(name, 0.5, 0.3, gain, uses_unlabelled=False) for name in ("cc", "trees"))
    report = PoolReport(50, members, 0.4, 0.3, 0.2, gain, gain, gain)
    lines = str(report).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["networks", "trees"]
    assert "<td>networks" in report._repr_html_()
