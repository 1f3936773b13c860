"""The rows that an experiment trains and tests on: a public set, part of one, or generated."""

import warnings

import torch
from torch import Tensor

from dessl.data import DataError, SemiData, load, redraw_labels
from dessl.data.catalogue import find
from dessl.data.parts import Part
from dessl.data.publishers import DATASETS
from dessl_paper.specification import DataSetting

NOISE_SEED = 0  # one noisy data set, with one set of test labels, for all splits


def experiment_data(setting: DataSetting, *, curve: str = "validation") -> SemiData:
    """The data of an experiment with every label, on the CPU.

    A publisher's own validation part is not used: its labels are not in the budget.

    Args:
        setting: The data set and its labels.
        curve: ``"test"`` to evaluate on the test part during training.

    Raises:
        DataError: The set cannot be found or downloaded, and may not be generated.
    """
    data = _found(setting)
    x, y, test = data.x, data.y, data.test
    if test is None:
        raise DataError.of(
            setting.name, expected="a test part", got="none", do="Choose another data set."
        )
    if setting.rows:
        some, tested = in_turns(y)[: setting.rows], in_turns(test.y)[: setting.rows]
        x, y, test = x[some], y[some], Part(test.x[tested], test.y[tested])
    if setting.label_noise:
        noise = torch.Generator().manual_seed(NOISE_SEED)
        share, classes = setting.label_noise, data.n_classes
        y = redraw_labels(y, share, classes, generator=noise)
        test = Part(test.x, redraw_labels(test.y, share, classes, generator=noise))
    return SemiData(
        x,
        y,
        class_names=data.class_names,
        validation=test if curve == "test" else None,
        test=test,
        name=data.name,
        layout="NCHW",
    )


def in_turns(y: Tensor) -> Tensor:
    """All row numbers, cycling through the classes, so that the first few contain every class.

    >>> in_turns(torch.tensor([5, 5, 5, 2, 2, -1])).tolist()
    [5, 3, 0, 4, 1, 2]
    """
    by_class = torch.argsort(y, stable=True)
    counts = torch.unique_consecutive(y[by_class], return_counts=True)[1]
    firsts = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    return by_class[torch.argsort(torch.arange(len(y)) - firsts, stable=True)]


def _found(setting: DataSetting) -> SemiData:
    with warnings.catch_warnings():  # the name of a rebuilt set says so
        warnings.filterwarnings("ignore", message=".*not the publisher's file.*")
        if setting.generated and find(setting.name) is None:
            return generated(setting.name, max(setting.rows, 1))
        return load(setting.name)


def generated(name: str, rows: int) -> SemiData:
    """Generated images with the shape of a public set: each class is a pattern with noise.

    >>> generated("mnist", 20)
    SemiData(mnist (generated): 20 images of shape (1, 28, 28), 10 classes: 20 labelled,
        0 unlabelled, 20 test)
    """
    description = DATASETS[name]
    g = torch.Generator().manual_seed(0)
    classes, shape = len(description.class_names), description.shape
    patterns = torch.rand((classes, *shape), generator=g)

    def part() -> tuple[Tensor, Tensor]:
        y = torch.arange(rows) % classes
        noise = torch.rand((rows, *shape), generator=g)
        return (127.5 * (patterns[y] + noise)).to(torch.uint8), y

    x, y = part()
    return SemiData(
        x,
        y,
        class_names=description.class_names,
        test=part(),
        name=f"{name} (generated)",
        layout="NCHW",
    )
