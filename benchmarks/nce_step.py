"""Where the time of a step of NCE goes: drawing the noise, and everything else, for the recipes in recipes/ptb.

    ratio noise-share-RECIPE VALUE     seconds of drawing over seconds of the whole step (smaller is better)

Both are measured in the same steps, interleaved recipe by recipe.
"""

import statistics
import time
from pathlib import Path

import torch
from measure import arguments, report, training_text

from trflm.experiment.data import Data
from trflm.experiment.recipe import FieldRecipe, read_recipe
from trflm.learning.dnce import DNCE
from trflm.learning.nce import NCE, POOL
from trflm.seeds import generator
from trflm.text import Corpus, Vocab

RECIPES = ("trf-kn-reference", "trf-dnce", "trf-blstm-dnce")


def main() -> None:
    parsed = arguments(__doc__ or "")
    text, n_words, source = training_text(parsed.data, 3_000 if parsed.quick else 42_068)
    vocab = Vocab(["<unk>", *(f"w{i}" for i in range(1, n_words))])
    data = Data(vocab, Corpus(source, text, 0, 0, 0), None)
    seconds: dict[str, list[float]] = {}
    rounds = 1 if parsed.quick else 2
    for name in RECIPES:
        path = Path(__file__).parents[1] / "recipes" / "ptb" / f"{name}.toml"
        recipe = read_recipe(path, ["run.init=", "model.word2vec=false"])
        assert isinstance(recipe, FieldRecipe)
        learner = recipe.build(data, fresh=True)
        assert isinstance(learner, NCE)
        steps = 8 if parsed.quick and isinstance(learner, DNCE) else rounds * POOL
        drawing, whole = timed(learner, steps)
        seconds[f"{name} draw"], seconds[f"{name} step"] = drawing, whole
    ratios = {
        f"noise-share-{name}": statistics.mean(seconds[f"{name} draw"]) / statistics.mean(seconds[f"{name} step"])
        for name in RECIPES
    }
    report(parsed, {"text": source, "sentences": len(text)}, seconds, ratios)


def timed(learner: NCE, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of drawing, and of the whole, in each of these steps. Fixed noise is drawn once for POOL steps: means count."""
    drawing: list[float] = []
    draw = learner.noise.draw

    def watched(n: int, rng: torch.Generator):
        began = time.perf_counter()
        batch = draw(n, rng)
        drawing[-1] += time.perf_counter() - began
        return batch

    learner.noise.draw = watched  # type: ignore[method-assign]
    whole = []
    first = learner.config.noise_epochs * learner.steps_per_epoch if isinstance(learner, DNCE) else 0
    for number in range(first, first + steps):
        drawing.append(0.0)
        began = time.perf_counter()
        learner.step(number, generator(1, "step", number))
        whole.append(time.perf_counter() - began)
    return drawing, whole


if __name__ == "__main__":
    main()
