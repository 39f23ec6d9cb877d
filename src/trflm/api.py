"""What `import trflm` offers beyond the classes themselves: the steps of the command line as functions."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trflm.deploy.directory import short_names
from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.nbest import NBest
from trflm.evaluation.second_pass.combine import score_table
from trflm.evaluation.second_pass.lists import ListSet
from trflm.evaluation.second_pass.results import tune_weights
from trflm.evaluation.transcripts import match_utterances, read_transcripts
from trflm.evaluation.wer import WordErrors, word_error_rate
from trflm.experiment.progress import progress
from trflm.experiment.recipe import read_recipe
from trflm.experiment.run import run_recipe
from trflm.experiment.store import load_model
from trflm.language_model import LanguageModel
from trflm.ranges import Weight, bounded
from trflm.text.mapping import parse_mapping

Transcripts = Mapping[str, str] | Path | str


@bounded
def tune(
    nbest: NBest,
    references: Transcripts,
    lms: Sequence[LanguageModel | Path | str] | LanguageModel | Path | str,
    *,
    mapping: str = "none",
    oov_penalty: Weight | None = None,
) -> Rescorer:
    """Find the weights of fewest word errors on a development set.

        r = trflm.tune(trflm.read_nbest("dev.txt", acoustic="dev.ac"), "dev.ref", [lm], mapping="ptb")
        r.save("second-pass")

    Args:
        nbest: What `read_nbest` returned.
        references: What was said: utterance -> words, or a file of lines `UTT word word ...`.
        lms: A model, or several: from `trflm.load`, or their paths.
        mapping: How the recogniser's words become the models' words: none, ptb, or steps such as "lower,clitics".
        oov_penalty: Fix the penalty of a word unknown to a model (natural log) instead of tuning it.
    """
    given = list(lms) if isinstance(lms, Sequence) and not isinstance(lms, str) else [lms]
    loaded = [load_model(lm) if isinstance(lm, Path | str) else lm for lm in given]
    names = short_names([str(lm.origin.path or f"lm{number}") for number, lm in enumerate(loaded, 1)])
    models = dict(zip(names, loaded, strict=True))
    said = references if isinstance(references, Mapping) else read_transcripts(references)
    match_utterances(nbest.utterances, said, "the lists", "the references")
    lists = ListSet(nbest, parse_mapping(mapping), said)
    found = tune_weights(score_table(lists, models), lists, models, mapping, oov_penalty)
    made = Rescorer.of(models, found.weights, mapping)
    made.tuned = found
    return made


def train(
    recipe: Path | str, out: Path | str, *, overrides: Iterable[str] = (), resume: bool = False, quiet: bool = False
) -> LanguageModel:
    """Train the model of a recipe into directory `out`, as `trf train` does, and load it.

    Args:
        recipe: A TOML file, or the name of a recipe that comes with trflm: "tiny", "ptb/kn5".
        out: The directory of the run.
        overrides: Values in the place of the recipe's: ["learner.batch=200", "data.train=text.txt"].
        resume: Go on from the last checkpoint in `out`; start if there is none.
        quiet: Show no progress on stderr.
    """
    run_recipe(read_recipe(recipe, overrides), Path(out), resume, progress(quiet))
    return load_model(out)


def word_errors(hyp: Transcripts, ref: Transcripts) -> WordErrors:
    """How recognised text differs from what was said: `.rate` is the word error rate, 0.2 for 20 %.

    Args:
        hyp: Recognised text: utterance -> words, or a file of lines `UTT word word ...`.
        ref: What was said, in the same way.
    """
    hypotheses, references = (of if isinstance(of, Mapping) else read_transcripts(of) for of in (hyp, ref))
    return word_error_rate(hypotheses, references)
