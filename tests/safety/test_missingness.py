"""All tests of MCAR together: their names, their correction, and what groups leave out."""

import torch

from dessl.data import SemiData
from dessl.evaluation.statistics.multiple import holm
from dessl.safety.answers import fold_answers
from dessl.safety.columns import columns_of, sampled_rows
from dessl.safety.missingness import missingness


def test_four_tests_without_groups_and_three_with_them() -> None:
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(50).repeat_interleave(4)
    x = torch.randn(200, 3, generator=generator)
    y = (x[:, 0] > 0).long()
    data = SemiData(x, torch.where(groups < 25, y, -1))
    for given, number in ((None, 4), (groups, 3)):
        sample = sampled_rows(data, groups=given)
        columns, known = columns_of(data, sample.rows), data.y[sample.rows][:100]
        answers = fold_answers(columns.values, known, sample.labelled, 2, groups=sample.groups)
        found = missingness(data, sample, columns, answers, known, seed=0)
        tests = found["tests"]
        assert len(tests) == number
        assert [one.corrected for one in tests] == list(holm([one.p_value for one in tests]))
        assert len(found["class_propensity"]) == 2  # estimated in both cases
        without = missingness(data, sample, columns, None, known, seed=0)["tests"]
        assert [one.p_value for one in without] == [one.p_value for one in tests[:2]]
