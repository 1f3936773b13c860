"""The paper's toy example: two overlapping uniform distributions (figure 1, appendix A).

Class 0 is U[0, 3], class 1 is U[1, 10], and both are equally likely, so that p(1|x) is 0 below 1,
(1/9)/(1/9 + 1/3) = 1/4 on [1, 3] and 1 above 3.
"""

import torch
from torch import Tensor

from dessl import _checks
from dessl.data.semi import SemiData

CLASS_0 = (0.0, 3.0)
CLASS_1 = (1.0, 10.0)


def two_uniforms(
    n_labelled: int = 25_000,
    n_unlabelled: int = 25_000,
    *,
    generator: torch.Generator | None = None,
) -> SemiData:
    """Draw points x (n, 1) from the two distributions, the first ``n_labelled`` with their label.

    The points are i.i.d., so the labels are missing completely at random.

    Args:
        n_labelled: Number of labelled points.
        n_unlabelled: Number of unlabelled points.
        generator: Source of the draws; by default seeded with 0.

    >>> two_uniforms(20, 30)
    SemiData(toy: 50 rows of shape (1,), 2 classes: 20 labelled, 30 unlabelled)
    """
    n_l = _checks.whole_number("n_labelled", n_labelled, low=1)
    n = n_l + _checks.whole_number("n_unlabelled", n_unlabelled, low=1)
    source = torch.Generator().manual_seed(0) if generator is None else generator
    y = torch.randint(2, (n,), generator=source, device=source.device)
    place = torch.rand(n, generator=source, device=source.device)
    (low_0, high_0), (low_1, high_1) = CLASS_0, CLASS_1
    x = torch.where(y == 0, low_0 + (high_0 - low_0) * place, low_1 + (high_1 - low_1) * place)
    data = SemiData(x.unsqueeze(1), y, class_names=("0", "1"), name="toy")
    return data.with_labels(torch.arange(n, device=source.device) < n_l)


def two_uniforms_posterior(x: Tensor) -> Tensor:
    """Return the true p(1|x) of each point, in the shape of x.

    >>> two_uniforms_posterior(torch.tensor([0.5, 2.0, 7.0]))
    tensor([0.0000, 0.2500, 1.0000])
    """
    (low_0, high_0), (low_1, high_1) = CLASS_0, CLASS_1
    density_0 = ((x >= low_0) & (x < high_0)).to(x.dtype) / (high_0 - low_0)
    density_1 = ((x >= low_1) & (x < high_1)).to(x.dtype) / (high_1 - low_1)
    return density_1 / (density_0 + density_1)
