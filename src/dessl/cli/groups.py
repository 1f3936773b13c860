"""Which rows of DATA belong together: by a column or, for images, by a part of their file names."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._checks import quoted
from dessl.cli.columns import GAPS, Beside, ignored, named_column, texts_of
from dessl.cli.fit_folder import run_options
from dessl.cli.options import AS_IT_IS, Reading
from dessl.cli.output import say
from dessl.cli.sources import kind_of, training_data
from dessl.data import DataError, Part, SemiData
from dessl.data.errors import few
from dessl.evaluation.debiased.groups import FEWEST_GROUPS

EXAMPLE = "For files named like p017_02.png, pass --group '^p[0-9]+'."


class NamedRows(NamedTuple):
    """Rows, with the file they were read from and the names of images."""

    source: str
    rows: Part
    names: Sequence[str | int] | None
    labels: str | None = None  # a table about images

    @classmethod
    def of(cls, source: str, data: SemiData, labels: str | None = None) -> "NamedRows":
        """All rows of DATA, as they were read to train on."""
        return cls(source, Part(data.x, data.y), data.row_names, labels)

    @property
    def beside(self) -> Beside | None:
        """The table about the images, if there is one."""
        if self.labels is None or self.names is None or not self.are_files:
            return None
        return Beside(self.labels, self.names)

    def groups(self, name: str, reading: Reading) -> NDArray[np.str_]:
        """What rows of one group have in common, (n,), "" for a row without a group."""
        if self.are_files and not self.has_column(name, reading):
            return _parts_of_names(self.source, name, self.files)
        return texts_of(self.source, name, len(self.rows.y), reading, beside=self.beside)

    def has_groups(self, name: str, reading: Reading) -> bool:
        """Whether there is such a column, or an image whose file name matches."""
        if self.are_files and not self.has_column(name, reading):
            return any(_matched_parts(self.source, name, self.files))
        return self.has_column(name, reading)

    def has_column(self, name: str, reading: Reading) -> bool:
        """Whether the rows' file, or the table about the images, has such a column."""
        return named_column(self.source, name, reading, self.beside)[1] is not None

    @property
    def are_files(self) -> bool:
        """Whether each row is an image in a file of its own."""
        return kind_of(self.source) == "images"

    @property
    def files(self) -> list[str]:
        """The images' file names, without folders."""
        return [PurePosixPath(str(row)).name for row in self.names or ()]


def grouped_data(
    source: str,
    *,
    label: str | None,
    ignore: Sequence[str] | None,
    categorical: Sequence[str] | None,
    group: str | None,
    size: int | None,
    skip_damaged: bool,
    reading: Reading,
    labels: str | None = None,
) -> SemiData:
    """Read DATA with its groups, for commands that train nothing; arguments as their options."""
    columns = {"label": label, "categorical": categorical, "ignore": ignore, "group": group}
    data = training_data(
        source,
        label=label,
        ignore=ignored(source, columns),
        categorical=categorical or (),
        size=size,
        skip_damaged=skip_damaged,
        reading=reading,
        labels=labels,
    )
    if group is not None:
        data.groups = announced_groups(NamedRows.of(source, data, labels), group, reading=reading)
    return data


def announced_groups(rows: NamedRows, name: str, *, reading: Reading = AS_IT_IS) -> Tensor:
    """The group number of each row, (n,), after printing how many groups there are.

    Args:
        rows: The rows of DATA.
        name: The column of the groups; of images without one, a pattern of their file names.
        reading: How a table is read.
    """
    found = _numbered(rows.groups(name, reading))
    every, known = (len(torch.unique(one)) for one in (found, found[rows.rows.labelled.cpu()]))
    say(f"{every:,} groups by {as_typed(name)}, {known:,} of them with a label.")
    return found


def groups_of_test(
    name: str, test: NamedRows, training: NamedRows, reading: Reading = AS_IT_IS
) -> Tensor:
    """The group numbers of test rows from a file, (n,), with a warning about known groups.

    Args:
        name: The column of the groups in both files; of images, a pattern of their file names.
        test: The test rows.
        training: All rows of DATA.
        reading: How both are read; the sheet is that of DATA.

    Raises:
        DataError: The groups of DATA are in its table of labels, which is not about test images.
    """
    if test.are_files and training.beside is not None and training.has_column(name, reading):
        raise DataError.of(
            test.source,
            expected=f"test images whose --group {as_typed(name)} is known",
            got=f"a folder, while {training.labels} is about the images of {training.source}",
            do="Omit --test-file and evaluate these images after the fit: dessl evaluate RUN "
            f"{test.source} --labels TABLE --group {as_typed(name)}.",
        )
    groups, rows = test.groups(name, reading.for_file(test.source)), training.rows
    known = set(training.groups(name, reading)[rows.labelled.numpy()]) - set(GAPS)
    labelled = test.rows.labelled.numpy()
    if shared := int(np.isin(groups[labelled], sorted(known)).sum()):
        warnings.warn(
            f"{shared} of the {labelled.sum()} labelled test rows have a value of {as_typed(name)} "
            "that labelled training rows have too: metrics on them are optimistic for new groups. "
            "Remove them from one of the two.",
            UserWarning,
            stacklevel=2,
        )
    return _numbered(groups)


def groups_of_run(
    run: Path, given: str | None, rows: NamedRows, reading: Reading
) -> NDArray[np.int64] | None:
    """The group of each row, (n,), by the column given or that of the run; None without groups.

    Args:
        run: Folder of the run to evaluate.
        given: The user's --group, if any.
        rows: The rows of DATA.
        reading: How a table is read.
    """
    name = given or run_options(run).get("group")
    if name is None:
        return None
    if given is None and not rows.has_groups(name, reading):
        say(
            f"Note: the run was fitted with --group {name}, but {rows.source} has no such "
            f"{'file name' if rows.are_files else 'column'}: rows are taken as independent. "
            "If several belong together, the intervals are too narrow.",
            style="yellow",
        )
        return None
    found = announced_groups(rows, name, reading=reading)
    if given is not None:
        return np.asarray(found.numpy(), np.int64)
    if len(torch.unique(found[rows.rows.labelled])) < FEWEST_GROUPS:
        say(
            "Note: these are too few groups for an interval that allows for them, so rows are "
            "taken as independent and the intervals are too narrow. Label rows of more groups.",
            style="yellow",
        )
        return None
    say(f"Note: rows are grouped by {as_typed(name)}, as in the run.")
    return np.asarray(found.numpy(), np.int64)


def _parts_of_names(source: str, pattern: str, files: Sequence[str]) -> NDArray[np.str_]:
    """The part of each file name that a pattern matches, (n,), "" for none.

    Raises:
        DataError: The pattern is wrong, or matches no name.
    """
    found = _matched_parts(source, pattern, files)
    lost = [name for name, part in zip(files, found, strict=True) if not part]
    if len(lost) == len(files):
        raise DataError.of(
            source,
            expected=f"file names that match --group {as_typed(pattern)}; only a table of --labels "
            "has columns about images",
            got=few([quoted(name) for name in files[:3]]) or "no file names",
            do=EXAMPLE,
        )
    if lost:
        warnings.warn(
            f"{source}: {len(lost):,} of {len(files):,} file names do not match "
            f"{as_typed(pattern)}, such as {quoted(lost[0])}: each of these images counts as a "
            "group of its own.",
            UserWarning,
            stacklevel=2,
        )
    return np.asarray(found)


def _matched_parts(source: str, pattern: str, files: Sequence[str]) -> list[str]:
    """What the first bracket of a pattern matches, or all of it; "" for nothing."""
    try:
        matches = [re.search(pattern, name) for name in files]
    except re.error as error:
        raise DataError.of(
            source,
            expected="a regular expression of file names in --group",
            got=f"{as_typed(pattern)}, {error}",
            do=EXAMPLE,
        ) from error
    return [(match and match[1 if match.re.groups else 0]) or "" for match in matches]


def _numbered(texts: NDArray[np.str_]) -> Tensor:
    _, numbers = np.unique(texts, return_inverse=True)
    n = len(texts)
    return torch.from_numpy(np.where(np.isin(texts, GAPS), n + np.arange(n), numbers))


def as_typed(pattern: str) -> str:
    r"""A column or a pattern in quotes, with its backslashes as the user typed them.

    >>> print(as_typed(r"^p\d+"))
    '^p\d+'
    """
    return quoted(pattern).replace("\\\\", "\\")
