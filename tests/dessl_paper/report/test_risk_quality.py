"""The pictures of the risk's quality."""

import io

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

from dessl.evaluation.risk_quality import risk_over_lambda, variance_ratio_over_lambda
from dessl_paper.report.risk_quality import (
    DEBIASED,
    SSL,
    draw_variance_ratio,
    risk_figure,
    variance_ratio_figure,
)

LAMS = torch.linspace(0, 2, 9)


def population() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    h = torch.rand(200, generator=generator)
    return h + 0.3 * torch.rand(200, generator=generator), h


def drawn_in(png: bytes, colour: str) -> int:
    """How many pixels of the picture have exactly this colour."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
    return int((pixels == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(-1).sum())


def test_both_estimates_are_drawn() -> None:
    png = risk_figure(risk_over_lambda(*population(), LAMS))
    assert drawn_in(png, SSL) > 100
    assert drawn_in(png, DEBIASED) > 100


def test_the_ratio_and_the_best_lambda_are_drawn() -> None:
    result = variance_ratio_over_lambda(*population(), LAMS)
    png = variance_ratio_figure(result, of="gradient")
    assert drawn_in(png, DEBIASED) > 100
    assert drawn_in(png, SSL) > 20  # the star at λ_opt
    assert png != variance_ratio_figure(result._replace(lam=0.1))


def test_no_point_is_cut_by_the_upper_edge() -> None:
    axes = Figure().subplots()
    curves = {"lams": [0, 1, 2], "ratio_theory": [1, 1, 1], "ratio_empirical": [1, None, 1.1]}
    draw_variance_ratio(axes, curves, (0.5, 0.9), of="risk")
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 1.1 * 1.04
