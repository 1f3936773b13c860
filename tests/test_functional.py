"""Per-sample terms against float64 loops, other libraries and extreme logits."""

import math
from collections.abc import Callable

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from torch import Tensor
from torch.nn import functional as F

from dessl.functional import (
    confident_cross_entropy,
    cross_entropy,
    cross_entropy_to,
    entropy,
    kl_divergence,
    log_probabilities,
    pseudo_label,
    renyi_entropy,
    squared_distance,
)

LOGITS = torch.tensor([[1.0, 0.0, -1.0], [4.0, -3.0, 0.5], [0.0, 0.0, 0.0]], dtype=torch.float64)
TARGETS = torch.tensor([[0.2, 0.1, -2.0], [0.0, 9.0, -9.0], [1.0, 2.0, 3.0]], dtype=torch.float64)
EXTREME = torch.tensor(
    [[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4], [0.0, 1e4, 1e4]], dtype=torch.float64
)
Q = TARGETS.softmax(-1)

TERMS: dict[str, Callable[[Tensor], Tensor]] = {
    "entropy": entropy,
    "renyi 0": lambda z: renyi_entropy(z, 0.0),
    "renyi 0.5": lambda z: renyi_entropy(z, 0.5),
    "renyi 0.99": lambda z: renyi_entropy(z, 0.99),
    "renyi 1": lambda z: renyi_entropy(z, 1.0),
    "renyi 1.001": lambda z: renyi_entropy(z, 1.001),
    "renyi 3": lambda z: renyi_entropy(z, 3.0),
    "renyi inf": lambda z: renyi_entropy(z, math.inf),
    "pseudo_label": lambda z: pseudo_label(z, 0.7),
    "cross_entropy": lambda z: cross_entropy(z, torch.zeros(len(z), dtype=torch.long)),
    "cross_entropy_to": lambda z: cross_entropy_to(z, log_probabilities(z.detach().flip(-1)).exp()),
    "confident_cross_entropy": lambda z: confident_cross_entropy(z, z.detach().flip(-1), 0.4),
    "kl_divergence": lambda z: kl_divergence(z, z.detach().flip(-1)),
    "squared_distance": lambda z: squared_distance(z, z.detach().flip(-1)),
}


def probabilities(row: Tensor) -> list[float]:
    weights = [math.exp(float(v) - float(row.max())) for v in row]
    return [w / sum(weights) for w in weights]


def test_entropy_and_its_gradient_at_the_known_point() -> None:
    logits = torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.float64, requires_grad=True)
    value = entropy(logits)
    value.sum().backward()
    assert value.item() == pytest.approx(0.8323955818, abs=5e-11)
    expected = torch.tensor([[-0.28258745, 0.14077036, 0.14181709]], dtype=torch.float64)
    torch.testing.assert_close(logits.grad, expected, rtol=0, atol=5e-9)


def test_each_term_against_its_equation_in_loops() -> None:
    for i, row in enumerate(LOGITS):
        p, q = probabilities(row), probabilities(TARGETS[i])
        z, t = LOGITS[i : i + 1], TARGETS[i : i + 1]
        best = q.index(max(q))
        expected = {
            entropy(z): -sum(a * math.log(a) for a in p),
            renyi_entropy(z, 2.5): math.log(sum(a**2.5 for a in p)) / (1 - 2.5),
            renyi_entropy(z, 0.0): math.log(3),
            renyi_entropy(z, math.inf): -math.log(max(p)),
            pseudo_label(z, 0.6): -math.log(max(p)) if max(p) > 0.6 else 0.0,
            cross_entropy(z, torch.tensor([1])): -math.log(p[1]),
            cross_entropy_to(z, t.softmax(-1)): -sum(
                b * math.log(a) for a, b in zip(p, q, strict=True)
            ),
            confident_cross_entropy(z, t, 0.7): -math.log(p[best]) if max(q) > 0.7 else 0.0,
            kl_divergence(z, t): sum(b * math.log(b / a) for a, b in zip(p, q, strict=True)),
            squared_distance(z, t): sum((a - b) ** 2 for a, b in zip(p, q, strict=True)),
        }
        for ours, theirs in expected.items():
            assert float(ours) == pytest.approx(theirs, abs=1e-12)


def test_against_scipy_and_torch() -> None:
    p, q = LOGITS.softmax(-1).numpy(), Q.numpy()
    torch.testing.assert_close(entropy(LOGITS), torch.tensor(stats.entropy(p, axis=1)))
    torch.testing.assert_close(
        kl_divergence(LOGITS, TARGETS), torch.tensor(special.rel_entr(q, p).sum(1))
    )
    torch.testing.assert_close(
        cross_entropy_to(LOGITS, Q), F.cross_entropy(LOGITS, Q, reduction="none")
    )
    y = torch.tensor([2, 0, 1])
    torch.testing.assert_close(
        cross_entropy(LOGITS, y), F.cross_entropy(LOGITS, y, reduction="none")
    )


@pytest.mark.parametrize("alpha", [0.2, 0.76, 0.999, 1 - 1e-9, 1 + 1e-9, 1.001, 1.24, 4.0, 60.0])
@pytest.mark.parametrize("scale", [0.1, 1.0, 40.0])
def test_renyi_entropy_against_fifty_digits(alpha: float, scale: float) -> None:
    logits = scale * torch.tensor([[1.3, 0.2, -0.7, 0.0]], dtype=torch.float64)
    with mpmath.workdps(50):
        weights = [mpmath.e ** mpmath.mpf(float(v)) for v in logits[0]]
        p = [w / sum(weights) for w in weights]
        exact = mpmath.log(sum(a ** mpmath.mpf(alpha) for a in p)) / (1 - mpmath.mpf(alpha))
    assert float(renyi_entropy(logits, alpha)) == pytest.approx(float(exact), rel=1e-11, abs=1e-15)


def test_renyi_entropy_falls_with_alpha_and_ends_at_the_pseudo_label_term() -> None:
    alphas = [0.0, 0.5, 0.99, 1.0, 1.01, 2.0, 50.0, math.inf]
    along = torch.stack([renyi_entropy(LOGITS[:2], alpha) for alpha in alphas])
    assert (along.diff(dim=0) < 0).all()
    torch.testing.assert_close(along[-1], pseudo_label(LOGITS[:2]))


WITH_TARGET = {"cross_entropy_to", "confident_cross_entropy", "kl_divergence", "squared_distance"}


@pytest.mark.parametrize("name", sorted(TERMS.keys() - WITH_TARGET))
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    assert torch.autograd.gradcheck(TERMS[name], LOGITS[:2].clone().requires_grad_())


def test_gradients_towards_a_fixed_target() -> None:
    for term in (
        lambda z: cross_entropy_to(z, Q),
        lambda z: confident_cross_entropy(z, TARGETS, 0.5),
        lambda z: kl_divergence(z, TARGETS),
        lambda z: squared_distance(z, TARGETS),
    ):
        assert torch.autograd.gradcheck(term, LOGITS.clone().requires_grad_())


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_extreme_logits_are_finite_and_agree_with_float64(name: str, dtype: torch.dtype) -> None:
    logits = EXTREME.to(dtype).requires_grad_()
    value = TERMS[name](logits)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value.shape == (4,)
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    exact = TERMS[name](logits.detach().double())
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=1e-5)


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=6))
def test_ranges(row: list[float]) -> None:
    logits = torch.tensor([row], dtype=torch.float64)
    other = logits.flip(-1)
    most = math.log(len(row))
    assert -1e-12 <= float(entropy(logits)) <= most + 1e-12
    assert -1e-12 <= float(pseudo_label(logits)) <= most + 1e-12
    assert float(pseudo_label(logits)) <= float(entropy(logits)) + 1e-9
    assert float(kl_divergence(logits, other)) >= -1e-9
    assert 0 <= float(squared_distance(logits, other)) <= 2 + 1e-12


def test_adding_a_constant_to_a_row_of_logits_changes_nothing() -> None:
    for name, term in TERMS.items():
        torch.testing.assert_close(
            term(LOGITS + 7.25), term(LOGITS), msg=lambda m, n=name: f"{n}: {m}"
        )


# --- one-logit models -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_one_logit_is_the_two_class_model(dtype: torch.dtype, scale: float) -> None:
    z = scale * torch.tensor([[0.3], [-0.8], [1.0], [0.0]], dtype=dtype)
    t = z.flip(0)
    two, two_t = (torch.cat([torch.zeros_like(v), v], -1) for v in (z, t))
    y = torch.tensor([0, 1, 1, 0])
    pairs = [
        (entropy(z), entropy(two)),
        (renyi_entropy(z, 2.0), renyi_entropy(two, 2.0)),
        (pseudo_label(z, 0.6), pseudo_label(two, 0.6)),
        (cross_entropy(z, y), cross_entropy(two, y)),
        (
            cross_entropy_to(z, t.float().sigmoid()),
            cross_entropy_to(two, two_t.float().softmax(-1)),
        ),
        (confident_cross_entropy(z, t, 0.6), confident_cross_entropy(two, two_t, 0.6)),
        (kl_divergence(z, t), kl_divergence(two, two_t)),
        (squared_distance(z, t), squared_distance(two, two_t)),
    ]
    for ours, theirs in pairs:
        assert ours.shape == (4,)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_one_logit_cross_entropy_is_pytorchs_binary_one() -> None:
    z, y = torch.tensor([[0.3], [-5.0], [200.0]]), torch.tensor([0, 1, 1])
    theirs = F.binary_cross_entropy_with_logits(z.squeeze(-1), y.float(), reduction="none")
    torch.testing.assert_close(cross_entropy(z, y), theirs)


def test_one_logit_gradients_at_the_far_ends_are_finite() -> None:
    z = torch.tensor([[1e4], [-1e4], [0.0]], requires_grad=True)
    for term in (entropy, pseudo_label, lambda v: renyi_entropy(v, 1.1)):
        (gradient,) = torch.autograd.grad(term(z).sum(), z)
        assert torch.isfinite(gradient).all()


# --- transforms and shapes ------------------------------------------------------------------------


def test_leading_dimensions_are_kept() -> None:
    views = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    for name, term in TERMS.items():
        if name == "cross_entropy":
            continue
        assert term(views).shape == (2, 5), name
    y = torch.zeros(2, 5, dtype=torch.long)
    assert cross_entropy(views, y).shape == (2, 5)


def test_vmap_and_compile() -> None:
    for name, term in TERMS.items():
        if name == "cross_entropy":
            continue
        stacked = torch.stack([LOGITS, TARGETS])
        expected = torch.stack([term(LOGITS), term(TARGETS)])
        torch.testing.assert_close(torch.func.vmap(term)(stacked), expected)
        compiled = torch.compile(term, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(LOGITS), expected[0])


def test_no_gradient_reaches_the_confident_target() -> None:
    target = TARGETS.clone().requires_grad_()
    assert not confident_cross_entropy(LOGITS, target, 0.5).requires_grad


def test_a_masked_row_is_zero_and_has_no_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    value = pseudo_label(logits, 0.9)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert value[0] == value[2] == 0
    assert (gradient[[0, 2]] == 0).all()
    assert (gradient[1] != 0).any()


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: entropy(torch.zeros(3)),
            ValueError,
            r"got \(3,\)\. For log-odds of shape \(n,\) pass",
        ),
        (lambda: entropy(torch.zeros(3, 0)), ValueError, r"must have shape \(n, classes\)"),
        (lambda: entropy(torch.zeros(3, 2, dtype=torch.long)), TypeError, "floating-point tensor"),
        (lambda: entropy([[1.0, 2.0]]), TypeError, "got list"),
        (lambda: pseudo_label(LOGITS, 1.5), ValueError, r"threshold must lie in \[0, 1\]; got 1.5"),
        (lambda: renyi_entropy(LOGITS, -1.0), ValueError, r"alpha must lie in \[0, inf\]"),
        (
            lambda: kl_divergence(LOGITS, TARGETS[:2]),
            ValueError,
            r"target_logits must have the logits",
        ),
        (
            lambda: cross_entropy_to(LOGITS, Q[:, :2]),
            ValueError,
            r"probabilities must have the logits",
        ),
        (
            lambda: cross_entropy_to(LOGITS, Q.numpy()),
            TypeError,
            r"probabilities .*got ndarray.*torch.as_tensor",
        ),
        (
            lambda: cross_entropy_to(LOGITS, LOGITS),
            ValueError,
            r"each row of probabilities must be a distribution .* the smallest entry is -3 and "
            r"rows sum to 0 to 1\.5\. Pass probabilities, not logits",
        ),
        (
            lambda: cross_entropy_to(LOGITS, Q * 1.01),
            ValueError,
            r"rows sum to 1\.01 to 1\.01",
        ),
        (
            lambda: cross_entropy_to(LOGITS[:, :1], torch.tensor([[0.5], [1.2], [0.0]])),
            ValueError,
            r"the smallest entry is -0\.2",
        ),
        (lambda: cross_entropy(LOGITS, [0, 1, 2]), TypeError, "y must be a torch.Tensor; got list"),
        (lambda: cross_entropy(LOGITS, Q), ValueError, "For soft labels use cross_entropy_to"),
        (
            lambda: cross_entropy(LOGITS, torch.tensor([0, -1, 2])),
            ValueError,
            r"y must .*\[0, 2\]; got from -1 to 2",
        ),
        (lambda: cross_entropy(LOGITS, torch.tensor([0, 3, 2])), ValueError, r"got from 0 to 3"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(
    call: Callable[[], Tensor], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


def test_log_probabilities_sum_to_one() -> None:
    torch.testing.assert_close(log_probabilities(EXTREME).exp().sum(-1), torch.ones(4).double())


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 1, 3), (1, 3, 2), (2, 2, 3, 1)])
def test_log_probabilities_of_views_are_those_of_each_view(shape: tuple[int, ...]) -> None:
    views = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.stack([log_probabilities(row[None]) for row in views.flatten(0, -2)])
    found = log_probabilities(views)
    torch.testing.assert_close(found, expected.view(*shape[:-1], -1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.uint16, torch.uint64])
def test_labels_of_any_integer_type_are_taken(dtype: torch.dtype) -> None:
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([5, 0, 100])
    assert torch.equal(cross_entropy(logits, y.to(dtype)), cross_entropy(logits, y))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_near_one_renyis_entropy_is_as_precise_compiled() -> None:
    """Compiled for a CPU, torch.expm1 is exp(x) − 1, whose rounding 1/(1 − α) blows up."""
    logits = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(lambda z: renyi_entropy(z, 1.0001), dynamic=False)
    torch.testing.assert_close(
        compiled(logits).double(), renyi_entropy(logits.double(), 1.0001), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_targets_may_be_rounded_in_their_own_type(dtype: torch.dtype) -> None:
    z = 3 * torch.randn(2000, 10, generator=torch.Generator().manual_seed(0))
    q = z.softmax(-1).to(dtype)
    assert torch.isfinite(cross_entropy_to(z, q)).all()
    one = z[:, :1]
    assert torch.isfinite(cross_entropy_to(one, one.sigmoid().to(dtype))).all()


def test_targets_that_diverged_show_in_the_loss() -> None:
    assert cross_entropy_to(LOGITS, torch.full_like(Q, torch.nan)).isnan().all()


def test_targets_are_not_read_where_that_is_impossible() -> None:
    """Under vmap and in compiled code a wrong q passes, as on a GPU."""
    mapped = torch.func.vmap(cross_entropy_to)(LOGITS[None], LOGITS[None])
    compiled = torch.compile(cross_entropy_to, backend="eager", fullgraph=True)(LOGITS, LOGITS)
    expected = -(LOGITS * LOGITS.log_softmax(-1)).sum(-1)
    torch.testing.assert_close(mapped[0], expected)
    torch.testing.assert_close(compiled, expected)


# --- classes that a logit of −∞ excludes ----------------------------------------------------------

MASKED_Q = torch.tensor([[0.3, 0.7, 0.0]], dtype=torch.float64)
MASKED_TARGET = torch.tensor([[0.3, -1.0, -math.inf]], dtype=torch.float64)
OF_MASKED: dict[str, Callable[[Tensor], Tensor]] = {
    **{name: term for name, term in TERMS.items() if name not in WITH_TARGET},
    "renyi 0.9": lambda z: renyi_entropy(z, 0.9),
    "cross_entropy_to": lambda z: cross_entropy_to(z, MASKED_Q[:, : z.shape[1]]),
    "confident": lambda z: confident_cross_entropy(z, MASKED_TARGET[:, : z.shape[1]], 0.4),
    "kl": lambda z: kl_divergence(z, MASKED_TARGET[:, : z.shape[1]]),
    "kl of targets": lambda z: kl_divergence(MASKED_TARGET[:, : z.shape[1]], z),
    "squared_distance": lambda z: squared_distance(z, MASKED_TARGET[:, : z.shape[1]]),
}


@pytest.mark.parametrize("name", OF_MASKED)
def test_an_excluded_class_changes_neither_value_nor_gradient(name: str) -> None:
    logits = torch.tensor([[1.0, 2.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    value = OF_MASKED[name](logits)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    without = logits[:, :2].detach().requires_grad_()
    expected = OF_MASKED[name](without)
    (its_gradient,) = torch.autograd.grad(expected.sum(), without)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient[:, :2], its_gradient)
    assert gradient[0, 2] == 0


def test_an_excluded_class_against_torch_and_infinite_divergences() -> None:
    logits = torch.tensor([[1.0, 2.0, -math.inf]])
    theirs = torch.distributions.Categorical(logits=logits).entropy()
    torch.testing.assert_close(entropy(logits), theirs)
    assert float(entropy(logits)) == pytest.approx(0.5822, abs=5e-5)
    assert kl_divergence(logits, torch.zeros(1, 3)).item() == math.inf
    assert cross_entropy_to(logits, torch.full((1, 3), 1 / 3)).item() == math.inf
    assert entropy(torch.tensor([[math.inf], [-math.inf]])).tolist() == [0.0, 0.0]
