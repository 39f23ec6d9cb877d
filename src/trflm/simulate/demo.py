"""The data of the demo: sentences of Wikipedia split into texts, and n-best lists of a simulated recogniser for two of them.

Everything is a function of the seed. Files are made in one move, so an interrupted demo goes on where it stopped.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats import write_kaldi
from trflm.evaluation.nbest import NBestList
from trflm.experiment.directory import FILES, SNAPSHOTS
from trflm.experiment.shipped import root
from trflm.files.reader import read_lines
from trflm.files.writer import write_directory, write_text
from trflm.simulate.channel import Channel, ChannelConfig
from trflm.simulate.lists import simulate
from trflm.simulate.prior import Prior
from trflm.simulate.pronunciations import Lexicon, default_dictionary, read_pronunciations
from trflm.simulate.search import Recogniser, SearchConfig
from trflm.simulate.wikipedia import wikipedia_file, wikipedia_sentences

MARKER = "demo.json"  # in a directory that a demo began in when it was empty
MARK = b'{"made_by": "trf demo"}\n'


@dataclass(frozen=True)
class DemoConfig:
    """How large the demo is."""

    seed: int = 1
    held_out: int = 800  # sentences of the valid and of the test text, each
    dev: int = 150  # utterances
    test: int = 200
    shortest: int = 5  # words of an utterance
    longest: int = 18
    steering: int = 1  # every n-th training sentence teaches the recogniser's own bigram
    hypotheses: int = 100
    channel: ChannelConfig = field(default_factory=lambda: ChannelConfig(substitution=0.18))


def recipes() -> Path:
    """Those of the demo."""
    return root() / "demo"


def begin(out: Path, fresh: bool, say: Callable[[str], None]) -> None:
    """A directory for a demo: a new or empty one, or one that a demo began in when it was; `fresh` empties that first.

    What a demo makes has fixed names. Whatever else lies there is not its own and stays, links too.
    """
    marker = out / MARKER
    ours = marker.is_file() and not marker.is_symlink() and marker.read_bytes() == MARK
    if not ours and out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{out}: is not empty, and no demo began there (it would have left {MARKER}); give another --out")
    if ours and fresh:
        _remove(out)
        left = sum(path != marker for path in out.iterdir())
        if left:
            say(f"{out}: {left} files and directories are left which a demo did not make")
    out.mkdir(parents=True, exist_ok=True)
    with write_text(marker) as file:
        file.write(MARK.decode())


def _remove(out: Path) -> None:
    """The files that a demo makes, then the directories that are empty without them; never through a link."""
    runs = [recipe.stem for recipe in recipes().glob("*.toml")]
    patterns = {
        ".": ["results.json", "results.md", "report.html"],
        "scores": [f"{run}{how}.{name}.npz" for run in runs for how in ("", "@*") for name in ("dev", "test")],
        "data": ["settings.json", "train.txt", "valid.txt", "test.txt"],
        **{f"data/lists/{name}": ["nbest.txt", "acoustic.txt", "lm.txt", "ref.txt"] for name in ("dev", "test")},
        **{run: [pattern for file in FILES for pattern in (file, f"{file}.part")] for run in runs},
        **{f"{run}/{SNAPSHOTS}": ["epoch-*.safetensors", "epoch-*.safetensors.part"] for run in runs},
    }
    for place, names in patterns.items():
        directory = out / place
        if any(path.is_symlink() for path in (directory, *directory.parents) if out in path.parents):
            continue
        for file in [file for name in names for file in directory.glob(name)]:
            if file.is_file() and not file.is_symlink():
                file.unlink()
    for place in sorted(patterns, key=len, reverse=True):
        for directory in (out / place, *(out / place).parents):
            if out in directory.parents:
                with contextlib.suppress(OSError):  # there is something else in it, or it is not there, or a link
                    directory.rmdir()


def prepare(data: Path, config: DemoConfig, jobs: int, say: Callable[[str], None]) -> None:
    """settings.json, train.txt, valid.txt, test.txt, lists/dev and lists/test: what is missing of them."""
    settings = json.dumps(asdict(config), indent=1) + "\n"
    stamp = data / "settings.json"
    if stamp.exists() and stamp.read_text() != settings:
        raise InputError(f"{data}: was made with other settings; say --fresh to begin again, or give another --out")
    (data / "lists").mkdir(parents=True, exist_ok=True)
    with write_text(stamp) as file:
        file.write(settings)
    # 1. The text.
    files = {name: data / f"{name}.txt" for name in ("train", "valid", "test")}
    if not all(file.exists() for file in files.values()):
        _write_texts(files, config, say)
    texts = {name: [line.text.split() for line in read_lines(file)] for name, file in files.items()}
    for name, lines in texts.items():
        say(f"{name}: {len(lines):,} sentences, {sum(map(len, lines)):,} words")
    missing = [name for name in ("dev", "test") if not (data / "lists" / name).exists()]
    if not missing:
        return
    # 2. The recogniser knows the words of the training text that can be said.
    lexicon = Lexicon.of((word for words in texts["train"] for word in words), read_pronunciations(default_dictionary()))
    say(f"a recogniser of {len(lexicon):,} words; before its first search it compiles for some seconds")
    prior = Prior.estimate(lexicon, texts["train"][:: config.steering])
    recogniser = Recogniser(lexicon, Channel(config.channel), prior, SearchConfig())
    # 3. Lists for sentences of the held-out texts.
    for name in missing:
        text, count, seed = {"dev": ("valid", config.dev, 0), "test": ("test", config.test, 1)}[name]
        said = [w for w in texts[text] if config.shortest <= len(w) <= config.longest and all(x in lexicon.number for x in w)]
        said = said[:count]
        made = simulate(said, recogniser, config.hypotheses, 2 * config.seed + seed, name, jobs)
        with write_directory(data / "lists" / name) as directory:
            write_kaldi(_told(made, name, len(said), say), directory)


def _write_texts(files: Mapping[str, Path], config: DemoConfig, say: Callable[[str], None]) -> None:
    """Every sentence of the sample once, shuffled."""
    say("reading the Wikipedia sample of the gensim package")
    sentences = list(wikipedia_sentences(wikipedia_file()))
    order = np.random.default_rng(config.seed).permutation(len(sentences))
    cuts = {"test": (0, config.held_out), "valid": (config.held_out, 2 * config.held_out), "train": (2 * config.held_out, None)}
    for name, (first, last) in cuts.items():
        with write_text(files[name]) as file:
            file.writelines(" ".join(sentences[i]) + "\n" for i in order[first:last])


def _told(lists: Iterator[NBestList], name: str, n: int, say: Callable[[str], None]) -> Iterator[NBestList]:
    for number, nbest in enumerate(lists, 1):
        if number % 25 == 0 or number == n:
            say(f"{name}: {number} of {n} utterances said, corrupted and searched for")
        yield nbest
