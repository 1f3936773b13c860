"""Recipes: good defaults that turn a data set into a classifier checked on held-out labels."""

from dessl.recipes.defaults import Recipe, recipe_for
from dessl.recipes.fit import fit
from dessl.recipes.fitted import Fitted
from dessl.recipes.predictor import PooledPredictor, Predictor, TaughtPredictor

__all__ = [
    "Fitted",
    "PooledPredictor",
    "Predictor",
    "Recipe",
    "TaughtPredictor",
    "fit",
    "recipe_for",
]
