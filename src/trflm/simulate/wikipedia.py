"""Real English text that is already on the machine: the sample of Wikipedia that comes with the gensim package."""

import bz2
import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path

from trflm.errors import InputError
from trflm.simulate.spoken import sentences, spoken

SAMPLE = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
SHORTEST, LONGEST = 4, 40  # words of a sentence that is taken


def wikipedia_file() -> Path:
    """The sample of the installed gensim."""
    spec = importlib.util.find_spec("gensim")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / SAMPLE
        if path.exists():
            return path
    raise InputError("the demo's text is not here: pip install 'trflm[demo]' (gensim brings it)")


def wikipedia_sentences(path: Path) -> Iterator[list[str]]:
    """Sentences of running text as words that are said, article by article, each sentence once."""
    from gensim.corpora.wikicorpus import extract_pages, filter_wiki

    logging.getLogger("gensim").setLevel(logging.ERROR)
    seen: set[str] = set()
    with bz2.open(path) as file:
        for _, markup, _ in extract_pages(file, ("0",)):  # pyright: ignore[reportArgumentType]
            for paragraph in filter_wiki(markup).replace("'''", "").replace("''", "").splitlines():
                if not paragraph[:1].isalpha() and paragraph[:1] not in {'"', "'"}:
                    continue  # headings, lists, tables
                for sentence in sentences(paragraph.strip()):
                    if not sentence.endswith((".", "!", "?", '."', ".)")):
                        continue  # a caption, or a line that was cut
                    words = spoken(sentence)
                    if words and SHORTEST <= len(words) <= LONGEST and (text := " ".join(words)) not in seen:
                        seen.add(text)
                        yield words
