"""What is said of a bad file."""

import pytest

from dessl.data.errors import LONGEST, DataError, did_you_mean, few


def test_a_message_has_its_four_parts() -> None:
    error = DataError.of("a/y.bin", expected="labels", got="17", do="  Fetch it again.")
    assert str(error) == "a/y.bin: expected labels; got 17. Fetch it again."
    assert isinstance(error, ValueError)


def test_a_long_message_is_cut_but_not_its_advice() -> None:
    long = "w" * 10_000
    said = str(DataError.of("a", expected=long, got=long, do="Do " + "this " * 900))
    assert said.count("w") <= 2 * LONGEST
    assert said.count("this") == 900


@pytest.mark.parametrize(
    ("n", "most", "said"),
    [(0, 8, ""), (2, 2, "e0, e1"), (3, 2, "e0, e1 and 1 more"), (1502, 2, "e0, e1 and 1,500 more")],
)
def test_a_few_of_many(n: int, most: int, said: str) -> None:
    assert few([f"e{k}" for k in range(n)], most=most) == said


def test_a_long_entry_is_shortened() -> None:
    assert len(few(["y" * 5000, "b"])) < 120
    assert few(["y" * 5000, "b"]).endswith(", b")


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("OUT COME", ("age", "outcome"), "Did you mean 'outcome'?"),
        ("outcom", ("Out Come", "age"), "Did you mean 'Out Come'?"),
        ("x", (), ""),
        ("colour", ("age", "town"), ""),
    ],
)
def test_a_slip_is_guessed(word: str, known: tuple[str, ...], said: str) -> None:
    assert did_you_mean(word, known) == said
