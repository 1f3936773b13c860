"""How a reproduction names data and metrics, and formats numbers."""

import math
from collections.abc import Iterable

from dessl.evaluation.metrics import vocabulary
from dessl.evaluation.metrics.vocabulary import NONE, metric_named, metric_text
from dessl.results.averages import Average
from dessl_paper.results import Block, Results
from dessl_paper.targets import Printed

HEADINGS = {
    "overlap_posterior": "mean p(1|x) on [1.2, 2.8]",
    "training_cross_entropy": "training cross-entropy",
    "oracle": "risk on all test rows (oracle)",
    "lam_opt": "λ_opt",
    "lam_opt_of_the_risk": "λ_opt of the risk itself",
    "correlation": "ρ(L, H)",
    "test_accuracy": "accuracy on test rows",
    "test_overconfidence": "mean confidence − accuracy, test rows",
    "test_gradient_lam_opt_entropy": "λ_opt of the gradient, entropy, test rows",
    "test_gradient_least_ratio_entropy": "variance there, relative",
    "test_gradient_lam_opt_pseudo_label": "λ_opt of the gradient, pseudo-labels, test rows",
    "test_gradient_least_ratio_pseudo_label": "variance there, relative",
    "training_accuracy": "accuracy on training rows",
    "training_overconfidence": "mean confidence − accuracy, training rows",
    "training_gradient_lam_opt_entropy": "λ_opt of the gradient, entropy, training rows",
    "training_gradient_least_ratio_entropy": "variance there, relative",
    "training_gradient_lam_opt_pseudo_label": "λ_opt of the gradient, pseudo-labels, training rows",
    "training_gradient_least_ratio_pseudo_label": "variance there, relative",
    "least_ratio": "variance at λ_opt, relative (theorem 3.1)",
    "least_ratio_empirical": "variance at λ_opt, relative (splits)",
    "debiased_largest_bias_in_errors": "largest bias over λ, debiased, in standard errors",
    "ssl_largest_bias_in_errors": "largest bias over λ, SSL, in standard errors",
}


def heading(metric: str) -> str:
    """A metric as the head of a column or a row.

    >>> heading("accuracy"), heading("worst_class_accuracy"), heading("ece")
    ('accuracy, %', 'accuracy, worst class, %', 'ECE, %')
    """
    return HEADINGS.get(metric) or metric_text(metric)


def plain(metric: str) -> str:
    """A metric inside a sentence.

    >>> plain("ece"), plain("worst_class_accuracy")
    ('ECE', 'worst-class accuracy')
    """
    return metric_named(metric).words


def written(metric: str, value: float, *, signed: bool = False) -> str:
    """A value as tables show it.

    >>> written("accuracy", 0.91234), written("brier", -0.0123, signed=True)
    ('91.23', '−0.012')
    """
    return vocabulary.written(metric, value, signed=signed, decimals=2)


def amount(metric: str, value: float) -> str:
    """The size of a difference inside a sentence.

    >>> amount("accuracy", -0.0252), amount("cross_entropy", 0.1)
    ('2.52 points', '0.100')
    """
    return vocabulary.amount(metric, abs(value), decimals=2)


def ours_text(metric: str, found: Average) -> str:
    """Mean, half-width and number of splits.

    >>> ours_text("accuracy", Average(0.9371, 0.0042, 10))
    '93.71 ± 0.42 (10)'
    >>> ours_text("brier", Average(0.1, None, 1)), ours_text("brier", Average(math.nan, None, 0))
    ('0.100 (1)', '–')
    """
    if found.n == 0:
        return NONE
    spread = "" if found.half_width is None else f" ± {written(metric, found.half_width)}"
    return f"{written(metric, found.mean)}{spread} ({found.n})"


def paper_text(metric: str, given: Printed) -> str:
    """The paper's number, with its half-width if it prints one."""
    spread = "" if given.half_width is None else f" ± {written(metric, given.half_width)}"
    return written(metric, given.mean) + spread


def beside_paper(metric: str, ours: Average, given: Printed) -> tuple[str, str, str]:
    """Ours, the paper's, and ours minus the paper's.

    >>> beside_paper("accuracy", Average(0.93, None, 1), Printed(0.95, 0.002))
    ('93.00 (1)', '95.00 ± 0.20', '−2.00')
    """
    off = written(metric, ours.mean - given.mean, signed=True)
    return ours_text(metric, ours), paper_text(metric, given), off


def p_text(value: float) -> str:
    """A p-value; very small ones in powers of ten.

    >>> p_text(0.04321), p_text(0.00004), p_text(1.0), p_text(0.0), p_text(float("nan"))
    ('0.043', '4.0e-05', '1.000', '0', '–')
    """
    if math.isnan(value):
        return NONE
    if value == 0:
        return "0"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def lambda_text(lam: float) -> str:
    """λ to three digits.

    >>> lambda_text(0.16681005), lambda_text(10.0), lambda_text(-0.5)
    ('0.167', '10', '−0.5')
    """
    return f"{lam:.3g}".replace("-", "−")


def listed(items: Iterable[str]) -> str:
    """Words in a row.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    words = list(items)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def data_title(results: Results, block: Block) -> str:
    """A block in words, with a note if it is not the publisher's data."""
    first = results.of(block)[0]
    setting = first.settings.get("data") or {}
    parts = [first.data]
    if block.labels:
        parts.append(f"{block.labels:,} labels")
    if setting.get("label_noise"):
        parts.append(f"{setting['label_noise']:.0%} of the labels redrawn".replace("%", " %"))
    if setting.get("rows"):
        parts.append(f"limited to {setting['rows']:,} rows")
    return ", ".join(parts)


def located(results: Results, block: Block, text: str) -> str:
    """A sentence, preceded by its data set if there are several."""
    if len(results.blocks) == 1:
        return text[:1].upper() + text[1:]
    return f"{data_title(results, block)}: {text}"


def title(results: Results) -> str:
    """The experiment's title, with a note if data are not the publisher's."""
    names = sorted({record.data for record in results.records})
    odd = [name for name in names if "(" in name]
    if any((record.settings.get("data") or {}).get("rows") for record in results.records):
        odd.append("truncated")
    warned = f" [{', '.join(odd)}]" if odd else ""
    return f"{results.experiment.title}{warned}"
