"""Numbers as axes show them: shares in per cent, and λ on a log axis with zero left apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dessl.evaluation.metrics.vocabulary import metric_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scale(metric: str) -> float:
    """100 for shares, 1 for anything else."""
    return metric_named(metric).unit


def inside(limits: tuple[float, float], metric: str) -> tuple[float, float]:
    """Ends of an axis, moved to what a metric can be: intervals from two splits reach far past it.

    >>> inside((-500.0, 60.0), "accuracy"), inside((20.0, 60.0), "accuracy")
    ((-3.0, 60.0), (20.0, 60.0))
    """
    least, most = metric_named(metric).range
    low, high = max(limits[0], least), min(limits[1], most)
    room = 0.05 * (high - low)
    return max(limits[0], least - room), min(limits[1], most + room)


def zero_place(lams: Sequence[float]) -> float:
    """Where λ = 0 stands on a log axis: left of the least positive one, by a third of the span.

    >>> zero_place([0.1, 1.0, 10.0]) < 0.1
    True
    """
    low, high = min(lams), max(lams)
    return low / max(2.0, float((high / low) ** 0.15))


def lambda_axis(axes: "Axes", lams: Sequence[float]) -> None:
    """Make the horizontal axis one of λ, with 0 apart and a line between."""
    zero, low, high = zero_place(lams), min(lams), max(lams)
    axes.set_xscale("log")
    decades = [10.0**k for k in range(-4, 5) if low * 0.999 <= 10.0**k <= high * 1.001]
    ticks = decades if len(decades) > 1 else sorted({low, high})
    axes.set_xticks([zero, *ticks], ["0", *(f"{tick:g}" for tick in ticks)])
    axes.set_xticks([], minor=True)
    axes.axvline((zero * low) ** 0.5, color="#aaaaaa", linewidth=0.8, linestyle=(0, (1, 2)))
    margin = max((low / zero) ** 0.5, 1.2)
    axes.set_xlim(zero / margin, high * margin)
    axes.set_xlabel("λ")
