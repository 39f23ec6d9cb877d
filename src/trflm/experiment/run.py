"""A run of any recipe: trained in steps, or estimated at once."""

from pathlib import Path

from trflm.experiment.estimate import estimate_ngram
from trflm.experiment.progress import Progress
from trflm.experiment.recipe import NGramRecipe, Recipe
from trflm.experiment.train import train


def run_recipe(recipe: Recipe, out: Path, resume: bool, progress: Progress) -> None:
    """Make the model of a recipe in directory `out`; with `resume`, go on from what is there."""
    if isinstance(recipe, NGramRecipe):
        estimate_ngram(recipe, out, resume, progress)
    else:
        train(recipe, out, resume, progress)
