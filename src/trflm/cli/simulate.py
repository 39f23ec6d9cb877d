"""`trf nbest simulate`: n-best lists from a simulated recogniser."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.lists import note
from trflm.cli.options import Quiet
from trflm.errors import InputError
from trflm.ranges import Count, Positive, Seed, Share, Steps, ThreadCount


def simulate(
    text: Path,
    words: Path,
    out: Path,
    *,
    dictionary: Annotated[Path | None, tyro.conf.arg(name="dict", metavar="FILE")] = None,
    utterances: Steps = 0,
    n: Count = 100,
    substitution: Share = 0.2,
    insertion: Share = 0.02,
    deletion: Share = 0.03,
    temperature: Positive = 0.35,
    prefix: str = "utt",
    seed: Seed = 1,
    jobs: ThreadCount = 0,
    quiet: Quiet = False,
) -> None:
    """Say the sentences of a text, corrupt their phones by a stated channel, search for the most likely word strings.

    Acoustic scores are true log likelihoods P(heard phones | words), confusions sound alike. A bigram of the other text
    steers the search and is written as a score of its own, lm.txt.

    Args:
        text: What is said, one sentence a line; sentences with words that cannot be pronounced are left out.
        words: A text whose words the recogniser knows, and whose bigrams steer the search.
        out: A new directory: nbest.txt, acoustic.txt, lm.txt, ref.txt, simulation.json.
        dictionary: Lines `word PHONE PHONE ...`; that of the pocketsphinx package if not given.
        utterances: How many sentences to say, from the first on; 0: all.
        n: Hypotheses of an utterance.
        substitution: The probability that a phone is heard as another one, the likelier the nearer by articulation.
        insertion: The probability of a phone that nobody said, before each phone and at the end.
        deletion: The probability that a phone is not heard.
        temperature: Of the distance between phones: the higher, the more alike all confusions.
        prefix: Of the names of utterances.
        seed: The same seed gives the same lists.
        jobs: Processes; 0: as many as there are cores.
    """
    from trflm.evaluation.formats import write_kaldi
    from trflm.files.reader import read_lines
    from trflm.files.writer import write_directory, write_text
    from trflm.simulate.channel import Channel, ChannelConfig
    from trflm.simulate.lists import simulate as run
    from trflm.simulate.prior import Prior
    from trflm.simulate.pronunciations import Lexicon, default_dictionary, read_pronunciations
    from trflm.simulate.search import Recogniser, SearchConfig

    if not prefix or any(character.isspace() for character in prefix):
        raise InputError(f"--prefix {prefix!r}: give a name without blanks")
    try:
        channel = Channel(ChannelConfig(substitution, insertion, deletion, temperature))
    except ValueError as error:
        raise InputError(f"--{error}") from error
    known = [line.text.split() for line in read_lines(words)]
    lexicon = Lexicon.of((word for line in known for word in line), read_pronunciations(dictionary or default_dictionary()))
    lines = [said for line in read_lines(text) if (said := line.text.split())]
    sayable = [said for said in lines if all(word in lexicon.number for word in said)]
    if not sayable:
        raise InputError(f"{text}: no sentence has only words that are in {words} and in the dictionary; give another text")
    if not quiet and len(sayable) < len(lines):
        note(f"{text}: {len(lines) - len(sayable)} of {len(lines)} sentences have words that cannot be said; left out")
    chosen = sayable[: utterances or None]
    recogniser = Recogniser(lexicon, channel, Prior.estimate(lexicon, known), SearchConfig(width=max(120, n)))

    def shown(lists):
        for number, nbest in enumerate(lists, 1):
            if not quiet and (number == len(chosen) or number % max(len(chosen) // 10, 1) == 0):
                note(f"{out}: {number} of {len(chosen)} utterances heard and searched")
            yield nbest

    with write_directory(out) as directory:
        write_kaldi(shown(run(chosen, recogniser, n, seed, prefix, jobs or os.cpu_count() or 1)), directory)
        record = {
            "text": str(text), "words": str(words), "lexicon": len(lexicon), "seed": seed, "n": n,
            "channel": asdict(channel.config), "search": asdict(recogniser.config),
        }  # fmt: skip
        with write_text(directory / "simulation.json") as file:
            json.dump(record, file, indent=2)
            file.write("\n")
    print(f"{out}: {len(chosen)} utterances")
