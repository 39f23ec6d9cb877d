"""metrics.jsonl of a run, and what each quantity in it means."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trflm.errors import InputError
from trflm.files.parse import parse_json
from trflm.files.reader import read_whole, regular

LOSS = "loss"  # the unit of what a learner makes small: of another learner it is another thing
NOT_CURVES = {"step", "epoch", "seconds", "criterion"}
MOST_METRICS = 1 << 31  # bytes of metrics.jsonl
Row = dict[str, Any]


@dataclass(frozen=True)
class Quantity:
    unit: str
    meaning: str


KNOWN = {
    "loss": Quantity(LOSS, "What training makes small, of one batch after another."),
    "dev_loss": Quantity(LOSS, "What training makes small, of dev text."),
    "replacement_loss": Quantity("nats", "Of telling the text from itself with a word replaced."),
    "accuracy": Quantity("share", "How often text and noise are told apart, in one batch after another."),
    "dev_accuracy": Quantity("share", "How often dev text and noise are told apart."),
    "explained": Quantity("share", "How much of the teacher's scores the field explains; 1 is all."),
    "dev_explained": Quantity("share", "The same of dev text; 1 is all."),
    "dev_choice": Quantity(
        "nats",
        "Mean log probability that the model chooses a word of dev text among others put in its place; 0 is perfect. "
        "It can be compared between learners.",
    ),
    "dev_perplexity": Quantity("perplexity", "Of dev text, sentence ends counted; lower is better."),
    "train_perplexity": Quantity("perplexity", "Of the training text, sentence ends counted."),
    "dev_log_likelihood": Quantity(
        "nats a sentence", "Mean log p of the sentences of dev text, with the log Z that training has estimated so far."
    ),
    "dev_log_likelihood_now": Quantity("nats a sentence", "The same of the field of that moment instead of its running mean."),
    "gradient_norm": Quantity("norm", "Length of the gradient before it is clipped."),
    "lr": Quantity("learning rate", "The size of a step."),
    "kl": Quantity("nats", "Divergence of the field from the proposal that draws its sentences; smaller draws better."),
    "log_q": Quantity("nats", "Mean log q that the noise or proposal gives the sentences it is taught on."),
    "jump_acceptance": Quantity("share", "Proposed changes of length that the chains took."),
    "move_acceptance": Quantity("share", "Proposed blocks of words that the chains took."),
    "length_distance": Quantity("share", "How far the lengths of the chains are from those asked for; 0 is none."),
    "zeta_step": Quantity("nats", "The largest change of zeta, the estimate of log Z by length, in a step."),
    "zeta_drift": Quantity("nats", "The largest change of zeta in an epoch."),
    "log_Z1": Quantity("nats", "log Z of one-word sentences, exact."),
    "autocorrelation": Quantity("steps", "After how many steps a chain has forgotten where it was."),
    "effective_chains": Quantity("chains", "So many independent sentences the chains are worth."),
    "factor": Quantity("factor", "Of the potential, as chooses dev text best."),
    "share": Quantity("share", "Of the reference, as chooses dev text best."),
}


def quantity(name: str) -> Quantity:
    if found := re.fullmatch(r"chains_(\d+)_(\d+)", name):
        return Quantity("share", f"Chains at lengths {found[1]} to {found[2]}, against what is asked for.")
    return KNOWN.get(name, Quantity("value", ""))


def title(name: str) -> str:
    return {"lr": "learning rate", "kl": "KL divergence"}.get(name, name.replace("_", " "))


def read_metrics(path: Path) -> list[Row]:
    """A dict a recorded step."""
    regular(path)
    try:
        lines = read_whole(path, MOST_METRICS).splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            numbers = {name: float(value) for name, value in row.items()}
            rows.append({**numbers, "step": int(row["step"]), "epoch": float(row["epoch"])})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            if number < len(lines):  # the last line may be one that a running training is writing
                raise InputError(f"{path}:{number}: not a line of metrics: {error!r}") from error
    if not rows:
        raise InputError(f"{path}: no step has been recorded yet; let trf train go on for a while")
    return rows
