"""Labelled and unlabelled rows as one table, for pipelines, which take no second one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

STACKED = (
    "WithUnlabelled fits a pipeline on labelled and unlabelled rows together, and the label of the "
    "latter is None. A step that learns from y, as SelectKBest does, does not accept this: fit it "
    "on the labelled rows before, and transform X and X_unlabelled with it."
)


def stacked_rows(X: Any, more: Any) -> Any:
    """Return the rows of X, then the others: two frames as a frame, sparse rows as sparse ones.

    Args:
        X: Rows (n, ...): an array, a pandas or Polars frame, a sparse matrix, or a list.
        more: Rows (m, ...) like those of X.

    >>> stacked_rows([[1, 2]], np.array([[3, 4]])).tolist()
    [[1, 2], [3, 4]]
    """
    if hasattr(X, "columns") and hasattr(more, "columns"):
        if list(X.columns) != list(more.columns):
            raise ValueError(
                f"X_unlabelled must have the columns of X, {list(X.columns)!r:.200}; got "
                f"{list(more.columns)!r:.200}. Pass X_unlabelled[list(X.columns)]."
            )
        if hasattr(X, "vstack"):  # Polars
            return X.vstack(more)
        import pandas as pd

        return pd.concat([X, more], ignore_index=True)
    if hasattr(X, "tocsr") or hasattr(more, "tocsr"):
        from scipy import sparse

        return sparse.vstack([X, more], format="csr")
    rows, others = np.asarray(X), np.asarray(more)
    if rows.shape[1:] != others.shape[1:]:
        raise ValueError(
            f"X_unlabelled must have rows like those of X, of shape {rows.shape[1:]}; got "
            f"{others.shape[1:]}. Pass them as they are before the steps of the pipeline."
        )
    return np.concatenate([rows, others])


def stacked_labels(y: Any, n_more: int) -> NDArray[np.object_]:
    """Return the labels of X and None for each further row, (n + n_more,).

    None and not -1: a step that learns from labels would take -1 for a class, and None is an error.

    >>> stacked_labels(np.array([0, 1]), 2).tolist()
    [0, 1, None, None]
    """
    labels = np.full(len(y) + n_more, None, dtype=object)
    labels[: len(y)] = np.asarray(y).tolist()
    return labels
