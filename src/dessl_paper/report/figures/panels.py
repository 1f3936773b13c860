"""A figure of several panels: how they are laid out, and the one legend under them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.1, 3.1  # of one panel, in inches


def panels(count: int) -> "tuple[Figure, list[Axes]]":
    """A figure with so many panels, at most three in a row and four as two by two."""
    from matplotlib.figure import Figure

    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(WIDTH * columns, 5.5), HEIGHT * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def legend_below(figure: "Figure", axes: "Axes", order: list[str], columns: int = 4) -> None:
    """One legend for all panels, its entries in the given order and others after them.

    It has so many columns, or as many as the figure is wide enough for.
    """
    handles, names = axes.get_legend_handles_labels()
    ranked = sorted(
        zip(names, handles, strict=True),
        key=lambda entry: order.index(entry[0]) if entry[0] in order else len(order),
    )
    for count in range(max(1, min(len(ranked), columns)), 0, -1):
        legend = figure.legend(
            [handle for _, handle in ranked],
            [name for name, _ in ranked],
            loc="outside lower center",
            ncols=count,
        )
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()
