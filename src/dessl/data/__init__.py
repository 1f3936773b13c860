"""Data: from arrays and files to batches on the device."""

from dessl.data.batches import Batch, Batches, RowNumbers
from dessl.data.catalogue import load
from dessl.data.draw import LabelDraw, draw_labels, draw_labels_by_class, redraw_labels
from dessl.data.errors import DataError
from dessl.data.parts import Part
from dessl.data.publishers import DATASETS
from dessl.data.semi import SemiData
from dessl.data.stored.opening import open_rows
from dessl.data.stored.rows import StoredRows
from dessl.data.stored.stream import StoredStream

__all__ = [
    "DATASETS",
    "Batch",
    "Batches",
    "DataError",
    "LabelDraw",
    "Part",
    "RowNumbers",
    "SemiData",
    "StoredRows",
    "StoredStream",
    "draw_labels",
    "draw_labels_by_class",
    "load",
    "open_rows",
    "redraw_labels",
]
