"""Where the labels of new rows should be, and what is said if that place is not there."""

from dessl._checks import quoted
from dessl.cli.sources import Expected, NewRows, kind_of
from dessl.data import DataError
from dessl.data.errors import few
from dessl.data.formats.npz import LABEL_NAMES
from dessl.data.formats.tables import open_table
from dessl.data.formats.zipped import open_npz


def check_labels_present(source: str, rows: NewRows, model: Expected) -> None:
    """Refuse rows without any label if the column, or an npz file's array, of labels is absent.

    Where it is there and empty, nothing is said: how many labels are needed is not known here.

    Raises:
        DataError: It is absent; what is there is named.
    """
    if bool((rows.y >= 0).any()):
        return
    kind = kind_of(source)
    wanted: tuple[str, ...]
    if kind == "table" and model.encoding is not None:
        table = open_table(source)
        wanted, there = (model.encoding.label,), (*table.columns, *table.unread)
        what = "column"
    elif kind == "npz":
        with open_npz(source) as arrays:
            wanted, there = LABEL_NAMES, arrays.names
        what = "array"
    else:
        return
    if not set(wanted) & set(there):
        raise DataError.of(
            source,
            expected=f"the labels in the {what} {' or '.join(map(quoted, wanted))}",
            got=few([quoted(name) for name in there], most=20),
            do=f"If one of them has the labels, rename it to {quoted(wanted[0])}; without labels "
            "nothing can be measured.",
        )
