import pytest
import torch

from dessl.evaluation.risk_quality.splits import row_mean, split_means, unlabelled_count


def test_means_are_over_the_rows_of_each_split(population) -> None:
    loss, h = population
    means = split_means(row_mean(loss[:, None]), row_mean(h[:, None]), loss, 3, 20, None)
    generator = torch.Generator().manual_seed(0)
    for split in range(20):
        order = torch.randperm(8, generator=generator)
        labelled, others = order[:3], order[3:]
        assert means.loss[split].item() == pytest.approx(loss[labelled].mean().item())
        assert means.h_labelled[split].item() == pytest.approx(h[labelled].mean().item())
        assert means.h_unlabelled[split].item() == pytest.approx(h[others].mean().item())


@pytest.mark.parametrize("n_labelled", [0, 8])
def test_a_split_has_rows_of_both_kinds(population, n_labelled: int) -> None:
    loss, h = population
    with pytest.raises(ValueError, match=f"n_labelled must be between 1 and 7; got {n_labelled}"):
        split_means(row_mean(loss[:, None]), row_mean(h[:, None]), loss, n_labelled, 5, None)


def test_one_row_cannot_be_split() -> None:
    with pytest.raises(ValueError, match=r"two rows.*; got 1"):
        unlabelled_count(1, 1)


def test_one_split_has_no_spread(population) -> None:
    loss, h = population
    with pytest.raises(ValueError, match="splits must be at least 2; got 1"):
        split_means(row_mean(loss[:, None]), row_mean(h[:, None]), loss, 3, 1, None)
