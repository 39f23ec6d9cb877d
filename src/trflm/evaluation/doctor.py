"""Say what is wrong with n-best lists for a model before it costs anything, and which command line to use.

Only the first lists are looked at; a share that is wrong there is wrong everywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from trflm.evaluation.alignment import word_errors
from trflm.evaluation.nbest import ACOUSTIC, NBestList
from trflm.language_model import LanguageModel
from trflm.text.mapping import TextMapping, apply, parse_mapping

LOOKED_AT = 500  # lists
LOUD = 0.2  # share of unknown words above which nothing good can come
TRIED = ("none", "lower", "clitics", "lower,clitics", "lower,clitics,initials", "ptb")  # mappings, the simplest first
CLEARLY = 0.01  # a mapping is proposed if it leaves fewer unknown words by this share


@dataclass(frozen=True)
class Advice:
    """Something that looks wrong, and the flag that would mend it, if one would."""

    message: str
    flag: str | None = None
    loud: bool = False


@dataclass
class Examination:
    """What was seen."""

    utterances: int = 0
    hypotheses: int = 0
    oov: dict[str, float] = field(default_factory=dict)  # model -> share of unknown words, as the mapping has it now
    advice: list[Advice] = field(default_factory=list)


def examine(
    lists: Iterable[NBestList],
    models: Mapping[str, LanguageModel],
    references: Mapping[str, str] | None = None,
    mapping: str = "none",
    costs: bool = False,
    steps: TextMapping | None = None,
) -> Examination:
    """`mapping` and `costs` are as the command line has them: what is set already is never proposed. `steps` is the mapping, if
    it has been read already."""
    steps = parse_mapping(mapping) if steps is None else steps
    some = list(islice(lists, LOOKED_AT))
    found = Examination(len(some), sum(map(len, some)))
    texts = [text for nbest in some for text in nbest.texts]
    if not texts:
        return found
    found.advice += _units(texts, references)
    for name, lm in models.items():
        found.oov[name], advice = _unknown(name, lm, texts, mapping, steps)
        found.advice += advice
        found.advice += [Advice(f"{name}: {caution}") for caution in _too_long(lm, texts, steps)]
    if references is not None:
        found.advice += _overlap(some, references)
    found.advice += _scores(some, references, costs)
    return found


def unknown_share(lm: LanguageModel, texts: Sequence[str], steps: TextMapping) -> float:
    known = lm.vocab.index
    words = [word for text in texts for word in apply(steps, text.split())]
    return sum(known.get(word, 0) == 0 for word in words) / max(len(words), 1)


def _unknown(
    name: str, lm: LanguageModel, texts: Sequence[str], mapping: str, steps: TextMapping
) -> tuple[float, list[Advice]]:
    """The share of words a model does not know, and the mapping that leaves the fewest."""
    texts = list(dict.fromkeys(texts))
    now = unknown_share(lm, texts, steps)
    shares = {tried: unknown_share(lm, texts, parse_mapping(tried)) for tried in TRIED if tried != mapping}
    best = min(shares, key=lambda tried: (round(shares[tried], 2), TRIED.index(tried)))
    loud = now > LOUD
    if "table=" not in mapping and shares[best] < now - CLEARLY:
        problem = f"{name} does not know {now:.1%} of the words; with the mapping {best} it would be {shares[best]:.1%}"
        return now, [Advice(problem, f"--mapping {best}", loud)]
    if loud:
        return now, [
            Advice(f"{name} does not know {now:.1%} of the words; is it a model of this language and domain?", None, True)
        ]
    return now, []


def _units(texts: Sequence[str], references: Mapping[str, str] | None) -> list[Advice]:
    long = [text for text in texts if len(text) > 12]
    if long and sum(" " not in text for text in long) > 0.9 * len(long):
        return [Advice("the text has no blanks: each line is one word. Separate words, or characters, by blanks", None, True)]
    letters = [c for text in texts for c in text if c.isalpha()]
    upper = sum(c.isupper() for c in letters) / max(len(letters), 1)
    if references:
        said = [c for text in references.values() for c in text if c.isalpha()]
        if abs(sum(c.isupper() for c in said) / max(len(said), 1) - upper) > 0.5:
            return [Advice("lists and references differ in case: every word would be an error. Write both alike", None, True)]
    return []


def _too_long(lm: LanguageModel, texts: Sequence[str], steps: TextMapping) -> list[str]:
    mapped = [" ".join(apply(steps, text.split())) for text in texts[:2000] if text.split()]
    return lm.cautions(lm.vocab.batch(mapped)) if mapped else []


def _overlap(lists: Sequence[NBestList], references: Mapping[str, str]) -> list[Advice]:
    missing = [nbest.utterance for nbest in lists if nbest.utterance not in references]
    if not missing:
        return []
    example = next(iter(references), "none")
    problem = f'{len(missing)} of {len(lists)} lists have no reference ("{missing[0]}"; references are named as "{example}")'
    return [Advice(f"{problem}; name both alike", None, True)]


def _scores(lists: Sequence[NBestList], references: Mapping[str, str] | None, costs: bool) -> list[Advice]:
    """Sign and scale of the acoustic scores."""
    if not all(ACOUSTIC in nbest.scores for nbest in lists):
        if any(nbest.scores for nbest in lists):
            known = ", ".join(next(nbest.scores for nbest in lists if nbest.scores))
            return [Advice(f"no score is named {ACOUSTIC} (there are {known})", "--acoustic-name NAME", True)]
        return [Advice("the lists have no acoustic scores: language models decide alone", None)]
    spreads = [float(np.ptp(nbest.scores[ACOUSTIC])) for nbest in lists if len(nbest) > 1]
    if spreads and max(spreads) == 0:
        return [Advice("the acoustic scores of a list are all the same: they decide nothing", None)]
    high = low = 0
    for nbest in lists:
        if references is not None and nbest.utterance in references:
            score_K = nbest.scores[ACOUSTIC]
            ends = [nbest.texts[int(score_K.argmax())], nbest.texts[int(score_K.argmin())]]
            errors = word_errors(references[nbest.utterance], ends)
            high, low = high + int(errors[0]), low + int(errors[1])
    if high > low:
        problem = f"the highest acoustic scores have {high} word errors, the lowest {low}: the sign is wrong"
        return [Advice(f"{problem}; these are no costs" if costs else problem, None if costs else "--acoustic-is-cost", True)]
    return []
