"""`trf explain`: what each word contributed, drawn as bars."""

import sys

from trflm.cli.options import Model, Text, Threads, set_up

BAR_WIDTH = 24


def explain(model: Model, text: Text = "-", *, threads: Threads = 0) -> None:
    """Show what each word added to the score of its sentence.

    For a random field the bars are what each position adds to phi, against the mean of the sentence: a bar to the left
    marks a place the model dislikes. For an n-gram or LSTM they are log p(word | words before).
    """
    set_up(threads)
    from trflm.experiment.store import load_model
    from trflm.text import read_corpus

    lm = load_model(model)
    explanation = lm.explain(read_corpus(text, lm.vocab).sentences.long())
    batch = explanation.batch
    lengths = batch.lengths_B.tolist()
    width = max((len(word) for word in (lm.vocab.words[i] for i in batch.ids_N.unique().tolist())), default=0)
    for b, (ids, values) in enumerate(zip(batch.ids_N.split(lengths), explanation.word_N.split(lengths), strict=True)):
        if b:
            print()
        rest = float(explanation.rest_B[b])
        print(f"log p = {float(values.sum()) + rest:.4f}   ({float(values.sum()):.4f} from {len(ids)} words, {rest:.4f} rest)")
        mean = float(values.mean())
        most = max(float((values - mean).abs().max()), 1e-12)
        for number, value in zip(ids.tolist(), values.tolist(), strict=True):
            print(f"  {lm.vocab.words[number]:<{width}}  {value:>10.4f}  {bar((value - mean) / most)}")
    sys.stdout.flush()


def bar(size: float) -> str:
    """size in [-1, 1] as a bar to the left or right of a middle line."""
    filled = round(abs(size) * BAR_WIDTH)
    left = ("█" * filled if size < 0 else "").rjust(BAR_WIDTH)
    return f"{left}│{'█' * filled if size > 0 else ''}"
