"""How to correct a table: options for a file, code for pandas, words for other data frames."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from dessl._checks import quoted
from dessl.data.formats.identifiers import how_to_keep

SIGN = re.compile(r"[%‰$€£]")
THOUSANDS = re.compile(r"[0-9]([,'’ ])[0-9]{3}(?![0-9])")
SEPARATED = re.compile(r"^[+-]?[0-9]{1,3}([.,'’\s][0-9]{3})+([.,][0-9]+)?$")
LETTER = r"[^\W\d_]"  # or ² or ³
MEASURED = re.compile(  # 80.1 kPa, 12 m/s and 21,5 °C
    rf"^(?P<number>[+-]?[0-9]+([.,][0-9]+)?)\s?(?P<unit>(°{LETTER}?|{LETTER})({LETTER}|[./·])*)$"
)
MINUS = "\N{MINUS SIGN}"
INFINITE = ("inf", "infinity")
SHOWN = 3  # columns and marks named in an option


@dataclass(frozen=True)
class Advice:
    """The last sentences of errors and warnings about a file.

    Attributes:
        fitted: Whether its columns must be those of an earlier table.
    """

    fitted: bool = False

    @property
    def later(self) -> Self:
        """The same for a table that is read after the encoding was fitted."""
        return replace(self, fitted=True)

    def category(self, name: str) -> str:
        """How to make a column one of categories; the end of a sentence."""
        del name  # an option names it
        if self.fitted:
            return (
                "if the column has categories, fit the model again with categorical= (dessl fit "
                "--categorical)."
            )
        return (
            "if the column has categories, name it in categorical= (--categorical on the command "
            "line)."
        )

    def not_numbers(self, name: str, cell: str, *, comma: bool, several: bool) -> str:
        """What to do about cells of a column of numbers.

        Args:
            name: The column.
            cell: The first such cell.
            comma: Whether the column has decimal commas.
            several: Whether other columns have such cells too.
        """
        if cell.lower().lstrip("+-") in INFINITE:
            return self._infinite(name)
        if (sign := SIGN.search(cell)) and re.search("[0-9]", cell):
            found = THOUSANDS.search(cell)
            thousands = " and the separators of thousands" * bool(found)
            # A comma that separates no thousands is a decimal comma.
            marks = ("$€£" if sign[0] in "$€£" else sign[0]) + (found[1] if found else "")
            how = f"{quoted(sign[0])}{thousands}{self._replaced(name, f'[{marks}]', '')}"
            return f"Remove the sign {how}; or, {self.category(name)}"
        if separated := SEPARATED.match(cell):
            how = self._replaced(
                name, r"\s" if separated[1][0].isspace() else f"[{separated[1][0]}]", ""
            )
            return f"Remove the separators of thousands{how}; or, {self.category(name)}"
        if measured := MEASURED.match(cell):
            how = self._replaced(name, re.escape(measured["unit"]), "")
            return f"Remove the unit {quoted(measured['unit'])}{how}; or, {self.category(name)}"
        if cell.startswith(MINUS):
            return f"Write the minus sign as '-'{self._replaced(name, MINUS, '-')}."
        return self._other(name, comma=comma, several=several)

    def unread(self, name: str) -> str:
        """What to do about a column of a type that is not read."""
        del name
        return "Convert the column, or drop it with ignore= (--ignore on the command line)."

    def not_a_date(self, name: str) -> str:
        """What to do about a cell of a column of dates or times."""
        return f"Correct or empty the cell; or, {self.category(name)}"

    def group(self, name: str) -> str:
        """How to hold out the rows of a group together, and how to drop their column."""
        name = shlex.quote(name)
        return (
            f"hold them out together: dessl fit --group {name} (groups= in Python). If it is of no "
            f"use, pass --ignore {name} (ignore= in Python)."
        )

    def far_marks(self, marks: Sequence[str]) -> str:
        """What to do about numbers far from all others, some of which may mark missing cells."""
        if not marks:
            return "Correct such cells, or empty them."
        options = " ".join(f"--missing={shlex.quote(mark)}" for mark in marks[:SHOWN])
        return f"If it marks missing cells, pass {options} (missing= in Python)."

    def dropped(self, left_out: Mapping[str, str]) -> str:
        """How to silence the warning about dropped columns, and how to keep one.

        >>> Advice().dropped({"id": "constant"})
        'Pass --ignore id (ignore= in Python) to silence this.'
        """
        options = " ".join(f"--ignore {shlex.quote(name)}" for name in list(left_out)[:SHOWN])
        more = " ..." * (len(left_out) > SHOWN)
        keep = how_to_keep(left_out.values())
        return f"Pass {options}{more} (ignore= in Python) to silence this.{keep}"

    def _infinite(self, name: str) -> str:
        del name
        return "Replace infinity by a number, or empty the cell."

    def _replaced(self, name: str, pattern: str, by: str) -> str:
        del name, pattern
        return " in all cells of the column" if by else " from all cells of the column"

    def _other(self, name: str, *, comma: bool, several: bool) -> str:
        del comma
        return (
            f"Correct or empty the cell{'s' * several}; or, {self.category(name)} If it marks "
            "missing cells, name it in missing= (--missing MARK)."
        )


@dataclass(frozen=True)
class FrameAdvice(Advice):
    """The same about a data frame X, in words: each of Polars, PyArrow and others has its code."""

    @property
    def columns(self) -> str:
        """What to do about columns of any kind."""
        return "Drop such a column from the data frame, or cast it to a categorical type."

    def category(self, name: str) -> str:
        """How to make a column one of categories; the end of a sentence."""
        del name  # the error has it
        how = "train again with it cast" if self.fitted else "cast it"
        return f"if the column has categories, {how} to a categorical type."

    def unread(self, name: str) -> str:
        """What to do about a column of a type that is not read."""
        del name
        return "Convert the column, or drop it from the data frame."

    def not_a_date(self, name: str) -> str:
        """What to do about a cell of a column of dates or times."""
        return f"Correct the cell, or replace it by null; or, {self.category(name)}"

    def group(self, name: str) -> str:
        """How to hold out the rows of a group together, and how to drop their column."""
        del name
        return (
            "hold them out together: drop the column from X and pass it to fit as groups=. If it "
            "is of no use, drop it."
        )

    def identifiers(self, names: Sequence[object]) -> str:
        """How to drop columns that may only tell the rows apart."""
        return f"drop {'them' if len(names) > 1 else 'it'} from X"

    def far_marks(self, marks: Sequence[str]) -> str:
        """What to do about numbers far from all others, some of which may mark missing cells."""
        if not marks:
            return "Correct such cells, or replace them by null."
        return f"If it marks missing cells, replace {', '.join(marks[:SHOWN])} by null."

    def dropped(self, left_out: Mapping[str, str]) -> str:
        """How to silence the warning about dropped columns, and how to keep one."""
        return f"Drop them from the data frame to silence this.{how_to_keep(left_out.values())}"

    def _infinite(self, name: str) -> str:
        del name
        return "Replace infinity by a number or null."

    def _other(self, name: str, *, comma: bool, several: bool) -> str:
        del comma
        return (
            f"Correct the cell{'s' * several}, or replace what is not a number by null; or, "
            f"{self.category(name)}"
        )


@dataclass(frozen=True)
class PandasAdvice(FrameAdvice):
    """The same about a data frame of pandas, in code."""

    @property
    def columns(self) -> str:
        """What to do about columns of any kind."""
        return (
            "In a data frame, drop a column with X.drop(columns=NAME), or make it a category with "
            "X.astype({NAME: 'category'})."
        )

    def category(self, name: str) -> str:
        """How to make a column one of categories; the end of a sentence."""
        how = "train again with" if self.fitted else "pass"
        column = f"X[{name!r}].astype('string').astype('category')"
        return f"if the column has categories, {how} {column}."

    def unread(self, name: str) -> str:
        """What to do about a column of a type that is not read."""
        return f"Convert the column, or drop it with X.drop(columns={name!r})."

    def not_a_date(self, name: str) -> str:
        """What to do about a cell of a column of dates or times."""
        return f"Correct the cell, or replace it by None; or, {self.category(name)}"

    def group(self, name: str) -> str:
        """How to hold out the rows of a group together, and how to drop their column."""
        return (
            f"hold them out together: fit(X.drop(columns={name!r}), y, groups=X[{name!r}]). If it "
            f"is of no use, pass X.drop(columns={name!r})."
        )

    def identifiers(self, names: Sequence[object]) -> str:
        """How to drop columns that may only tell the rows apart."""
        return f"pass X.drop(columns={list(names[:SHOWN])})"

    def far_marks(self, marks: Sequence[str]) -> str:
        """What to do about numbers far from all others, some of which may mark missing cells."""
        if not marks:
            return "Correct such cells, or replace them by NaN."
        return f"If it marks missing cells, pass X.replace([{', '.join(marks[:SHOWN])}], np.nan)."

    def _infinite(self, name: str) -> str:
        column = f"X[{name!r}].replace([np.inf, -np.inf], np.nan)"
        return f"Replace infinity by a number or NaN: {column}."

    def _replaced(self, name: str, pattern: str, by: str) -> str:
        return f": X[{name!r}].astype('string').str.replace({pattern!r}, {by!r}, regex=True)"

    def _other(self, name: str, *, comma: bool, several: bool) -> str:
        # With decimal commas, pandas would take no cell for a number.
        coerced = "" if comma else f": pd.to_numeric(X[{name!r}], errors='coerce')"
        return (
            f"Correct the cell{'s' * several}, or replace what is not a number by NaN{coerced}; "
            f"or, {self.category(name)}"
        )
