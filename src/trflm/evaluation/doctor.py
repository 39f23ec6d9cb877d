"""Say what is wrong with n-best lists for a model before it costs anything, and which command line to use.

Only the first hypotheses of the first lists are looked at; a share that is wrong there is wrong everywhere.
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
DEPTH = 5  # hypotheses of each whose words are looked at: those of a list are nearly the same
LOUD = 0.2  # share of unknown words above which nothing good can come
NUMBERS = "N"  # a model that knows this word was made from text in which it stands for numbers, as `ptb` writes it
TRIED = ("none", "lower", "clitics", "lower,clitics", "lower,clitics,initials", "ptb")  # mappings, the simplest first
CLEARLY, MOSTLY = 0.01, 0.8  # a mapping is proposed if it leaves fewer unknown words by this share, and this share of them
SURE, UNSURE, IN_ORDER = 2, 1, 3  # standard errors: word errors show a wrong sign, hint at one; the order of lists does


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
    referenced: bool = False  # whether it is known what was said
    oov: dict[str, float] = field(default_factory=dict)  # model -> share of unknown words, as the mapping has it now
    advice: list[Advice] = field(default_factory=list)


def examine(
    lists: Iterable[NBestList],
    models: Mapping[str, LanguageModel],
    references: Mapping[str, str] | None = None,
    mapping: str = "none",
    costs: bool = False,
    steps: TextMapping | None = None,
    all_there_are: bool = False,
) -> Examination:
    """`mapping` and `costs` are as the command line has them: what is set already is never proposed. `steps` is the mapping, if
    it has been read already. Without `references` they are those that the lists carry."""
    steps = parse_mapping(mapping) if steps is None else steps
    some = list(islice(lists, LOOKED_AT))
    if references is None:
        references = {nbest.utterance: nbest.reference for nbest in some if nbest.reference is not None} or None
    found = Examination(len(some), sum(map(len, some)), references is not None)
    texts = [text for nbest in some for text in nbest.texts[:DEPTH]]
    if not texts:
        return found
    units = _units(texts, references)
    found.advice += units
    better = _best_mapping(models.values(), texts, mapping)
    for name, lm in models.items():
        found.oov[name], advice = _unknown(name, lm, texts, better, steps)
        found.advice += advice
        found.advice += [Advice(f"{name}: {caution}") for caution in _too_long(lm, texts, steps)]
    if references is not None:
        found.advice += _overlap(some, references, all_there_are and len(some) < LOOKED_AT)
    found.advice += _scores(some, None if units else references, costs)
    return found


def unknown_share(lm: LanguageModel, texts: Sequence[str], steps: TextMapping) -> float:
    known = lm.vocab.index
    words = [word for text in texts for word in apply(steps, text.split())]
    return sum(known.get(word, 0) == 0 for word in words) / max(len(words), 1)


def _best_mapping(models: Iterable[LanguageModel], texts: Sequence[str], mapping: str) -> str | None:
    """The one that leaves the fewest unknown words, for all models together; None where the mapping has a table, or without
    models. Of equals it is the simplest, but `ptb` where models know its word for numbers."""
    models, texts = list(models), list(dict.fromkeys(texts))
    if not models or "table=" in mapping:
        return None
    numbers = all(lm.vocab.index.get(NUMBERS, 0) for lm in models)

    def badness(tried: str) -> tuple[float, bool, int]:
        share = sum(unknown_share(lm, texts, parse_mapping(tried)) for lm in models) / len(models)
        return round(share, 2), numbers and tried != "ptb", TRIED.index(tried)

    return min((tried for tried in TRIED if tried != mapping), key=badness)


def _unknown(
    name: str, lm: LanguageModel, texts: Sequence[str], better: str | None, steps: TextMapping
) -> tuple[float, list[Advice]]:
    """The share of words a model does not know, and what it would be with the better mapping."""
    texts = list(dict.fromkeys(texts))
    now = unknown_share(lm, texts, steps)
    then = now if better is None else unknown_share(lm, texts, parse_mapping(better))
    loud = now > LOUD
    if then < min(now - CLEARLY, MOSTLY * now):
        problem = f"{name} does not know {now:.1%} of the words; with the mapping {better} it would be {then:.1%}"
        return now, [Advice(problem, f"--mapping {better}", loud)]
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


def _overlap(lists: Sequence[NBestList], references: Mapping[str, str], all_there_are: bool) -> list[Advice]:
    missing = [nbest.utterance for nbest in lists if nbest.utterance not in references]
    if not missing:
        known = {nbest.utterance for nbest in lists}
        extra = [name for name in references if name not in known] if all_there_are else []
        if not extra:
            return []
        return [Advice(f'{len(extra)} references have no list ("{extra[0]}"); leave them out or add the lists', None, True)]
    example = next(iter(references), "none")
    problem = f'{len(missing)} of {len(lists)} lists have no reference ("{missing[0]}"; references are named as "{example}")'
    return [Advice(f"{problem}; name both alike", None, True)]


def _scores(lists: Sequence[NBestList], references: Mapping[str, str] | None, costs: bool) -> list[Advice]:
    """Sign and scale of the acoustic scores."""
    if not all(ACOUSTIC in nbest.scores for nbest in lists):
        if any(nbest.scores for nbest in lists):
            known = list(next(nbest.scores for nbest in lists if nbest.scores))
            likely = [name for name in known if "lm" not in name.lower()] or known
            name = likely[0] if len(likely) == 1 else "NAME"
            return [Advice(f"no score is named {ACOUSTIC} (there are {', '.join(known)})", f"--acoustic-name {name}", True)]
        return [Advice("the lists have no acoustic scores: language models decide alone", None)]
    spreads = [float(np.ptp(nbest.scores[ACOUSTIC])) for nbest in lists if len(nbest) > 1]
    if spreads and max(spreads) == 0:
        return [Advice("the acoustic scores of a list are all the same: they decide nothing", None)]
    said = {} if references is None else references
    known = [nbest for nbest in lists if nbest.utterance in said]
    evidence, loud = _by_errors(known, said) if known else _by_order(lists)
    if not evidence:
        return []
    return [Advice(f"{evidence}; these are no costs" if costs else evidence, None if costs else "--acoustic-is-cost", loud)]


def _by_errors(lists: Sequence[NBestList], references: Mapping[str, str]) -> tuple[str, bool]:
    """How the word errors speak against the sign of the scores, if they do, and whether that is sure."""
    high_U, low_U = np.array(
        [
            word_errors(
                references[nbest.utterance], [nbest.texts[int(at(nbest.scores[ACOUSTIC]))] for at in (np.argmax, np.argmin)]
            )
            for nbest in lists
        ]
    ).T
    worse_U = high_U - low_U
    sure = worse_U.sum() / max(np.sqrt((worse_U**2).sum()), 1)
    errors = f"the highest acoustic scores have {high_U.sum()} word errors, the lowest {low_U.sum()}: the sign"
    return (
        (f"{errors} is wrong", True) if sure >= SURE else (f"{errors} may be wrong", False) if sure >= UNSURE else ("", False)
    )


def _by_order(lists: Sequence[NBestList]) -> tuple[str, bool]:
    """The same without references: hypotheses get worse down a list, so good scores should not come last."""
    halves = [np.array_split(nbest.scores[ACOUSTIC], 2) for nbest in lists if len(nbest) > 1]
    later = sum(bool(second.mean() > first.mean()) for first, second in halves)
    if later - len(halves) / 2 < IN_ORDER * np.sqrt(len(halves)) / 2 or not later:
        return "", False
    return (
        f"in {later} of {len(halves)} lists the later hypotheses have the higher acoustic scores: the sign may be wrong",
        False,
    )
