"""A column of free text as features: words and runs of letters, weighted by how rare they are.

    z = tf-idf(words, letters) · V,   V the leading right singular vectors over all rows

Learnt from all rows, labelled or not, without any download (latent semantic analysis).
"""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.formats.cells import Column
from dessl.data.formats.columns import MAX_CATEGORIES, ColumnFeatures, as_text
from dessl.data.formats.tables import Table

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_TERMS = 4_000  # words, and as many runs of letters
DIRECTIONS = 48
LETTERS = (3, 4)  # in a run
LONGEST = 4_000  # characters of a cell that are read
ROWS = 10_000  # used to learn
AT_ONCE = 4_096  # texts counted at once
MIN_WORDS = 3
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class TextColumn:
    """The position of a text along the directions in which texts differ most.

    Attributes:
        name: Name of the column.
        words: Known words, in lower case.
        letters: Known runs of letters, with a space at the edges of a word.
        rarity: (terms,) the weight of each word and run: ln((1 + n) / (1 + texts with it)) + 1.
        directions: (terms, k).
        indicator: Whether a last feature says that the cell was empty.
    """

    name: str
    words: tuple[str, ...]
    letters: tuple[str, ...]
    rarity: NDArray[np.float32]
    directions: NDArray[np.float32]
    indicator: bool

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each feature the column becomes."""
        names = tuple(f"{self.name}: text {k}" for k in range(1, self.directions.shape[1] + 1))
        return (*names, f"{self.name} is missing") if self.indicator else names

    def features(self, table: Table) -> ColumnFeatures:
        """(n, directions, and one more with an indicator); an empty cell is all zeros."""
        column = table.columns[self.name]
        texts, codes = _texts(column)
        z = np.zeros((len(texts), self.directions.shape[1]), np.float32)
        for rows in _blocks(len(texts)):
            z[rows] = tf_idf(texts[rows], self.words, self.letters, self.rarity) @ self.directions
        missing = np.array([not text for text in texts])[codes]
        if self.indicator:
            return ColumnFeatures(np.column_stack([z[codes], missing]), 0)
        return ColumnFeatures(z[codes], int(missing.sum()))

    def as_dict(self) -> dict[str, Any]:
        """The column as JSON can represent it; arrays are base64 of little-endian float32."""
        arrays = {"rarity": self.rarity, "directions": self.directions}
        return {
            "name": self.name,
            "words": list(self.words),
            "letters": list(self.letters),
            "indicator": self.indicator,
        } | {
            key: base64.b64encode(array.astype("<f4").tobytes()).decode()
            for key, array in arrays.items()
        }

    @classmethod
    def from_dict(cls, entries: dict[str, Any]) -> "TextColumn":
        """Rebuild from the result of :meth:`as_dict`.

        Raises:
            ValueError: The arrays do not match the words.
        """
        words, letters = tuple(entries["words"]), tuple(entries["letters"])
        terms = len(words) + len(letters)
        rarity, directions = (_array(entries[key]) for key in ("rarity", "directions"))
        if not all(isinstance(term, str) for term in (*words, *letters)):
            raise TypeError("a word that is not text")
        if not terms or len(rarity) != terms or not len(directions) or len(directions) % terms:
            raise ValueError(f"{len(rarity)} and {len(directions)} numbers for {terms} words")
        found = cls(entries["name"], words, letters, rarity, directions.reshape(terms, -1),
                    entries["indicator"])  # fmt: skip
        if set(entries) != set(found.as_dict()):
            raise ValueError(f"the entries {', '.join(map(str, entries))} of a text column")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextColumn) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.words, self.letters))


def is_free_text(column: Column) -> bool:
    """Whether a column has texts to read: too many for categories, most of three words or more."""
    texts, _ = _texts(column)
    full = [text for text in texts if text]
    if len(full) <= max(10, min(MAX_CATEGORIES, len(column) // 2)):
        return False
    return bool(np.mean([len(text.split(maxsplit=MIN_WORDS)) >= MIN_WORDS for text in full]) > 0.5)


def fitted_text(column: Column) -> TextColumn | None:
    """The column as text; None if no two cells share a word or a run of letters.

    It is learnt from at most 10,000 evenly spaced rows.
    """
    texts, codes = _texts(column)
    codes = codes[:: -(-len(codes) // ROWS)]
    shown = [texts[code] for code in codes if texts[code]]
    in_texts = _texts_with(shown)
    words, letters = (_most_frequent(counts) for counts in in_texts)
    if not words and not letters:
        return None
    counts = [in_texts[0][word] for word in words] + [in_texts[1][run] for run in letters]
    rarity = (np.log((1 + len(shown)) / (1 + np.array(counts))) + 1).astype(np.float32)
    directions = _leading(tf_idf(shown, words, letters, rarity))
    empty = any(not text for text in texts)
    return TextColumn(column.name, words, letters, rarity, directions, empty)


def tf_idf(
    texts: Sequence[str], words: Sequence[str], letters: Sequence[str], rarity: NDArray[Any]
) -> "csr_array":
    """Counts times rarity (texts, terms), the words and the letters of a text each of length 1."""
    from scipy.sparse import csr_array, diags_array, hstack

    places = {word: k for k, word in enumerate(words)}
    runs = {run: len(words) + k for k, run in enumerate(letters)}
    known: dict[str, list[int]] = {}  # the terms of a word
    indices: list[int] = []
    ends = [0]
    for text in texts:
        for word in WORD.findall(text.lower()):
            if word not in known:
                terms = [places.get(word), *(runs.get(run) for run in _runs(word))]
                known[word] = [term for term in terms if term is not None]
            indices += known[word]
        ends.append(len(indices))
    shape = (len(texts), len(rarity))
    counts = csr_array((np.ones(len(indices), np.float32), indices, ends), shape)
    counts.sum_duplicates()
    terms = counts @ diags_array(rarity)
    parts = [terms[:, : len(words)], terms[:, len(words) :]]
    sizes = [np.sqrt(part.multiply(part).sum(1)) for part in parts]
    return csr_array(
        hstack(
            [
                diags_array(1 / np.where(size > 0, size, 1)) @ part
                for part, size in zip(parts, sizes, strict=True)
            ]
        )
    )


def _runs(word: str) -> list[str]:
    """The runs of letters in a word, with a space at each edge.

    >>> _runs("not")
    [' no', 'not', 'ot ', ' not', 'not ']
    """
    padded = f" {word} "
    return [padded[k : k + n] for n in LETTERS for k in range(len(padded) - n + 1)]


def _texts_with(texts: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """Number of texts with each word, and with each run of letters."""
    words: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for text in texts:
        found = set(WORD.findall(text.lower()))
        words.update(found)
        letters.update({run for word in found for run in _runs(word)})
    return words, letters


def _most_frequent(counts: Counter[str]) -> tuple[str, ...]:
    shared = [term for term, count in counts.items() if count > 1]
    return tuple(sorted(sorted(shared, key=lambda term: (-counts[term], term))[:MAX_TERMS]))


def _leading(rows: "csr_array") -> NDArray[np.float32]:
    """(terms, k) right singular vectors of the largest singular values, signs fixed."""
    from scipy.sparse.linalg import svds

    k = min(DIRECTIONS, min(rows.shape) - 1)
    if k < 1:  # one text or one term
        return np.ones((rows.shape[1], 1), np.float32)
    start = np.random.default_rng(0).normal(size=min(rows.shape))
    _, sizes, vectors = svds(rows.astype(np.float64), k=k, v0=start)
    found = vectors[np.argsort(-sizes)][: max(1, int((sizes > 1e-6 * sizes.max()).sum()))]
    largest = found[np.arange(len(found)), np.abs(found).argmax(1)]
    return np.ascontiguousarray((found * np.sign(largest)[:, None]).T, np.float32)


def _array(text: Any) -> NDArray[np.float32]:
    try:
        array = np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    if not np.isfinite(array).all():
        raise ValueError("a number that is not finite")
    return array


def _texts(column: Column) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct texts, shortened if very long, and the position of each row's text among them."""
    if column.numbers is not None:  # of a later table, where all cells may be empty
        column = as_text(column)
    return [text[:LONGEST] for text in column.texts.to_pylist()], column.codes


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + AT_ONCE) for start in range(0, n, AT_ONCE))
