import pytest


@pytest.fixture(scope="module")
def settings(part):
    return part("settings")


def record(interval: str, population: str, coverage: float, width: float) -> dict[str, object]:
    place = {"metric": "brier", "confidence": 0.9, "labels": 50}
    return place | {
        "interval": interval,
        "population": population,
        "coverage": coverage,
        "width": width,
    }


def test_populations_are_averaged_and_the_farthest_is_named(settings) -> None:
    results = [
        record("ours", "a", 0.91, 0.1),
        record("ours", "b", 0.85, 0.4),
        record("Peer", "a", 0.98, 0.2),
        record("Peer", "b", 0.88, 0.2),
    ]
    head, _, row = settings.settings_table(results, "ours", ("Peer", "absent"))
    assert head == "| metric | nominal | m | `ours` | Peer |"
    # √(0.2/0.1 · 0.2/0.4) is 1.
    assert row == "| brier | 90 % | 50 | 88.0 (85.0) | 93.0 (98.0) × 1.000 |"


def test_an_interval_that_a_setting_lacks_leaves_its_place_empty(settings) -> None:
    results = [record("ours", "a", 0.9, 0.1), record("Wilson", "a", 0.9, 0.1) | {"labels": 100}]
    results.append(record("ours", "a", 0.9, 0.1) | {"labels": 100})
    first, second = settings.settings_table(results, "ours", ("Wilson",))[2:]
    assert first.endswith("| 90.0 (90.0) |  |")
    assert second.endswith("| 90.0 (90.0) | 90.0 (90.0) × 1.000 |")
