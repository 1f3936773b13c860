"""The training engine: from a model, a surrogate, data and a plan to a trained model."""

from dessl.training.plan import TrainPlan

__all__ = ["TrainPlan"]
