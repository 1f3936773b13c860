"""Plot: a small SVG with two axes, whose colours are the page's own, light or dark."""

import itertools
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dessl.report.axis import Axis
from dessl.report.html import Markup, element

Points: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Plot:
    """A frame to draw in: marks are made by its methods, in the units of its axes.

    Attributes:
        x: The axis along the bottom.
        y: The axis on the left.
        x_label: Below the one.
        y_label: Above the other.
        width: Of the whole picture, in its own units; it is shown as wide as there is room.
        height: Likewise.
        left: Room for the texts of the left axis.
    """

    x: Axis
    y: Axis
    x_label: str
    y_label: str
    width: int = 360
    height: int = 250
    left: int = 44

    top = 24
    right = 16
    bottom = 40

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Place of a point in the picture."""
        across, up = self.width - self.left - self.right, self.height - self.top - self.bottom
        return (
            round(self.left + self.x.share(x) * across, 1),
            round(self.top + (1 - self.y.share(y)) * up, 1),
        )

    def line(self, points: Points, style: str) -> Markup:
        """A line through points, broken where one is not finite; a lone point is a dot."""
        marks = []
        for whole, run in itertools.groupby(points, key=lambda p: math.isfinite(p[0] + p[1])):
            places = [self.at(*point) for point in run] if whole else []
            if len(places) == 1:
                marks.append(
                    element("circle", cx=places[0][0], cy=places[0][1], r=3, class_=f"dot {style}")
                )
            elif places:
                marks.append(element("polyline", points=_path(places), class_=f"line {style}"))
        return Markup("".join(marks))

    def dots(self, points: Points, style: str) -> Markup:
        """A dot at each finite point."""
        places = [self.at(*point) for point in points if math.isfinite(point[0] + point[1])]
        dots = (element("circle", cx=x, cy=y, r=3, class_=f"dot {style}") for x, y in places)
        return Markup("".join(dots))

    def band(self, lows: Points, highs: Points, style: str) -> Markup:
        """The area between two lines over the same finite places."""
        both = [
            (low, high)
            for low, high in zip(lows, highs, strict=True)
            if all(math.isfinite(value) for value in (*low, *high))
        ]
        around = [self.at(*low) for low, _ in both] + [self.at(*high) for _, high in both[::-1]]
        return (
            element("polygon", points=_path(around), class_=f"band {style}") if both else Markup()
        )

    def box(self, corner: tuple[float, float], opposite: tuple[float, float], style: str) -> Markup:
        """A rectangle between two points."""
        (x0, y0), (x1, y1) = self.at(*corner), self.at(*opposite)
        return element(
            "rect",
            x=min(x0, x1),
            y=min(y0, y1),
            width=round(abs(x1 - x0), 1),
            height=round(abs(y1 - y0), 1),
            class_=style,
        )

    def label(self, name: str, style: str) -> Markup:
        """A name in the upper right corner, in its style's colour."""
        x = self.width - self.right
        return _name(name, 24, x=x, y=12, class_=f"name {style}")

    def row_label(self, name: str, y: float) -> Markup:
        """A name left of the frame, at a height."""
        x, down = self.at(self.x.low, y)
        return _name(name, (self.left - 8) // 7, x=x - 6, y=round(down + 4, 1), class_="tick left")

    def svg(self, title: str, description: str, *marks: Markup) -> Markup:
        """The picture: axes below the marks, and a title and a description for those who listen."""
        return element(
            "svg",
            element("title", title),
            element("desc", description),
            self._left_axis(),
            self._bottom_axis(),
            marks,
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_label=f"{title}. {description}",
        )

    def _left_axis(self) -> Markup:
        parts = [element("text", self.y_label, x=2, y=12, class_="axis-label")]
        for value, text in self.y.ticks:
            x, y = self.at(self.x.low, value)
            end, _ = self.at(self.x.high, value)
            parts.append(element("line", x1=x, x2=end, y1=y, y2=y, class_="grid"))
            if text:
                parts.append(element("text", text, x=x - 6, y=y + 4, class_="tick left"))
        return Markup("".join(parts))

    def _bottom_axis(self) -> Markup:
        base, end = self.height - self.bottom, self.width - self.right
        middle = (self.left + end) / 2
        parts = [
            element("line", x1=self.left, x2=end, y1=base, y2=base, class_="axis"),
            element("text", self.x_label, x=middle, y=self.height - 6, class_="axis-label middle"),
        ]
        for value, text in self.x.ticks:
            x, _ = self.at(value, self.y.low)
            parts.append(element("line", x1=x, x2=x, y1=base, y2=base + 4, class_="axis"))
            parts.append(element("text", text, x=x, y=base + 17, class_="tick middle"))
        return Markup("".join(parts))


def shortened(name: str, most: int) -> str:
    """A name cut to a number of columns; wide characters take two.

    >>> shortened("chromosome", 20), shortened("chromosome", 6), shortened("染色体染色体", 6)
    ('chromosome', 'chrom…', '染色…')
    """
    widths = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in name]
    if sum(widths) <= most:
        return name
    ends = itertools.accumulate(widths)
    kept = sum(1 for end in ends if end <= most - 1)
    return name[:kept] + "…"


def _name(name: str, most: int, **attributes: object) -> Markup:
    """A name as text, whole in a tip; isolated, as text that runs leftwards would move the rest."""
    isolated = f"\u2068{shortened(name, most)}\u2069"
    return element("text", element("title", name), isolated, **attributes)


def _path(places: Points) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)
