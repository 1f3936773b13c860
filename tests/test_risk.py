"""The risks: exact values, properties, unbiasedness by enumeration, transforms, errors."""

import itertools
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from dessl.functional import entropy
from dessl.risk import (
    RISKS,
    Risk,
    complete_case_risk,
    debiased_risk,
    inverse_propensity_risk,
    risk_named,
    ssl_risk,
    subset_debiased_risk,
)

LOSS = torch.tensor([1.0, 2.0, 4.0, 3.0], dtype=torch.float64)
H_L = torch.tensor([0.5, 1.5, 2.5, 2.0], dtype=torch.float64)
H_U = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 2.5, 0.5, 1.5], dtype=torch.float64)
PROPENSITY = torch.tensor([0.5, 0.25, 0.25, 0.125], dtype=torch.float64)

EXACT = {
    "complete case": (complete_case_risk(LOSS), Fraction(5, 2)),
    "ssl": (ssl_risk(LOSS, H_U, 1.0), Fraction(67, 16)),
    "debiased, λ=1": (debiased_risk(LOSS, H_L, H_U), Fraction(41, 16)),
    "debiased, λ=1/2": (debiased_risk(LOSS, H_L, H_U, 0.5), Fraction(81, 32)),
    "debiased, λ=104/105": (debiased_risk(LOSS, H_L, H_U, 104 / 105), Fraction(269, 105)),
    "all data": (debiased_risk(LOSS, H_L, H_U, 1.0, on="all"), Fraction(61, 24)),
    "raw": (debiased_risk(LOSS / 10, H_L, H_U, 0.5), Fraction(28125, 100000)),
    "nonnegative": (
        debiased_risk(LOSS / 10, H_L, H_U, 0.5, bound="nonnegative"),
        Fraction(84375, 100000),
    ),
    "Horvitz-Thompson": (
        inverse_propensity_risk(LOSS, H_L, H_U, 0.0, propensity=PROPENSITY),
        Fraction(25, 6),
    ),
    "Hájek": (
        inverse_propensity_risk(LOSS, H_L, H_U, 0.0, propensity=PROPENSITY, normalise=True),
        Fraction(25, 9),
    ),
    "De-IPW, λ=1/2": (
        inverse_propensity_risk(LOSS, H_L, H_U, 0.5, propensity=PROPENSITY),
        Fraction(29, 8),
    ),
    "AIPW, λ=1": (
        inverse_propensity_risk(LOSS, H_L, H_U, 1.0, propensity=PROPENSITY),
        Fraction(37, 12),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_values(name: str) -> None:
    risk, value = EXACT[name]
    assert float(risk.value) == pytest.approx(float(value), abs=4e-16, rel=4e-16)


def test_the_value_is_made_of_its_parts() -> None:
    for on in ("unlabelled", "all"):
        risk = debiased_risk(LOSS, H_L, H_U, 0.7, on=on)
        assert risk.value == risk.loss + 0.7 * (risk.h_unlabelled - risk.h_labelled)
    risk = ssl_risk(LOSS, H_U, 0.7)
    assert risk.h_labelled == 0
    assert risk.value == risk.loss + 0.7 * risk.h_unlabelled
    risk = complete_case_risk(LOSS)
    assert (risk.value, risk.h_labelled, risk.h_unlabelled) == (risk.loss, 0, 0)


def test_the_all_data_form_is_the_main_form_at_a_smaller_lambda() -> None:
    on_all = debiased_risk(LOSS, H_L, H_U, 1.2, on="all").value
    main = debiased_risk(LOSS, H_L, H_U, 1.2 * 8 / 12).value
    torch.testing.assert_close(on_all, main, rtol=0, atol=1e-15)
    together = torch.cat([H_L, H_U]).mean()
    by_hand = LOSS.mean() + 1.2 * (together - H_L.mean())
    torch.testing.assert_close(on_all, by_hand, rtol=0, atol=1e-15)


@pytest.mark.parametrize("on", ["unlabelled", "all"])
@pytest.mark.parametrize("bound", [None, "nonnegative"])
def test_a_weight_counts_how_often_a_row_occurs(on: str, bound: str | None) -> None:
    times_l, times_u = torch.tensor([2, 1, 0, 3]), torch.tensor([1, 1, 4, 0, 2, 1, 1, 1])
    weighted = debiased_risk(
        LOSS,
        H_L,
        H_U,
        0.4,
        on=on,
        bound=bound,
        weights_labelled=times_l.double(),
        weights_unlabelled=times_u.double(),
    )
    repeated = debiased_risk(
        LOSS.repeat_interleave(times_l),
        H_L.repeat_interleave(times_l),
        H_U.repeat_interleave(times_u),
        0.4,
        on=on,
        bound=bound,
    )
    for ours, theirs in zip(weighted, repeated, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-14)


def test_weights_of_the_other_risks() -> None:
    times = torch.tensor([2, 1, 0, 3])
    repeated = LOSS.repeat_interleave(times)
    assert complete_case_risk(LOSS, weights=times.double()).value == pytest.approx(
        float(repeated.mean())
    )
    assert ssl_risk(
        LOSS, H_L, 2.0, weights_labelled=times.double(), weights_unlabelled=times.double()
    ).value == pytest.approx(float(repeated.mean() + 2 * H_L.repeat_interleave(times).mean()))


def test_a_subset_of_all_labelled_rows_is_the_main_form() -> None:
    everything = torch.ones(4, dtype=torch.bool)
    nothing = torch.zeros(8, dtype=torch.bool)
    subset = subset_debiased_risk(
        LOSS, H_L, H_U, 0.7, in_labelled=everything, in_unlabelled=nothing
    )
    for ours, theirs in zip(subset, debiased_risk(LOSS, H_L, H_U, 0.7), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-15)


def test_a_subset_by_hand() -> None:
    in_l, in_u = torch.tensor([1, 0, 1, 0]).bool(), torch.tensor([0, 1, 0, 0, 0, 1, 0, 0]).bool()
    subset = subset_debiased_risk(LOSS, H_L, H_U, 2.0, in_labelled=in_l, in_unlabelled=in_u)
    mean_a = torch.cat([H_L[in_l], H_U[in_u]]).mean()
    assert subset.value == pytest.approx(float(LOSS.mean() + 2 * (H_U.mean() - mean_a)))


# --- properties ---------------------------------------------------------------------------------

values = st.floats(-100, 100, allow_nan=False, width=32)
lams = st.floats(-20, 20, allow_nan=False, width=32)


@st.composite
def samples(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    n_l, n_u = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    loss, h_l = (draw(st.lists(values, min_size=n_l, max_size=n_l)) for _ in range(2))
    h_u = draw(st.lists(values, min_size=n_u, max_size=n_u))
    return tuple(torch.tensor(part, dtype=torch.float64) for part in (loss, h_l, h_u))


forms = st.sampled_from(["unlabelled", "all"])


@given(samples(), forms)
def test_lambda_zero_is_the_complete_case(sample: tuple[Tensor, ...], on: str) -> None:
    assert debiased_risk(*sample, 0.0, on=on).value == complete_case_risk(sample[0]).value


@given(samples(), lams, lams, forms)
def test_the_risk_is_affine_in_lambda(
    sample: tuple[Tensor, ...], a: float, b: float, on: str
) -> None:
    middle = debiased_risk(*sample, (a + b) / 2, on=on).value
    ends = (debiased_risk(*sample, a, on=on).value + debiased_risk(*sample, b, on=on).value) / 2
    torch.testing.assert_close(middle, ends, rtol=1e-9, atol=1e-9)


@given(samples(), lams, values, forms)
def test_a_constant_added_to_h_changes_nothing(
    sample: tuple[Tensor, ...], lam: float, constant: float, on: str
) -> None:
    loss, h_l, h_u = sample
    moved = debiased_risk(loss, h_l + constant, h_u + constant, lam, on=on).value
    torch.testing.assert_close(
        moved, debiased_risk(*sample, lam, on=on).value, rtol=1e-9, atol=1e-9
    )


@given(samples(), lams, st.randoms(use_true_random=False), forms)
def test_row_order_does_not_matter(
    sample: tuple[Tensor, ...], lam: float, random: object, on: str
) -> None:
    loss, h_l, h_u = sample
    order_l = torch.tensor(random.sample(range(len(loss)), len(loss)))  # type: ignore[attr-defined]
    order_u = torch.tensor(random.sample(range(len(h_u)), len(h_u)))  # type: ignore[attr-defined]
    shuffled = debiased_risk(loss[order_l], h_l[order_l], h_u[order_u], lam, on=on).value
    torch.testing.assert_close(
        shuffled, debiased_risk(*sample, lam, on=on).value, rtol=1e-9, atol=1e-9
    )


@given(samples(), st.floats(0, 20, width=32), forms)
def test_the_nonnegative_form_is_pessimistic_and_not_negative(
    sample: tuple[Tensor, ...], lam: float, on: str
) -> None:
    loss, h_l, h_u = sample[0], sample[1].abs(), sample[2].abs()
    bounded = debiased_risk(loss, h_l, h_u, lam, on=on, bound="nonnegative").value
    assert bounded >= 0
    assert bounded >= debiased_risk(loss, h_l, h_u, lam, on=on).value - 1e-9


# --- unbiasedness, by enumeration of every labelling ---------------------------------------------

N, N_LABELLED = 7, 3


def labellings() -> list[tuple[Tensor, Tensor]]:
    rows = set(range(N))
    return [
        (torch.tensor(chosen), torch.tensor(sorted(rows - set(chosen))))
        for chosen in combinations(range(N), N_LABELLED)
    ]


@pytest.mark.parametrize("lam", [-2.0, 0.0, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("on", ["unlabelled", "all"])
def test_over_all_labellings_the_debiased_risk_is_unbiased_and_the_ssl_risk_is_not(
    lam: float, on: str
) -> None:
    generator = torch.Generator().manual_seed(0)
    loss, h = torch.rand(2, N, generator=generator, dtype=torch.float64) * 3
    debiased = [debiased_risk(loss[i], h[i], h[j], lam, on=on).value for i, j in labellings()]
    assert torch.stack(debiased).mean() == pytest.approx(float(loss.mean()), abs=1e-12)
    biased = torch.stack([ssl_risk(loss[i], h[j], lam).value for i, j in labellings()]).mean()
    assert biased - loss.mean() == pytest.approx(float(lam * h.mean()), abs=1e-12)
    assert (abs(float(biased - loss.mean())) > 0.1) == (lam != 0)


def test_a_subset_drawn_blindly_keeps_the_risk_unbiased() -> None:
    loss, h = torch.rand(2, N, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    in_l = torch.tensor([True, True, False])  # the first rows of an unordered draw: a blind choice
    in_u = torch.tensor([True, False, False, True])
    risks = []
    for i, j in labellings():
        for turn in range(N_LABELLED):
            for shift in range(N - N_LABELLED):
                risk = subset_debiased_risk(
                    loss[i],
                    h[i],
                    h[j],
                    3.0,
                    in_labelled=in_l.roll(turn),
                    in_unlabelled=in_u.roll(shift),
                )
                risks.append(risk.value)
    assert torch.stack(risks).mean() == pytest.approx(float(loss.mean()), abs=1e-12)


def test_over_all_labellings_gradients_are_unbiased() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(N, 2, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (N,), generator=generator)
    weight = torch.randn(3, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    logits = x @ weight.T
    loss = F.cross_entropy(logits, y, reduction="none")
    h = -(logits.softmax(1) * logits.log_softmax(1)).sum(1)

    def mean_gradient(values: list[Tensor]) -> Tensor:
        return torch.autograd.grad(torch.stack(values).mean(), weight, retain_graph=True)[0]

    (full,) = torch.autograd.grad(loss.mean(), weight, retain_graph=True)
    debiased = mean_gradient([debiased_risk(loss[i], h[i], h[j]).value for i, j in labellings()])
    torch.testing.assert_close(debiased, full, rtol=0, atol=1e-12)
    biased = mean_gradient([ssl_risk(loss[i], h[j], 1.0).value for i, j in labellings()])
    assert (biased - full).abs().max() > 0.01


def test_with_batch_norm_one_joint_pass_is_unbiased_and_separate_passes_are_not() -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(N, 2, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (N,), generator=generator)
    weight = 3 * torch.randn(2, 3, generator=generator, dtype=torch.float64)

    def model(rows: Tensor) -> Tensor:
        return F.batch_norm(rows, None, None, training=True) @ weight

    def mean_over_labellings(*, joint: bool) -> Risk:
        risks = []
        for i, j in labellings():
            labelled, unlabelled = model(x[i]), model(x[j])
            if joint:
                labelled, unlabelled = model(torch.cat([x[i], x[j]])).split([len(i), len(j)])
            loss = F.cross_entropy(labelled, y[i], reduction="none")
            risks.append(debiased_risk(loss, entropy(labelled), entropy(unlabelled)))
        return Risk(*(torch.stack(parts).mean() for parts in zip(*risks, strict=True)))

    one = mean_over_labellings(joint=True)
    assert one.value == pytest.approx(float(F.cross_entropy(model(x), y)), abs=1e-12)
    assert one.h_unlabelled - one.h_labelled == pytest.approx(0, abs=1e-12)
    two = mean_over_labellings(joint=False)
    assert two.h_unlabelled - two.h_labelled > 0.03


def test_inverse_propensity_is_unbiased_over_all_informative_labellings() -> None:
    propensity = torch.tensor([0.9, 0.3, 0.5, 0.2], dtype=torch.float64)
    loss = torch.tensor([1.0, 5.0, 2.0, 7.0], dtype=torch.float64)
    h = torch.tensor([0.3, 2.0, 0.1, 1.0], dtype=torch.float64)
    expectation = torch.zeros((), dtype=torch.float64)
    naive = torch.zeros((), dtype=torch.float64)
    probability_kept = 0.0
    for code in range(1, 15):  # labellings with at least one row on each side
        labelled = torch.tensor([bool(code >> bit & 1) for bit in range(4)])
        probability = torch.where(labelled, propensity, 1 - propensity).prod()
        risk = inverse_propensity_risk(
            loss[labelled], h[labelled], h[~labelled], 0.8, propensity=propensity[labelled]
        )
        expectation += probability * risk.value
        naive += probability * debiased_risk(loss[labelled], h[labelled], h[~labelled], 0.8).value
        probability_kept += float(probability)
    # The two one-sided labellings, by the formula itself: nobody labelled, everybody labelled.
    nobody, everybody = (1 - propensity).prod(), propensity.prod()
    expectation += nobody * 0.8 * h.mean()
    expectation += everybody * (((loss - 0.8 * h) / propensity).sum() / 4 + 0.8 * h.mean())
    assert expectation == pytest.approx(float(loss.mean()), abs=1e-12)
    assert abs(float(naive) / probability_kept - float(loss.mean())) > 0.1


def test_hajek_weights_with_one_propensity_are_the_all_data_form() -> None:
    constant = torch.full((4,), 0.3, dtype=torch.float64)
    hajek = inverse_propensity_risk(LOSS, H_L, H_U, 0.7, propensity=constant, normalise=True)
    for ours, theirs in zip(hajek, debiased_risk(LOSS, H_L, H_U, 0.7, on="all"), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-15)


# --- transforms, dtypes, devices ------------------------------------------------------------------


def test_autograd_reaches_every_part_with_the_right_weight() -> None:
    loss, h_l, h_u = (t.clone().requires_grad_() for t in (LOSS, H_L, H_U))
    debiased_risk(loss, h_l, h_u, 0.5).value.backward()
    torch.testing.assert_close(loss.grad, torch.full_like(LOSS, 1 / 4))
    torch.testing.assert_close(h_l.grad, torch.full_like(H_L, -0.5 / 4))
    torch.testing.assert_close(h_u.grad, torch.full_like(H_U, 0.5 / 8))


def test_lambda_may_be_a_tensor_with_a_gradient() -> None:
    lam = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    debiased_risk(LOSS, H_L, H_U, lam).value.backward()
    assert lam.grad == pytest.approx(float(H_U.mean() - H_L.mean()))


def test_vmap_over_lambda_and_over_runs() -> None:
    lam = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    batched = torch.func.vmap(lambda one: debiased_risk(LOSS, H_L, H_U, one).value)(lam)
    single = torch.stack([debiased_risk(LOSS, H_L, H_U, one).value for one in lam])
    torch.testing.assert_close(batched, single)
    runs = torch.func.vmap(debiased_risk)(
        LOSS.expand(3, 4), H_L.expand(3, 4), H_U.expand(3, 8), lam
    )
    assert isinstance(runs, Risk)
    torch.testing.assert_close(runs.value, single)


def test_func_grad_of_a_bounded_weighted_risk_under_vmap() -> None:
    def value(loss: Tensor, lam: Tensor) -> Tensor:
        weights = torch.ones_like(loss)
        return debiased_risk(
            loss, H_L, H_U, lam, bound="nonnegative", weights_labelled=weights
        ).value

    lam = torch.tensor([0.1, 9.0], dtype=torch.float64)
    gradient = torch.func.vmap(torch.func.grad(value), (None, 0))(LOSS, lam)
    torch.testing.assert_close(gradient[0], torch.full_like(LOSS, 0.25))
    torch.testing.assert_close(gradient[1], torch.zeros_like(LOSS))


def test_compiles_as_one_graph() -> None:
    compiled = torch.compile(debiased_risk, fullgraph=True, backend="aot_eager")
    lam = torch.tensor(0.5, dtype=torch.float64)
    for on in ("unlabelled", "all"):
        ours = compiled(LOSS, H_L, H_U, lam, on=on)
        torch.testing.assert_close(ours.value, debiased_risk(LOSS, H_L, H_U, lam, on=on).value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_smaller_dtypes_agree_with_float64(dtype: torch.dtype) -> None:
    exact = debiased_risk(LOSS, H_L, H_U, 0.5).value
    rough = debiased_risk(LOSS.to(dtype), H_L.to(dtype), H_U.to(dtype), 0.5).value
    assert rough.dtype == torch.float32  # sums in half precision would overflow
    assert float(rough) == pytest.approx(float(exact), rel=torch.finfo(dtype).eps * 2)


def test_sums_of_many_half_precision_rows_do_not_overflow() -> None:
    ones = torch.ones(70_000, dtype=torch.float16)  # one more than half's largest, 65,504
    risk = inverse_propensity_risk(ones[:4], ones[:4], ones, propensity=ones[:4])
    assert risk.h_unlabelled == 1
    assert complete_case_risk(ones, weights=ones).value == pytest.approx(1)
    loss, half = ones.float(), ones / 2
    risk = inverse_propensity_risk(loss, loss, loss, 0.0, propensity=half, normalise=True)
    assert risk.value == pytest.approx(1)
    rare = torch.full((100,), 1e-5).half()  # its inverse is above half's largest
    risk = inverse_propensity_risk(loss[:100], loss[:100], loss[:100], 0.5, propensity=rare)
    again = inverse_propensity_risk(
        loss[:100], loss[:100], loss[:100], 0.5, propensity=rare.float()
    )
    assert risk.value == again.value
    inside = torch.ones(70_000, dtype=torch.bool)
    risk = subset_debiased_risk(ones, ones, ones, in_labelled=inside, in_unlabelled=~inside)
    assert risk.value == pytest.approx(1)
    heavy = torch.full((2,), 30_000.0).half()
    low, high = torch.zeros(2), torch.full((2,), 4.0)
    risk = debiased_risk(low, low, high, on="all", weights_labelled=heavy, weights_unlabelled=heavy)
    assert risk.value == pytest.approx(2)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_the_cpu_and_does_not_wait_for_the_device(no_waiting: Any) -> None:
    on_device = [t.cuda() for t in (LOSS, H_L, H_U)]
    lam = torch.tensor(0.5, device="cuda")
    with no_waiting():
        risk = debiased_risk(*on_device, lam)
    torch.testing.assert_close(risk.value.cpu(), debiased_risk(LOSS, H_L, H_U, 0.5).value)


# --- bad input ------------------------------------------------------------------------------------

NAN = torch.tensor([1.0, float("nan"), 1.0, 1.0], dtype=torch.float64)

BAD = {
    "a reduced loss": (
        lambda: debiased_risk(LOSS.mean(), H_L, H_U),
        ValueError,
        r"loss must hold one value for each sample, shape \(n,\); got \(\)\. Pass reduction='none'",
    ),
    "a reduced H": (
        lambda: debiased_risk(LOSS, H_L.mean(), H_U),
        ValueError,
        r"h_labelled must hold one value for each sample, shape \(n,\); got \(\)",
    ),
    "two-dimensional": (
        lambda: ssl_risk(LOSS, H_U.reshape(2, 4)),
        ValueError,
        r"h_unlabelled must hold one value .* got \(2, 4\)",
    ),
    "no labelled row": (
        lambda: debiased_risk(LOSS[:0], H_L[:0], H_U),
        ValueError,
        r"^loss must hold at least one sample; got none\. Skip batches without such rows, or .*\.$",
    ),
    "no unlabelled row": (
        lambda: debiased_risk(LOSS, H_L, H_U[:0]),
        ValueError,
        "h_unlabelled must hold at least one sample; got none",
    ),
    "mismatched": (
        lambda: debiased_risk(LOSS, H_L[:3], H_U),
        ValueError,
        "loss and h_labelled .*rows; got 4 and 3",
    ),
    "integers": (
        lambda: complete_case_risk(torch.tensor([1, 2])),
        TypeError,
        r"loss must be a floating-point tensor; got torch.int64. Convert it with \.float\(\)",
    ),
    "not a tensor": (
        lambda: complete_case_risk([1.0, 2.0]),
        TypeError,
        r"loss must be a torch\.Tensor of shape \(n,\); got list. Convert it with torch\.as_tensor",
    ),
    "NaN": (
        lambda: debiased_risk(LOSS, NAN, H_U),
        ValueError,
        "h_labelled must be finite; 1 of its 4 entries are NaN or infinite. Check the model",
    ),
    "infinite": (
        lambda: ssl_risk(LOSS, H_U / 0),
        ValueError,
        "h_unlabelled must be finite; 8 of its 8 entries",
    ),
    "unknown on": (
        lambda: debiased_risk(LOSS, H_L, H_U, on="everything"),
        ValueError,
        "on must be one of 'unlabelled', 'all'; got 'everything'",
    ),
    "unknown bound": (
        lambda: debiased_risk(LOSS, H_L, H_U, bound="positive"),
        ValueError,
        "bound must be one of None, 'nonnegative'; got 'positive'",
    ),
    "λ of the wrong shape": (
        lambda: debiased_risk(LOSS, H_L, H_U, torch.ones(3)),
        ValueError,
        r"lam must be a number or a tensor of shape \(\); got \(3,\). .* torch.func.vmap",
    ),
    "λ infinite": (
        lambda: ssl_risk(LOSS, H_U, float("inf")),
        ValueError,
        "lam must be finite; got inf",
    ),
    "λ a word": (
        lambda: ssl_risk(LOSS, H_U, "1"),
        TypeError,
        r"lam must be a number or a tensor of shape \(\); got str",
    ),
    "weights of the wrong length": (
        lambda: complete_case_risk(LOSS, weights=torch.ones(3)),
        ValueError,
        "weights and loss .*rows; got 3 and 4",
    ),
    "negative weights": (
        lambda: complete_case_risk(LOSS, weights=-torch.ones(4)),
        ValueError,
        r"weights must lie in \[0, inf\]; got from -1 to -1\. A weight says how often",
    ),
    "weights of zero": (
        lambda: complete_case_risk(LOSS, weights=torch.zeros(4)),
        ValueError,
        r"the sum of weights must lie in \(0, .*\]; got 0\. At least one weight must be above zero",
    ),
    "weights whose sum overflows": (
        lambda: complete_case_risk(torch.ones(7), weights=torch.full((7,), 1e38)),
        ValueError,
        r"the sum of weights must lie in \(0, 3.*e\+38\]; got inf\. .* scale all weights down",
    ),
    "an index for a mask": (
        lambda: subset_debiased_risk(
            LOSS, H_L, H_U, in_labelled=torch.tensor([0]), in_unlabelled=H_U > 9
        ),
        TypeError,
        "in_labelled must be a boolean tensor, one entry for each row; got torch.int64",
    ),
    "a mask with an axis too many": (
        lambda: subset_debiased_risk(
            LOSS, H_L, H_U, in_labelled=(H_L > 1)[:, None], in_unlabelled=H_U > 9
        ),
        ValueError,
        r"in_labelled must hold one value for each sample, shape \(n,\); got \(4, 1\)",
    ),
    "an empty subset": (
        lambda: subset_debiased_risk(LOSS, H_L, H_U, in_labelled=H_L > 9, in_unlabelled=H_U > 9),
        ValueError,
        r"the size of the subset must lie in \[1, inf\]; got 0\. Set at least one",
    ),
    "a propensity above one": (
        lambda: inverse_propensity_risk(LOSS, H_L, H_U, propensity=4 * PROPENSITY),
        ValueError,
        r"propensity must lie in \(0, 1\]; got from 0\.5 to 2\. It is the probability",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_a_remedy(name: str) -> None:
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


def test_tensors_on_different_devices_are_refused() -> None:
    elsewhere = torch.empty(8, dtype=torch.float64, device="meta")
    with pytest.raises(ValueError, match=r"one device; got loss on cpu, h_unlabelled on meta"):
        ssl_risk(LOSS, elsewhere)


def test_inverse_propensity_of_batches_counts_the_rows_that_they_stand_for() -> None:
    """Batches of 2 of 4 labelled and 2 of 8 unlabelled rows: their mean is the risk of all."""
    whole = inverse_propensity_risk(LOSS, H_L, H_U, 0.7, propensity=PROPENSITY)
    weights = torch.full((2,), 8 / 2 * 2 / 4, dtype=torch.float64)
    batches = [
        inverse_propensity_risk(
            LOSS[list(rows)],
            H_L[list(rows)],
            H_U[list(others)],
            0.7,
            propensity=PROPENSITY[list(rows)],
            weights_unlabelled=weights,
        )
        for rows in itertools.combinations(range(4), 2)
        for others in itertools.combinations(range(8), 2)
    ]
    for part, mean in zip(whole, zip(*batches, strict=True), strict=True):
        torch.testing.assert_close(torch.stack(mean).mean(), part)
    one = torch.ones(8, dtype=torch.float64)
    plain = inverse_propensity_risk(
        LOSS, H_L, H_U, 0.7, propensity=PROPENSITY, weights_unlabelled=one
    )
    torch.testing.assert_close(plain, whole)


def test_every_risk_is_called_alike_and_says_what_it_uses() -> None:
    known = {"on", "bound", "propensity", "weights_labelled", "weights_unlabelled", "normalise"}
    for name, kind in RISKS.items():
        needed = {"propensity": PROPENSITY} if kind.needs_propensity else {}
        one, other = (kind.function(LOSS, H_L, h, 0.5, **needed).value for h in (H_U, H_U + 1))
        assert bool(one != other) == kind.unlabelled, name
        moved = kind.function(LOSS, H_L + 1, H_U, 0.5, **needed).value
        assert bool(moved < one) == kind.takes_back, name
        positional = {"loss", "h_labelled", "h_unlabelled", "lam"}
        assert positional <= kind.options <= positional | known


def test_an_unknown_risk_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of 'complete_case', 'ssl', 'debiased', "):
        risk_named("biased")
    with pytest.raises(ValueError, match="must be one of 'complete_case', 'ssl', 'debiased';"):
        risk_named("inverse_propensity", propensity=False)
