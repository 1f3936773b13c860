"""Figures, caught as they are drawn."""

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn while a test runs."""
    figures: list[Figure] = []
    save = Figure.savefig

    def saved(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        save(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    return figures
