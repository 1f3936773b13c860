"""Coverage of the classes, and labels that were changed on purpose."""

import numpy as np
import torch

from dessl.data import SemiData
from dessl.safety.answers import fold_answers
from dessl.safety.labels import doubtful_labels, label_facts


def clear_classes(n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 3
    x = torch.randn(n, 4, generator=generator)
    x[:, 0] += 6.0 * (y == 1)
    x[:, 1] += 6.0 * (y == 2)
    return x, y


def test_changed_labels_are_found_and_right_ones_are_not() -> None:
    x, y = clear_classes()
    wrong = y.clone()
    wrong[:15] = (wrong[:15] + 1) % 3
    data = SemiData(x, wrong)
    answers = fold_answers(x, wrong, np.ones(300, bool), 3)
    facts = label_facts(data, data.labelled_rows, answers.log_p)
    places = {int(one.row.split()[1]) for one in facts.examples}
    assert len(places & set(range(15))) >= 11
    assert len(places - set(range(15))) <= 3
    assert facts.doubtful == len(facts.examples)
    first = facts.examples[0]
    assert first.suggested == str(int(y[int(first.row.split()[1])]))


def test_overlapping_classes_have_few_doubtful_labels() -> None:
    generator = np.random.default_rng(0)
    p = generator.beta(0.5, 0.5, 20_000)
    p = np.stack([1 - p, p], 1)
    y = (generator.random(20_000) < p[:, 1]).astype(np.int64)  # a calibrated model's labels
    assert len(doubtful_labels(p, y)) < 0.03 * len(y)


def test_coverage() -> None:
    data = SemiData(torch.rand(9, 2), [0] * 6 + [1] + [-1] * 2, class_names=["a", "b", "c"])
    facts = label_facts(data, data.labelled_rows, None)
    assert facts.counts == (6, 1, 0)
    assert (facts.absent, facts.few) == (("c",), ("b",))
    assert facts.one_class_folds >= 4


def test_a_weak_model_that_is_sure_of_itself_doubts_few_labels() -> None:
    """Ten classes, columns that say little, and predictions that are far too confident."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 10
    log_p = (8 * torch.randn(300, 10, generator=generator).double()).log_softmax(1)
    data = SemiData(torch.rand(300, 2, generator=generator), y)
    assert label_facts(data, data.labelled_rows, log_p).doubtful == 0
    assert len(doubtful_labels(log_p.exp().numpy(), y.numpy())) > 100
