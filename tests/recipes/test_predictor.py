"""Networks as one predictor."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dessl.recipes import Predictor


class TestPredictor:
    def test_the_mean_is_of_log_probabilities_of_standardised_rows(self) -> None:
        torch.manual_seed(0)
        members, mean, std = [nn.Linear(3, 4) for _ in range(3)], torch.rand(3), torch.rand(3) + 1
        x = torch.randn(5, 3)
        with torch.no_grad():
            found = Predictor(members, mean, std)(x)
            each = [F.softmax(m((x - mean) / std), dim=1).double().numpy() for m in members]
        product = np.prod(each, axis=0) ** (1 / 3)
        assert np.allclose(found.exp().numpy(), product / product.sum(1, keepdims=True), atol=1e-6)

    def test_nobody_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one member"):
            Predictor([], torch.zeros(()), torch.ones(()))
