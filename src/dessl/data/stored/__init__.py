"""Unlabelled rows that need not fit in memory: files that are read while a network trains."""

from dessl.data.stored.opening import open_rows
from dessl.data.stored.rows import StoredRows
from dessl.data.stored.stream import StoredStream

__all__ = ["StoredRows", "StoredStream", "open_rows"]
