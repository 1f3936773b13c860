"""File formats, one a file: each reader gives plain arrays or a DataError, and never unpickles."""
