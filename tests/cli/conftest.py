"""A small table that several commands read."""

import csv
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 people, the first 60 with a label."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("table") / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("age", "pulse", "sick"))
        for row in range(300):
            age, pulse = generator.normal(50, 10), generator.normal(70, 8)
            sick = "yes" if age + generator.normal(0, 5) > 50 else "no"
            writer.writerow((f"{age:.3f}", f"{pulse:.3f}", sick if row < 60 else ""))
    return path
