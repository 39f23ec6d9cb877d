"""A run without steps: an n-gram model is estimated from its text at once, and leaves the same files as any other run."""

import os
import time
import warnings
from pathlib import Path

import torch

from trflm.errors import InputError
from trflm.evaluation.perplexity import as_perplexity, perplexity
from trflm.experiment.directory import RunDirectory, locked
from trflm.experiment.progress import Progress
from trflm.experiment.recipe import NGramRecipe
from trflm.experiment.store import save_model
from trflm.learning.loop import Metrics, Moment
from trflm.lms.ngram import NGram, kneser_ney
from trflm.speed.workers import started_together
from trflm.text import Text


def estimate_ngram(recipe: NGramRecipe, out: Path, resume: bool, progress: Progress) -> None:
    """Estimate the model of a recipe into directory `out`; with `resume`, unless it is there already."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and started_together():
        raise InputError("an n-gram model is estimated at once, by one process: trf train, without torchrun")
    if recipe.run.threads:
        torch.set_num_threads(recipe.run.threads)
    data = recipe.data.read()
    with locked(out, resume), RunDirectory(out, recipe, data) as run, progress:
        if run.model.exists():
            run.log(f"finished before; the model is in {out}", progress)
            return
        started = time.monotonic()
        for corpus in (data.train, data.dev):
            if corpus is not None:
                run.log(corpus.summary(), progress)
        with warnings.catch_warnings(record=True, action="always") as caught:
            ngram = kneser_ney(data.train.sentences, data.vocab, recipe.model)
        for warning in caught:
            run.log(f"warning: {warning.message}", progress)
        metrics: Metrics = {"train_perplexity": perplexity_of(ngram, data.train.sentences)}
        dev = {"dev_perplexity": perplexity(ngram, data.dev.sentences).perplexity} if data.dev else None
        run.metrics.truncate(0)
        run.record(Moment(1, 1, 1.0, metrics, dev), time.monotonic() - started)
        save_model(run.model, ngram)
        shown = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in {**metrics, **(dev or {})}.items())
        run.log(f"{ngram.n_parameters():,} n-grams of up to {recipe.model.order} words; {shown}", progress)
        run.log(f"finished; the model is in {out}", progress)


def perplexity_of(ngram: NGram, text: Text) -> float:
    """Of a text that need not fit in memory, the ends of sentences counted."""
    log_prob = sum(float(ngram.log_prob(part).double().sum()) for part in text.parts())
    return as_perplexity(log_prob, text.n_words + len(text))
