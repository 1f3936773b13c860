"""Good defaults: from a data set to a trained classifier that is checked on held-out labels."""

from dessl.recipes.defaults import Recipe, recipe_for
from dessl.recipes.fit import Fitted, fit
from dessl.recipes.predictor import PooledPredictor, Predictor

__all__ = ["Fitted", "PooledPredictor", "Predictor", "Recipe", "fit", "recipe_for"]
