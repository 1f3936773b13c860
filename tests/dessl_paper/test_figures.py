"""Panels and legends that fit."""

import pytest

from dessl_paper.figures import legend_below, panels


@pytest.mark.parametrize("longest", [5, 30, 60])
def test_a_legend_is_never_wider_than_its_figure(longest: int) -> None:
    figure, axes = panels(4)
    names = [f"{number} {'n' * longest}" for number in range(7)]
    for name in names:
        axes[0].plot([0, 1], [0, 1], label=name)
    legend_below(figure, axes[0], names, columns=6)
    (legend,) = figure.legends
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert [text.get_text() for text in legend.get_texts()] == names
