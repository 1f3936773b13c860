import pytest
import torch

from dessl.teachers.selection import selected_by_others


def test_each_rows_step_is_chosen_by_the_others() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 9, 3, generator=generator)
    y = torch.randint(0, 3, (9,), generator=generator)
    found = selected_by_others(logits, y)
    for row in range(9):
        others = [k for k in range(9) if k != row]
        means = [
            torch.nn.functional.cross_entropy(logits[step][others].double(), y[others]).item()
            for step in range(7)
        ]
        step = min(range(7), key=lambda s: means[s])
        expected = logits[step, row].double().log_softmax(0)
        assert found[row].numpy() == pytest.approx(expected.numpy())


def test_a_rows_own_label_does_not_choose() -> None:
    logits = torch.randn(7, 9, 3, generator=torch.Generator().manual_seed(1))
    y = torch.arange(9) % 3
    other = y.clone()
    other[4] = (y[4] + 1) % 3
    assert torch.equal(selected_by_others(logits, y)[4], selected_by_others(logits, other)[4])


def test_noise_is_not_flattered() -> None:
    """Steps that are noise: chosen by the rows themselves they look better than they are."""
    logits = torch.randn(40, 1000, 6, 2, generator=torch.Generator().manual_seed(2))
    y = torch.arange(6) % 2
    truth = torch.nn.functional.cross_entropy(logits.flatten(0, 2), y.repeat(40_000)).item()
    honest, flattered = [], []
    for fold in logits.transpose(0, 1):
        losses = torch.stack([torch.nn.functional.cross_entropy(step, y) for step in fold])
        flattered.append(losses.min().item())
        log_p = selected_by_others(fold, y)
        honest.append(-log_p.gather(1, y[:, None]).mean().item())
    assert sum(honest) / 1000 == pytest.approx(truth, abs=0.05)
    assert sum(flattered) / 1000 < truth - 0.3


def test_a_single_row_has_the_last_step() -> None:
    logits = torch.tensor([[[5.0, 0.0]], [[0.0, 0.0]]])
    assert selected_by_others(logits, torch.tensor([0]))[0].exp().tolist() == [0.5, 0.5]


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="evaluations, 3, classes"):
        selected_by_others(torch.zeros(2, 4, 2), torch.zeros(3).long())


def test_copies_do_not_choose_for_each_other() -> None:
    logits = torch.randn(7, 5, 3, generator=torch.Generator().manual_seed(3))
    y = torch.tensor([0, 1, 2, 0, 1])
    copied = torch.tensor([0, 0, 0, 1, 2, 3, 3, 4])
    found = selected_by_others(logits[:, copied], y[copied], copied * 10)
    assert torch.equal(found[0], found[2])
    weights = torch.tensor([3.0, 1.0, 1.0, 2.0, 1.0])
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), y.repeat(7), reduction="none"
    ).view(7, 5)
    for row, place in enumerate([0, 3, 4, 5, 7]):
        others = torch.arange(5) != row
        step = (losses * weights)[:, others].sum(1).argmin()
        expected = logits[step, row].double().log_softmax(0)
        assert found[place].numpy() == pytest.approx(expected.numpy())
