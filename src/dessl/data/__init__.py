"""From arrays and files to batches on the device."""

from dessl.data.draw import LabelDraw, draw_labels, draw_labels_by_class, redraw_labels
from dessl.data.semi import Part, SemiData

__all__ = ["LabelDraw", "Part", "SemiData", "draw_labels", "draw_labels_by_class", "redraw_labels"]
