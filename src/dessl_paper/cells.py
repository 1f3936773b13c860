"""The grid of an experiment: one cell for each data set, method, λ and split."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from dessl.data import LabelDraw, draw_labels
from dessl.data.labels import MISSING
from dessl.training import TrainPlan
from dessl_paper.specification import DataSetting, Experiment, Method


@dataclass(frozen=True)
class Cell:
    """One run: what it is trained on, and how.

    Attributes:
        data: The data set and its labels.
        method: Risk and unlabelled term.
        lam: λ.
        seed: Of the split, the initial weights and the streams; shared by a split's methods.
    """

    data: DataSetting
    method: Method
    lam: float
    seed: int

    @property
    def key(self) -> str:
        """Name of its files.

        >>> method = Method("pl", "PseudoLabel", "ssl", (0.1,))
        >>> Cell(DataSetting("mnist", 1000), method, 0.1, 3).key
        'mnist-1000-pl-lam0.1-seed3'
        """
        labels = "all" if self.method.every_label else self.data.labels
        return f"{self.data.name}-{labels}-{self.method.name}-lam{self.lam:.4g}-seed{self.seed}"

    def plan(self, experiment: Experiment) -> TrainPlan:
        """How it is trained."""
        own = {"lam": self.lam, "risk": self.method.risk, "seed": self.seed}
        return TrainPlan.from_dict({**experiment.plan, **self.method.plan, **own})

    def draw(self, y: Tensor) -> LabelDraw:
        """Which labels it is given: the same for all methods of a split."""
        every = self.method.every_label
        return draw_labels(
            y,
            int((y != MISSING).sum()) if every else self.data.labels,
            how="mcar" if every else self.data.draw,
            n_validation=self.data.validation,
            generator=torch.Generator().manual_seed(self.seed),
        )


def cells_of(experiment: Experiment) -> list[Cell]:
    """Every run of an experiment, the splits of one setting beside each other."""
    cells = [
        Cell(data, method, lam, seed)
        for data in experiment.data
        for method in experiment.methods
        for lam in method.lams
        for seed in range(experiment.seeds)
    ]
    keys = [cell.key for cell in cells]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(
            f"{experiment.name} runs the same name twice ({', '.join(twice[:3])}): their records "
            "would overwrite each other. Let its data differ in labels, and λ in four digits."
        )
    return cells


def populations(experiment: Experiment, cells: list[Cell]) -> Iterator[list[Cell]]:
    """Cells that can be trained at once: of one data set, one term and one plan but for λ, risk."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        shared = (cell.data, cell.method.surrogate, cell.method.plan, cell.method.every_label)
        groups.setdefault(repr(shared), []).append(cell)
    for group in groups.values():
        most = experiment.population or 1
        for first in range(0, len(group), most):
            yield group[first : first + most]


def common_name(cells: list[Cell]) -> str:
    """Name of a folder for some cells: of the one, or of all together."""
    if len(cells) == 1:
        return cells[0].key
    keys = "\n".join(cell.key for cell in cells)
    return f"{len(cells)}-runs-{hashlib.sha256(keys.encode()).hexdigest()[:12]}"
