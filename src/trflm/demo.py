"""The data of the demo: sentences of Wikipedia split into texts, and n-best lists of a simulated recogniser for two of them.

Everything is a function of the seed. Files are made in one move, so an interrupted demo goes on where it stopped.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from trflm.evaluation.formats import write_kaldi
from trflm.evaluation.nbest import NBestList
from trflm.simulate.channel import Channel, ChannelConfig
from trflm.simulate.lists import simulate
from trflm.simulate.prior import Prior
from trflm.simulate.pronunciations import Lexicon, default_dictionary, read_pronunciations
from trflm.simulate.search import Recogniser, SearchConfig
from trflm.simulate.wikipedia import wikipedia_file, wikipedia_sentences
from trflm.text.writer import write_directory, write_text


@dataclass(frozen=True)
class DemoConfig:
    """How large the demo is."""

    seed: int = 1
    held_out: int = 800  # sentences of the valid and of the test text, each
    dev: int = 150  # utterances
    test: int = 200
    shortest: int = 5  # words of an utterance
    longest: int = 20
    steering: int = 8  # one in so many training sentences teaches the recogniser's own bigram: it is a weak one
    hypotheses: int = 100
    channel: ChannelConfig = field(default_factory=lambda: ChannelConfig(substitution=0.18))


def recipes() -> Path:
    """recipes/demo of the source tree, or of the installed package."""
    inside = Path(__file__).parent / "recipes" / "demo"
    return inside if inside.exists() else Path(__file__).parents[2] / "recipes" / "demo"


def prepare(data: Path, config: DemoConfig, jobs: int, say: Callable[[str], None]) -> None:
    """train.txt, valid.txt, test.txt, lists/dev, lists/test and settings.json, unless they are there with these settings."""
    settings = json.dumps(asdict(config), indent=1) + "\n"
    stamp = data / "settings.json"
    if stamp.exists() and stamp.read_text() == settings:
        say(f"{data}: texts and lists are there already")
        return
    # 1. The text: every sentence of the sample once, in an order of chance.
    say("reading the Wikipedia sample of the gensim package")
    sentences = list(wikipedia_sentences(wikipedia_file()))
    order = np.random.default_rng(config.seed).permutation(len(sentences))
    sentences = [sentences[i] for i in order]
    texts = {
        "test": sentences[: config.held_out],
        "valid": sentences[config.held_out : 2 * config.held_out],
        "train": sentences[2 * config.held_out :],
    }
    data.mkdir(parents=True, exist_ok=True)
    for name, lines in texts.items():
        with write_text(data / f"{name}.txt") as file:
            file.writelines(" ".join(words) + "\n" for words in lines)
        say(f"{name}: {len(lines):,} sentences, {sum(map(len, lines)):,} words")
    # 2. The recogniser knows the words of the training text that can be said.
    lexicon = Lexicon.of((word for words in texts["train"] for word in words), read_pronunciations(default_dictionary()))
    say(f"a recogniser of {len(lexicon):,} words; the first search compiles for some seconds")
    channel = Channel(config.channel)
    recogniser = Recogniser(lexicon, channel, Prior.estimate(lexicon, texts["train"][:: config.steering]), SearchConfig())
    # 3. Lists for sentences of the held-out texts.
    (data / "lists").mkdir(exist_ok=True)
    for name, text, count in (("dev", texts["valid"], config.dev), ("test", texts["test"], config.test)):
        said = [w for w in text if config.shortest <= len(w) <= config.longest and all(x in lexicon.number for x in w)][:count]

        made = simulate(said, recogniser, config.hypotheses, 2 * config.seed + (name == "test"), name, jobs)
        folder = data / "lists" / name
        if not folder.exists():
            with write_directory(folder) as directory:
                write_kaldi(_told(made, name, len(said), say), directory)
    with write_text(stamp) as file:
        file.write(settings)


def _told(lists: Iterator[NBestList], name: str, n: int, say: Callable[[str], None]) -> Iterator[NBestList]:
    for number, nbest in enumerate(lists, 1):
        if number % 25 == 0 or number == n:
            say(f"{name}: {number} of {n} utterances said, corrupted and searched for")
        yield nbest
