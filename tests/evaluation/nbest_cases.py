"""N-best lists for tests: a hand-made one, and a hypothesis strategy for any."""

import numpy as np
from hypothesis import strategies as st

from trflm.evaluation.nbest import NBestList

WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Z", "Cs"]), min_size=1, max_size=6).filter(
    lambda word: (
        word.split() == [word]
        and "▁" not in word
        and word != "-pau-"
        and not word.startswith("<")
        and not word.startswith("\ufeff")
    )
)
NAME = st.text("abc-_.019é", min_size=1, max_size=8).map(lambda name: f"u{name}e")
SENTENCE = st.lists(WORD, min_size=1, max_size=4).map(" ".join)
SCORE = st.floats(allow_nan=False, allow_infinity=False, width=64)


@st.composite
def nbest_lists(draw: st.DrawFn, names: tuple[str, ...] = ("acoustic", "lm")) -> list[NBestList]:
    """Any lists with these scores; each utterance with or without a reference."""
    lists = []
    for utterance in draw(st.lists(NAME, min_size=1, max_size=4, unique=True)):
        texts = draw(st.lists(SENTENCE, min_size=1, max_size=4))
        scores = {name: np.array(draw(st.lists(SCORE, min_size=len(texts), max_size=len(texts)))) for name in names}
        lists.append(NBestList(utterance, texts, scores, draw(st.none() | SENTENCE)))
    return lists


def three_lists() -> list[NBestList]:
    """Three utterances of 3, 1 and 2 hypotheses."""
    return [
        NBestList("a-1", ["it rose", "it rows", "rose"], {"acoustic": np.array([-3.0, -2.5, -4.0])}),
        NBestList("b", ["the end"], {"acoustic": np.array([-1.0])}),
        NBestList("c", ["no", "know it"], {"acoustic": np.array([-1.0, -1.0])}),
    ]


def same(left: list[NBestList], right: list[NBestList], references: bool = True) -> bool:
    """Whether the lists agree in everything, scores to the last bit."""

    def key(nbest: NBestList) -> tuple:
        scores = {name: values.tolist() for name, values in nbest.scores.items()}
        return nbest.utterance, list(nbest.texts), scores, nbest.reference if references else None

    return [key(nbest) for nbest in left] == [key(nbest) for nbest in right]
