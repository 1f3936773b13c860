"""Labels of classes that a model does not know."""

import pytest

from dessl.data.unknown_classes import UnknownClassesError


def error_of(counts: dict[str, int], names: tuple[str, ...] = ("RT", "SS")) -> UnknownClassesError:
    return UnknownClassesError.of_labels("new.csv", "in column 'species'", counts, names)


def test_the_error_counts_rows_and_does_not_advise_to_remove_labels() -> None:
    found = error_of({"CH": 12, "PL": 1})
    assert "new.csv: expected in column 'species' one of RT, SS; got 'CH' in 12 rows" in str(found)
    assert "'PL' in 1 row. If it is misspelt" in str(found)
    assert "Without these labels the accuracy would be too high" in str(found)
    assert "remove it" not in str(found)
    assert found.counts == {"CH": 12, "PL": 1}
    assert found.likely_classes


@pytest.mark.parametrize("label", ["rt", " SS", "?", "NA", "unknown"])
def test_misspelt_labels_and_marks_are_no_classes(label: str) -> None:
    assert not error_of({"CH": 12, label: 1}).likely_classes


def test_a_mark_may_be_removed_and_a_near_class_is_suggested() -> None:
    assert "If it marks a missing label, remove it." in str(error_of({"?": 3}))
    assert "Did you mean 'virginica'?" in str(error_of({"virginca": 1}, ("virginica", "setosa")))
