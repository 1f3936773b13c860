"""Table: a caption, headings and rows of text, which each format writes in its own way."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Text in rows; the first column names them.

    Attributes:
        caption: What the table shows, one sentence.
        headings: One a column.
        rows: Each as long as the headings.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        """Refuse rows that do not fit."""
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(
                    f"each row must have {len(self.headings)} cells, one a heading; "
                    f"got {len(row)}: {row}."
                )

    def without_empty_columns(self, empty: str) -> "Table":
        """The same without the columns in which every row has the text for nothing.

        >>> Table("t", ("a", "b"), (("x", "–"), ("y", "–"))).without_empty_columns("–").headings
        ('a',)
        """
        kept = [
            column
            for column in range(len(self.headings))
            if column == 0 or any(row[column] != empty for row in self.rows)
        ]
        return Table(
            self.caption,
            tuple(self.headings[column] for column in kept),
            tuple(tuple(row[column] for column in kept) for row in self.rows),
        )
