"""Which teachers are pooled with the networks, and why none are."""

from collections.abc import Sequence
from typing import Literal

from dessl.data import SemiData
from dessl.teachers.families import check_teachers, default_teachers
from dessl.teachers.rows import columns_of

Teachers = Sequence[object] | Literal["auto"] | None

# Limits for teachers by default: above them, teachers cost more than the networks.
MOST_COLUMNS = 4096
MOST_LABELS = 10_000


def which_teachers(data: SemiData, teachers: Teachers, *, customised: bool) -> tuple[object, ...]:
    """The teachers to pool; the default ones unless the user chose another use of the rows."""
    if teachers is None:
        return ()
    if isinstance(teachers, str):
        if teachers != "auto":
            raise ValueError(
                "teachers must be 'auto', None or a list such as ['graph', 'linear']; got "
                f"{teachers!r}. Put a single one in a list: teachers=[{teachers!r}]."
            )
        return () if customised or why_no_pool(data) else default_teachers(data.x)
    check_teachers(teachers, propensity=data.propensity is not None)
    return tuple(teachers)


def why_no_pool(data: SemiData) -> str:
    """Why teachers are not trained by default, and what to do; "" if they are."""
    shape, reduce = tuple(data.x.shape[1:]), ""
    if data.x.ndim not in (2, 4):
        why = f"its teachers read columns or images, and these rows have shape {shape}"
        return f"No pool was made, because {why}. Flatten the rows to make one."
    if columns_of(shape) > MOST_COLUMNS:
        why = f"the rows have {columns_of(shape):,} columns, more than {MOST_COLUMNS:,}"
        reduce = ", or reduce the columns first, for example with PCA"
    elif data.n_labelled > MOST_LABELS:
        why = f"there are {data.n_labelled:,} labels, more than {MOST_LABELS:,}"
    else:
        return ""
    return (
        f"No pool was made, because {why}, and its teachers may take long to train. Pass --pool "
        f"(teachers=dessl.teachers.DEFAULT in Python) to make one anyway{reduce}."
    )
