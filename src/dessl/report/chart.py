"""Charts: matplotlib figures as PNG, as SVG, or as SVG inside a page, following its theme.

Charts are drawn in the light theme's colours. Inside a page, each colour becomes the style sheet's
variable of that name, so that charts turn dark with the page. The same numbers give the same bytes.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from dessl.evaluation.metrics.vocabulary import metric_named
from dessl.report.html import FORBIDDEN, Markup, element, named, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# page.css has the same names, with a second value for dark screens.
COLOURS = {
    "ink": "#1c2329", "soft": "#5a6670", "rule": "#d5dbe0",
    "s0": "#5f6b75", "s1": "#b5500f", "s2": "#1f64ad", "s3": "#7b4bab", "s4": "#1a7f64",
    "s5": "#a8326e", "s6": "#8c6d31", "s7": "#0f7486", "paper": "#ffffff",
}  # fmt: skip
INK, SOFT, RULE = COLOURS["ink"], COLOURS["soft"], COLOURS["rule"]
SETTINGS = {
    "svg.hashsalt": "dessl",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
IN_PAGE = {
    "text.parse_math": False,  # a name with dollars is a name
    "svg.fonttype": "none",  # letters stay text, in the page's own font
    "font.sans-serif": ["DejaVu Sans"],  # to measure with
    "font.size": 11.0,
    "text.color": INK,
    "grid.color": RULE,
    "axes.edgecolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.labelcolor": INK,
    "xtick.major.size": 4.0,
    "ytick.major.size": 0.0,
    "axes.spines.left": False,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "butt",
}
# Properties that the page's style sheet already sets, or that have no visible effect.
PLAIN = {
    "font-family": ("sans-serif", "'DejaVu Sans', sans-serif"),
    "font-size": ("11px",),
    "text-anchor": ("start",),
    "stroke-dasharray": ("",),
    "stroke-dashoffset": ("0",),
    "stroke-linejoin": ("miter", "round"),
    "stroke-linecap": ("butt", "square"),
}
NARROW, ROOMY = 360, 900  # widths of a chart: on a phone or next to others, and alone
MISSING = "Glyph .* missing from"  # browsers have the letters that matplotlib's font lacks


@dataclass(frozen=True)
class Look:
    """How one series is drawn: colour, marker, and line style in matplotlib's notation."""

    colour: str
    marker: str
    line: Any = "-"

    def of_line(self) -> dict[str, Any]:
        """Options of a line with markers."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.line}


SERIES = (
    Look(COLOURS["s0"], "D", (0, (3, 1.5))),
    Look(COLOURS["s1"], "s"),
    Look(COLOURS["s2"], "o"),
    Look(COLOURS["s3"], "v", (0, (4, 1, 1, 1))),
    Look(COLOURS["s4"], "^", (0, (1, 1))),
    Look(COLOURS["s5"], "P", (0, (5, 2))),
)


@contextmanager
def drawing(settings: Any = SETTINGS) -> Iterator[None]:
    """Set matplotlib's style for our charts; in pages, ``SETTINGS | IN_PAGE``."""
    import matplotlib as mpl

    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING)
        yield


@dataclass
class Chart:
    """One chart of a page: two axes in a frame, sizes in CSS pixels.

    Attributes:
        axes: The matplotlib axes to draw in.
        width: Width of the chart.
        height: Height of the chart.
        names: Texts from the user's data, by the id of their placeholder; matplotlib never sees
            them.
    """

    axes: "Axes"
    width: int
    height: int
    names: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, x_label: str, y_label: str, *, width: int = 360, height: int = 250, left: int = 44
    ) -> "Chart":
        """An empty chart with the label of the vertical axis above it."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width / 72, height / 72))
        figure.patch.set_visible(False)
        inner = (left / width, 40 / height, 1 - (left + 16) / width, 1 - 64 / height)
        axes = figure.add_axes(inner)
        axes.patch.set_visible(False)
        x_label, y_label = (
            FORBIDDEN.sub("\ufffd", " ".join(text.splitlines())) for text in (x_label, y_label)
        )
        axes.set_xlabel(x_label)
        figure.text(2 / width, 1 - 12 / height, y_label)
        return cls(axes, width, height)

    def label(self, name: str, colour: str) -> None:
        """Put a name above the upper right corner."""
        x, y = 1.0, 1 + 12 / (self.height - 64)
        self._name(name, 24, x, y, self.axes.transAxes, color=colour, weight="bold")

    def row_label(self, name: str, y: float, left: int) -> None:
        """Put a name left of the frame at a height of the vertical axis."""
        at = self.axes.get_yaxis_transform()
        inner = self.width - left - 16
        self._name(name, (left - 8) // 7, -6 / inner, y, at, color=SOFT, va="center")

    def _name(self, name: str, most: int, x: float, y: float, at: Any, **look: Any) -> None:
        place = f"name-{len(self.names)}"
        self.names[place] = (shortened(name, most), name)
        self.axes.text(x, y, place, transform=at, ha="right", gid=place, **look)

    def svg(self, title: str, description: str) -> Markup:
        """The chart, with a title and a description for screen readers."""
        figure = self.axes.get_figure(root=True)
        assert figure is not None  # noqa: S101 (it was made with one)
        return page_svg(picture(figure, "svg"), title, description, names=self.names)


def filling(draws: Sequence[Callable[[int], Markup]]) -> list[Markup]:
    """Charts side by side; a single one fills the page.

    A single chart is drawn for a wide and for a narrow screen, and the page shows the one that
    fits.

    Args:
        draws: Functions that draw a chart at a given width.
    """
    if len(draws) > 1:
        return [draw(NARROW) for draw in draws]
    widths = {"narrow": NARROW, "roomy": ROOMY}
    return [
        Markup("".join(element("div", draw(width), class_=name) for name, width in widths.items()))
        for draw in draws
    ]


def legend(entries: Mapping[str, Look]) -> Markup:
    """A legend: each name next to a piece of its line."""
    items = []
    for name, look in entries.items():
        dashes = " ".join(f"{2 * part:g}" for part in look.line[1]) if look.line != "-" else ""
        style = _style({"stroke": look.colour, "stroke-width": "2", "stroke-dasharray": dashes})
        line = element("path", d="M1 5H25", style=style)
        swatch = element("svg", line, viewBox="0 0 26 10", class_="swatch", aria_hidden="true")
        items.append(element("li", swatch, named(name)))
    return element("ul", items, class_="legend")


def picture(figure: "Figure", ending: str) -> bytes:
    """The figure as the bytes of a ``"png"`` or ``"svg"`` file, without a date."""
    facts = {"png": {"Software": None}, "svg": {"Date": None}}
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, dpi=130, metadata=facts[ending])
    return buffer.getvalue()


def pictures(figure: "Figure") -> dict[str, bytes]:
    """The figure as PNG and as SVG, by file extension; under ``"page"``, for :func:`page_svg`."""
    import matplotlib as mpl

    found = {}
    for ending in ("png", "svg"):
        found[ending] = picture(figure, ending)
        figure.set_layout_engine("none")  # keep the layout from here on
    with mpl.rc_context({"svg.fonttype": "none"}):
        found["page"] = picture(figure, "svg")
    return found


def page_svg(
    svg: bytes,
    title: str,
    description: str,
    names: Mapping[str, tuple[str, str]] | None = None,
    *,
    clipped: bool = False,
) -> Markup:
    """A matplotlib SVG as an element of a page, in the page's colours.

    Args:
        svg: An SVG drawn with ``"svg.fonttype": "none"``.
        title: Title for screen readers.
        description: Description for screen readers.
        names: By the id of a placeholder, the text to write and the full name.
        clipped: Whether marks are clipped to their axes, as in matplotlib.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 (matplotlib has written it)
    shapes = {node.get("id"): node for node in root.iter() if _tag(node) == "path"}
    size = [float(number) for number in (root.get("viewBox") or "").split()]
    drawn = _Drawn({key: node for key, node in shapes.items() if key}, names or {}, clipped)
    frames = (node for node in root.iter() if clipped and _tag(node) == "clipPath")
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        [element("clipPath", _frame(node), id=node.get("id")) for node in frames],
        list(drawn.marks(root, None)),
        viewBox=" ".join(f"{number:g}" for number in size),
        role="img",
        aria_label=f"{title}. {description}",
    )


@dataclass(frozen=True)
class _Drawn:
    """What matplotlib drew, as elements of a page: without groups, one decimal."""

    shapes: Mapping[str, ElementTree.Element]
    names: Mapping[str, tuple[str, str]]
    clipped: bool

    def marks(self, node: ElementTree.Element, place: str | None) -> Iterator[Markup]:
        """Every path and text below a node."""
        tag = _tag(node)
        if tag in ("defs", "metadata"):
            return
        if self.clipped and (frame := node.get("clip-path")):
            whole = ElementTree.Element(
                node.tag, {k: v for k, v in node.items() if k != "clip-path"}
            )
            whole.extend(list(node))
            yield element("g", list(self.marks(whole, place)), clip_path=frame)
            return
        if tag == "path":
            yield _path(node, node)
        elif tag == "use":
            link = next(value for key, value in node.items() if key.endswith("href"))
            yield _path(self.shapes[link.removeprefix("#")], node)
        elif tag == "text":
            yield self._text(node, place)
            return
        inside = (mark for child in node for mark in self.marks(child, node.get("id") or place))
        moved = node.get("transform") if tag == "g" else None
        yield from [element("g", list(inside), transform=moved)] if moved else inside

    def _text(self, node: ElementTree.Element, place: str | None) -> Markup:
        look = _look(node)
        content: list[Markup | str] = [node.text or "", *map(_part, node)]
        if place is not None and place in self.names:
            shown, whole = self.names[place]
            # Isolated, because right-to-left text would move its neighbours.
            content = [element("title", whole), f"\u2068{shown}\u2069"]
        x, y = (_rounded(node.get(axis) or "0") for axis in ("x", "y"))
        turned = node.get("transform") or ""
        turned = "" if turned.startswith("rotate(-0 ") else _rounded(turned)
        return element("text", content, x=x, y=y, transform=turned or None, style=_style(look))


def _frame(node: ElementTree.Element) -> Markup:
    (shape,) = node  # a rectangle, or the outline of one
    size = {name: _rounded(value) for name, value in shape.items()}
    return element(_tag(shape), **size)


def _part(node: ElementTree.Element) -> Markup:
    """A part of a text with its own size or position, such as an exponent."""
    x, y = (_rounded(value) if (value := node.get(axis)) else None for axis in ("x", "y"))
    return element("tspan", node.text or "", x=x, y=y, style=_style(_look(node)))


def _path(shape: ElementTree.Element, used: ElementTree.Element) -> Markup:
    look = _look(shape) | _look(used)
    x, y = float(used.get("x") or 0), float(used.get("y") or 0)
    moved = f"translate({_rounded(f'{x} {y}')})" if x or y else None
    outline = _rounded(" ".join((shape.get("d") or "").split()))
    return element("path", d=outline, transform=moved, style=_style(look))


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


def _look(node: ElementTree.Element) -> dict[str, str]:
    parts = (part.partition(":") for part in (node.get("style") or "").split(";"))
    return {key.strip(): value.strip() for key, _, value in parts if key.strip()}


def _style(look: Mapping[str, str]) -> str | None:
    """A style attribute with the page's variables for the chart's colours."""
    variables = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
    parts = [
        f"{key}:{variables.get(value, value)}"
        for key, value in look.items()
        if value not in PLAIN.get(key, ("",))
    ]
    return ";".join(parts) or None


def _rounded(text: str) -> str:
    return re.sub(r"-?(?<!\d)\d+\.\d+", lambda found: f"{round(float(found[0]), 1):g}", text)


def inside(limits: tuple[float, float], metric: str) -> tuple[float, float]:
    """Limits of an axis, clipped to a metric's range: intervals from two runs can exceed it by far.

    >>> inside((-500.0, 60.0), "accuracy"), inside((20.0, 60.0), "accuracy")
    ((-3.0, 60.0), (20.0, 60.0))
    """
    least, most = metric_named(metric).range
    low, high = max(limits[0], least), min(limits[1], most)
    room = 0.05 * (high - low)
    return max(limits[0], least - room), min(limits[1], most + room)


def zero_place(lams: Sequence[float]) -> float:
    """Position of λ = 0 on a log axis: left of the smallest positive λ.

    >>> zero_place([0.1, 1.0, 10.0]) < 0.1
    True
    """
    low, high = min(lams), max(lams)
    return low / max(2.0, float((high / low) ** 0.15))


def lambda_axis(axes: "Axes", lams: Sequence[float]) -> None:
    """Make the horizontal axis logarithmic in λ, with 0 set apart by a line."""
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


def magnitude_axis(axes: "Axes", values: Sequence[float]) -> None:
    """Make the vertical axis suit values of either sign and of very different size.

    It is linear near zero and logarithmic beyond, with ticks at powers of ten.
    """
    shown = [value for value in values if math.isfinite(value) and value] or [1.0]
    top = math.ceil(math.log10(max(abs(value) for value in shown)))
    powers = [10.0**power for power in range(top - 3, top + 1)]
    marks = [*(-power for power in powers[::-1]), 0.0, *powers]
    low = max((mark for mark in marks if mark < min(shown)), default=marks[0])
    high = min((mark for mark in marks if mark > max(shown)), default=marks[-1])
    low, high = min(low, 0.0), max(high, 0.0)
    kept = [mark for mark in marks if low <= mark <= high]
    axes.set_yscale("asinh", linear_width=powers[0])
    axes.set_yticks(kept, [f"{mark:g}".replace("-", "−") for mark in kept])
    axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)
