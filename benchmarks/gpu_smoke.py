"""Whether all is well on a GPU, in five minutes: every number is computed there and on the CPU and compared.

    python benchmarks/gpu_smoke.py [--device cuda]

Trains a few steps of every learner and scores sentences with every kind of model, on the device and on the CPU from the same
start with the same random numbers (which are drawn on the CPU). With `--device cpu`, the default, the second side is the CPU
without its compiled loops: the same torch operations as on a GPU. Prints the greatest difference of each, and `all is well`.
"""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from trflm.experiment.recipe import FieldRecipe, LSTMRecipe, parse_recipe
from trflm.learning.loop import Learner
from trflm.seeds import generator
from trflm.speed import compiled
from trflm.speed.devices import check_device
from trflm.text import Batch

SIZES = {"embedding": 32, "projection": 32, "bank_width": 4, "bank_filters": 32, "stack_layers": 2, "stack_filters": 32}
CNN = {"kind": "cnn", **SIZES}
BLSTM = {"kind": "blstm", "embedding": 32, "units": 32}
CNN_BLSTM = {"kind": "cnn-blstm"}
LSTM = {"kind": "lstm", "embedding": 32, "hidden": 32, "layers": 2}
PROPOSAL = {"units": 32, "classes": 10}
CASES: dict[str, dict[str, Any]] = {
    "augsa, CNN": {"model": CNN, "proposal": PROPOSAL, "learner": {"kind": "augsa", "batch": 40, "chains": 16}},
    "nce, CNN on a bigram": {
        "model": CNN,
        "reference": {"order": 2},
        "learner": {"kind": "nce", "batch": 40, "replacements": 2},
    },
    "dnce, BLSTM": {"model": BLSTM, "proposal": PROPOSAL, "learner": {"kind": "dnce", "batch": 40}},
    "word-nce, BLSTM": {"model": BLSTM, "learner": {"kind": "word-nce", "batch": 40, "noise_words": 50}},
    "cloze, CNN": {"model": CNN, "reference": {"order": 1}, "learner": {"kind": "cloze", "batch": 40}},
    "word-choice, discrete": {"model": {"kind": "discrete", "classes": 5}, "learner": {"kind": "word-choice", "batch": 40}},
    "sgd, LSTM": {"model": LSTM, "learner": {"kind": "sgd", "streams": 8, "window": 10}},
}
TOLERANCE = 1e-3  # of a number, in proportion to 1 + its size: sums of float32 in another order, over the steps
STEPS = 3


def text(path: Path) -> None:
    """Some made-up sentences over 200 words."""
    rng = torch.Generator().manual_seed(0)
    lines = []
    for length in torch.randint(2, 15, (400,), generator=rng).tolist():
        words = (torch.rand(length, generator=rng) ** 3 * 200).long().tolist()
        lines.append(" ".join(f"w{word}" for word in words))
    path.write_text("\n".join(lines) + "\n")


def run(sections: dict[str, Any], path: Path, device: str) -> dict[str, list[float]]:
    """Steps of a learner: its metrics, its dev metrics, scores of the model."""
    recipe = parse_recipe(
        {"data": {"train": str(path), "valid": str(path)}, **sections, "run": {"device": device}}, "gpu_smoke.py"
    )
    assert isinstance(recipe, FieldRecipe | LSTMRecipe)
    data = recipe.data.read()
    assert data.dev is not None
    learner: Learner = recipe.build(data, fresh=True)
    numbers: dict[str, list[float]] = {}
    for number in range(STEPS):
        for name, value in learner.step(number, generator(1, "step", number)).items():
            numbers.setdefault(name, []).append(value)
    dev: Batch = data.dev.sentences.long().select(torch.arange(50))
    for name, value in learner.evaluate(dev).items():
        numbers[name] = [value]
    model = learner.model
    lm: Any = getattr(model, "trf", model)
    numbers["log p of sentences"] = lm.log_prob(dev).double().cpu().tolist()
    numbers["what each word adds"] = lm.explain(dev).word_N.double().cpu().tolist()
    return numbers


def difference(one: dict[str, list[float]], other: dict[str, list[float]]) -> tuple[float, str]:
    """The greatest, and of what."""
    assert one.keys() == other.keys()
    greatest = (0.0, "nothing")
    for name in one:
        a, b = torch.tensor(one[name]), torch.tensor(other[name])
        off = float(((a - b).abs() / (1 + a.abs())).max()) if a.shape == b.shape else float("inf")
        greatest = max(greatest, (off if off == off else float("inf"), name))
    return greatest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cuda, cuda:1, mps; cpu compares with itself without compiled loops")
    parsed = parser.parse_args()
    check_device(parsed.device, "--device")
    warnings.filterwarnings("ignore", "the .-grams of this text")
    usable, started, wrong = compiled.usable, time.monotonic(), 0
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "text.txt"
        text(path)
        for name, sections in CASES.items():
            expected = run(sections, path, "cpu")
            if parsed.device == "cpu":
                compiled.usable = lambda tensor: False
            try:
                off, of = difference(expected, run(sections, path, parsed.device))
                verdict = "ok" if off < TOLERANCE else "WRONG"
            except Exception as error:  # all of them are to be tried
                off, of, verdict = float("nan"), f"{type(error).__name__}: {str(error).splitlines()[0]}", "FAILED"
            finally:
                compiled.usable = usable
            wrong += verdict != "ok"
            print(f"{name:24s} {verdict:7s} greatest difference {off:.2g} ({of})", flush=True)
    print(f"{time.monotonic() - started:.0f} s on {parsed.device}")
    print("all is well" if not wrong else f"{wrong} of {len(CASES)} are wrong; please report this output")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
