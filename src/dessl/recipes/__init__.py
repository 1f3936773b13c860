"""Recipes: good defaults that turn a data set into a classifier checked on held-out labels."""

from dessl.recipes.defaults import recipe_for
from dessl.recipes.fit import fit
from dessl.recipes.fitted import Fitted
from dessl.recipes.predictor import PooledPredictor, Predictor, TaughtPredictor
from dessl.recipes.recipe import Recipe

__all__ = [
    "Fitted",
    "PooledPredictor",
    "Predictor",
    "Recipe",
    "TaughtPredictor",
    "fit",
    "recipe_for",
]
