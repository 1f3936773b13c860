"""Columns of free text: tf-idf as scikit-learn has it, what is recognised, saved and long texts."""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_union

from dessl.data.errors import DataError
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.texts import tf_idf

SUBJECTS = ["the patient", "my neighbour", "a nurse", "this doctor", "her son"]
ACTS = ["coughs loudly", "sleeps badly", "walks slowly", "eats nothing", "is Müde"]
TIMES = ["at night", "every morning", "since Tuesday", "for weeks"]


def notes(n: int = 80, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed).choice
    return [f"{draw(SUBJECTS)} {draw(ACTS)} {draw(TIMES)} no {k}" for k in range(n)]


def written(path: Path, cells: list[str]) -> Path:
    label = np.where(np.arange(len(cells)) % 2 == 0, "ill", "well")
    frame = pd.DataFrame({"note": cells, "n": np.arange(len(cells)) % 7, "y": label})
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def test_weights_are_those_of_scikit_learn() -> None:
    texts = [note.lower() for note in notes()]
    union = make_union(
        TfidfVectorizer(token_pattern=r"\w+"),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 4)),
    )
    expected = union.fit_transform(texts).toarray()
    (_, by_word), (_, by_letters) = union.transformer_list
    words, letters = (one.get_feature_names_out().tolist() for one in (by_word, by_letters))
    found = tf_idf(notes(), words, letters, np.concatenate([by_word.idf_, by_letters.idf_]))
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-6)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_texts_become_their_leading_directions(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a{suffix}", notes())
    data, encoding = read_table(path, label="y")
    column = encoding.columns[0]
    rows = tf_idf(notes(), column.words, column.letters, column.rarity)
    reference = TruncatedSVD(48, algorithm="arpack", random_state=0).fit_transform(rows)
    assert data.feature_names[:2] == ("note: text 1", "note: text 2")
    np.testing.assert_allclose(data.x[:, :20].abs(), np.abs(reference[:, :20]), atol=1e-4)
    assert {"coughs", "müde"} <= set(column.words)
    assert " co" in column.letters

    again = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    assert again == encoding
    np.testing.assert_array_equal(read_new_table(path, again).x, data.x)
    other, other_encoding = read_table(path, label="y")
    assert other_encoding == encoding  # the same bits each time
    np.testing.assert_array_equal(other.x, data.x)


def test_a_new_text_lies_near_those_that_say_the_same(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", notes()), label="y")
    cells = [
        "A NURSE coughs, loudly; at night!",
        "a nurse coughs at nights",
        "her son eats nothing",
    ]
    x = read_new_table(written(tmp_path / "b.csv", [*cells, "xyz 0123"]), encoding).x[:, :-1]
    x = x / x.norm(dim=1, keepdim=True).clamp(min=1e-9)
    assert x[0] @ x[1] > 0.8 > 0.4 > x[0] @ x[2]


def test_classes_can_be_learnt_from_texts_alone(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", notes()), label="y")
    later = notes(60, seed=1)
    shown = read_new_table(tmp_path / "a.csv", encoding).x[:, :-1]
    asked = read_new_table(written(tmp_path / "b.csv", later), encoding).x[:, :-1]
    ill = [["coughs" in note or "eats" in note for note in some] for some in (notes(), later)]
    judge = LogisticRegression(C=100).fit(shown, ill[0])
    assert judge.score(asked, ill[1]) > 0.95


def test_gaps_are_marked(tmp_path: Path) -> None:
    cells = ["" if k % 9 == 4 else note for k, note in enumerate(notes())]
    data, encoding = read_table(written(tmp_path / "a.csv", cells), label="y")
    place = encoding.feature_names.index("note is missing")
    assert data.x[:, place].tolist() == [k % 9 == 4 for k in range(80)]
    assert not data.x[4, :place].any()


def test_a_later_column_without_texts_may_be_stored_as_numbers(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", ["", *notes()]), label="y")
    empty = read_new_table(written(tmp_path / "b.csv", ["", "", ""]), encoding)
    path = written(tmp_path / "c.parquet", ["", "", ""])
    pd.read_parquet(path).assign(note=np.nan).to_parquet(path)
    assert np.array_equal(read_new_table(path, encoding).x, empty.x)


def test_names_and_numbers_of_things_are_not_text(tmp_path: Path) -> None:
    for cells in ([f"Anna Berg{k}" for k in range(40)], [f"A-{k}-{k * k}x" for k in range(40)]):
        with pytest.warns(UserWarning, match="dropped 'note': nearly every value is unique"):
            read_table(written(tmp_path / "a.csv", cells), label="y")
    few = [f"{note} and more words" for note in SUBJECTS * 8]
    _, encoding = read_table(written(tmp_path / "a.csv", few), label="y")
    assert "note=a nurse and more words" in encoding.feature_names
    _, encoding = read_table(written(tmp_path / "a.csv", notes()), label="y", categorical=["note"])
    assert len(encoding.columns[0].categories) == 64
    strange = [" ".join(chr(0x4E00 + 9 * k + j) for j in range(3)) for k in range(40)]
    with pytest.warns(UserWarning, match="dropped 'note': its texts have nothing in common"):
        read_table(written(tmp_path / "a.csv", strange), label="y")


def test_texts_of_a_million_characters_are_cut(tmp_path: Path) -> None:
    cells = notes(30)
    cells[3] = "word " * 200_000
    cells[5] = "x" * 10**6
    started = time.process_time()
    data, encoding = read_table(written(tmp_path / "a.csv", cells), label="y")
    read_new_table(tmp_path / "a.csv", encoding)
    assert time.process_time() - started < 20
    assert len(json.dumps(encoding.as_dict())) < 3_000_000
    assert np.isfinite(data.x.numpy()).all()


@pytest.mark.parametrize(
    "damage",
    [
        {"rarity": ""},
        {"rarity": "AAAA"},
        {"rarity": "ä"},
        {"rarity": 3},
        {"directions": ""},
        {"words": []},
        {"words": [1]},
        {"more": 1},
        {"indicator": 1},
    ],
)
def test_damaged_entries_are_refused(tmp_path: Path, damage: dict) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", notes(30)), label="y")
    entries = json.loads(json.dumps(encoding.as_dict()))
    entries["columns"][0] |= damage
    with pytest.raises(DataError, match="a table encoding of version 1"):
        TableEncoding.from_dict(entries)
