"""Seeded mutants of every kind of file that `trf` reads: through the real commands, each of which ends with 0, 1 or 2 and a
short message, never with a traceback, within ten seconds of a processor and a gigabyte; and, hundreds of times as many, through
the readers in this process, of which comes what was read or an InputError.

    python -m tests.fuzz --minutes 30 --readers          # as long as you like; prints what did not hold
    python -m tests.fuzz --minutes 30                    # the commands
    python -m tests.fuzz --case results/results.json:417 # one of them again, in full
"""

import argparse
import functools
import gzip
import json
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from commands import TINY_BLSTM, TINY_LSTM, TINY_NGRAM, TINY_TEXT, tiny_recipe, trf

from trflm.deploy.journal import Entry, Header, read_entries, writing
from trflm.deploy.rescorer import Rescorer
from trflm.errors import InputError, printable
from trflm.evaluation.figures import Figures
from trflm.evaluation.formats import read_nbest, write_espnet, write_mlm, write_srilm
from trflm.evaluation.lattice import nbest
from trflm.evaluation.lattice_files import read_lattices
from trflm.evaluation.nbest import NBestList
from trflm.evaluation.significance import Interval
from trflm.evaluation.transcript_formats import read_alike
from trflm.evaluation.transcripts import read_transcripts
from trflm.evaluation.weights import Weights
from trflm.experiment.recipe import read_recipe
from trflm.experiment.store import load_model
from trflm.files.reader import read_lines
from trflm.files.records import to_record
from trflm.files.tensors import load_state
from trflm.lms.ngram import read_arpa
from trflm.report.training import run_page
from trflm.reproduce.page import results_page
from trflm.reproduce.plan import Paper, read_plan
from trflm.reproduce.record import Example, ListFacts, Made, MissingRow, ModelRow, Results, TextPerplexity
from trflm.simulate.pronunciations import read_pronunciations
from trflm.text import Vocab
from trflm.text.classes import read_classes
from trflm.text.corpus import read_corpus
from trflm.text.mapping import parse_mapping

MOST_MESSAGE = 2048  # characters of stderr
MOST_SECONDS, MOST_BYTES = 10.0, 1e9  # of a processor, for one mutant; of memory, for one command or all readers
LISTS = "".join(f"u{u}-{n} {words}\n" for u in range(3) for n, words in enumerate(["the cat ran", "a cat ran", "cats"], 1))
SCORES = "".join(f"u{u}-{n} {-10.0 - u - n}\n" for u in range(3) for n in range(1, 4))
REFERENCES = "".join(f"u{u} the cat ran\n" for u in range(3))
HYPOTHESES = [{"text": "the cat ran", "scores": {"acoustic": -1.5}}, {"text": "cats", "scores": {"acoustic": -2.0}}]
JSON_LINES = "".join(json.dumps({"utterance": f"u{u}", "hypotheses": HYPOTHESES}) + "\n" for u in range(3))
NASTY: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    float("nan"),
    float("inf"),
    10**4000,
    "",
    "\0",
    "../..",
    "<script>",
    "\x1b[31m",
    [],
    {},
]
NASTY += ["x" * 100_000, [[]] * 1000, {"a": {"b": {}}}, "nan", 2**63, -(2**63), 0.5]
BYTES = [
    b"\xff\xfe",
    b"\0",
    b"\r",
    b"\n\n",
    b" ",
    b"\t",
    b"[" * 100_000,
    b'{"a":' * 5000,
    b"1e999",
    b"9" * 5000,
    b"\xe2\x80\xa8",
    b"-",
]


@dataclass(frozen=True)
class Target:
    """A file to mutate, and the command that reads it, with paths below the sandbox as `@name`."""

    file: str
    command: tuple[str, ...]

    def words(self, directory: Path) -> list[str]:
        return [word.replace("@", f"{directory}/") for word in self.command]


LISTS_OF = ("--nbest", "@lists.txt", "--acoustic", "@lists.ac", "--ref", "@ref.txt")
TARGETS = [
    Target("field/config.json", ("score", "@field", "@text.txt")),
    Target("field/vocab.txt", ("score", "@field", "@text.txt")),
    Target("field/model.safetensors", ("score", "@field", "@text.txt")),
    Target("field/metrics.jsonl", ("report", "@field", "--out", "@page.html")),
    Target("lstm/config.json", ("explain", "@lstm", "@text.txt")),
    Target("lstm/model.safetensors", ("score", "@lstm", "@text.txt")),
    Target("kn.arpa", ("perplexity", "@kn.arpa", "@text.txt")),
    Target("text.txt", ("score", "@field", "@text.txt")),
    Target("recipe.toml", ("train", "@recipe.toml", "--out", "@new", "--quiet", "--set", "run.epochs=1")),
    Target("lists.txt", ("nbest", "check", *LISTS_OF)),
    Target("lists.ac", ("nbest", "check", *LISTS_OF)),
    Target("ref.txt", ("wer", "@best.txt", "@ref.txt")),
    Target("lists.jsonl", ("nbest", "oracle", "--nbest", "@lists.jsonl", "--ref", "@ref.txt")),
    Target("weights.json", ("rescore", *LISTS_OF, "--lm", "@lstm", "--weights", "@weights.json", "--out", "@out", "--force")),
    Target("rescored/result.json", ("report", "@rescored", "--out", "@page.html")),
    Target("results/results.json", ("report", "@results", "--out", "@page.html")),
]  # fmt: skip


def sandbox(directory: Path) -> None:
    """One of each file."""
    for name, content in (("text.txt", TINY_TEXT), ("lists.txt", LISTS), ("lists.ac", SCORES), ("ref.txt", REFERENCES)):
        (directory / name).write_text(content)
    (directory / "lists.jsonl").write_text(JSON_LINES)
    (directory / "best.txt").write_text(REFERENCES)
    (directory / "recipe.toml").write_text(tiny_recipe(directory).read_text())
    run("train", directory / "recipe.toml", "--out", directory / "field", "--quiet", "--set", "run.epochs=1")
    run("train", tiny_recipe(directory, TINY_LSTM), "--out", directory / "lstm", "--quiet", "--set", "run.epochs=1")
    lists = ("--nbest", directory / "lists.txt", "--acoustic", directory / "lists.ac")
    run(
        "tune",
        *lists,
        "--ref",
        directory / "ref.txt",
        "--lm",
        directory / "lstm",
        "--out",
        directory / "weights.json",
        "--quiet",
    )
    weighed = ("--lm", directory / "lstm", "--weights", directory / "weights.json", "--force")
    run("rescore", *lists, "--ref", directory / "ref.txt", *weighed, "--out", directory / "first", "--quiet")
    (found,) = (directory / "first").glob("*result.json")  # its name says that it was tuned on these very lists
    (directory / "rescored").mkdir()
    found.rename(directory / "rescored/result.json")
    (directory / "kn.arpa").write_text(bigram_arpa())
    (directory / "results").mkdir()
    (directory / "results/results.json").write_text(json.dumps(to_record(some_results())))

    for target in TARGETS:  # whole, they are read
        run(*target.words(directory))
        clean(directory)


Reader = Callable[[Path], object]

SLF = "VERSION=1.0\nbase=10\nN=4 L=4\nI=0 W=!NULL\nI=1 W=it\nI=2 W=rose\nI=3 W=rows(2)\nI=4 W=!SENT_END\n"
SLF += "J=0 S=0 E=1 a=-1 l=-1\nJ=1 S=1 E=2 a=-2\nJ=2 S=1 E=3 a=-1\nJ=3 S=2 E=4 a=0\nJ=4 S=3 E=4 a=-3\n"
KALDI_LATTICE = "u1\n0 1 it 1,2,3_4\n1 2 rose 1,1,\n1 2 <eps> 0,5,\n2 0.5,0,\n\nu2\n0 1 7 0,1,\n1\n"
TABLES = 'title = "A table"\nbaseline = "kn"\n[text]\ntrain = "t"\nvalid = "t"\ntest = "t"\n'
TABLES += "".join(f'[{name}]\nnbest = "n"\nacoustic = "a"\nref = "r"\n' for name in ("dev", "test"))
TABLES += '[[row]]\nname = "kn"\nlabel = "KN"\n'


def read_strings(path: Path) -> object:
    return [list(nbest(lattice, 5)) for lattice in read_lattices(path, {"7": "seven"})]


READERS: dict[str, Reader] = {
    "field/config.json": lambda path: load_model(path.parent).log_prob(["the cat ran"]),
    "field/vocab.txt": lambda path: load_model(path.parent),
    "field/model.safetensors": lambda path: load_model(path.parent),
    "field/training.safetensors": load_state,
    "field/metrics.jsonl": lambda path: run_page(path.parent, 0),
    "blstm/config.json": lambda path: load_model(path.parent),
    "blstm/model.safetensors": lambda path: load_model(path.parent),
    "lstm/config.json": lambda path: load_model(path.parent),
    "lstm/model.safetensors": lambda path: load_model(path.parent),
    "ngram/model.safetensors": lambda path: load_model(path.parent),
    "second-pass/rescorer.json": lambda path: Rescorer.load(path.parent),
    "second-pass/weights.json": lambda path: Rescorer.load(path.parent),
    "best/journal.jsonl": lambda path: list(read_entries(path)),
    "kn.arpa": read_arpa,
    "text.txt": lambda path: read_corpus(path, Vocab(["<unk>", "the", "cat"])),
    "text.txt.gz": lambda path: list(read_lines(path)),
    "recipe.toml": read_recipe,
    "plan/tables.toml": lambda path: read_plan(path.parent),
    "classes.txt": lambda path: read_classes(path, Vocab(["<unk>", "the", "cat"])),
    "table.tsv": lambda path: parse_mapping(f"table={path}"),
    "words.dict": read_pronunciations,
    "lists.txt": lambda path: read_nbest(path, path.with_name("lists.ac")),
    "lists.ac": lambda path: read_nbest(path.with_name("lists.txt"), path),
    "lists.jsonl": read_nbest,
    "espnet.json": read_nbest,
    "mlm.json": read_nbest,
    "hypr.json": read_nbest,
    "nemo.tsv": lambda path: read_nbest(path, format="nemo", fields={"depth": "2"}),
    "srilm/u1.txt": lambda path: read_nbest(path.parent),
    "ref.txt": read_transcripts,
    "ref.trn": lambda path: read_alike([path, path]),
    "utt.slf": read_strings,
    "lattice.txt": read_strings,
    "results/results.json": lambda path: results_page(path.parent),
}


def more_files(directory: Path) -> None:
    """Those that only the readers need."""
    run("train", tiny_recipe(directory, TINY_BLSTM), "--out", directory / "blstm", "--quiet", "--set", "run.epochs=1")
    run("train", tiny_recipe(directory, TINY_NGRAM), "--out", directory / "ngram", "--quiet")
    lists = ("--nbest", directory / "lists.txt", "--acoustic", directory / "lists.ac", "--ref", directory / "ref.txt")
    run("tune", *lists, "--lm", directory / "ngram", "--out", directory / "second-pass", "--quiet")
    header = Header(weights=Weights({"kn": 1.0}, 2.0), mapping="none", files={}, models=("kn",))
    with writing(directory / "best", header, resume=False) as journal:
        for u in range(3):
            journal.write(
                Entry(utterance=f"u{u}", content="0" * 16, best="the cat", hypotheses=3, oov=(1,), unknown=(("cats",),))
            )
    every = list(read_nbest(directory / "lists.txt", directory / "lists.ac"))
    write_espnet(every, directory / "espnet.json")
    write_mlm(every, directory / "mlm.json")
    both = {"acoustic": np.array([-1.5, -2.0]), "lm": np.array([-3.0, -4.0])}
    (directory / "srilm").mkdir()
    write_srilm([NBestList("u1", ["the cat ran", "cats"], both)], directory / "srilm")
    record = {"name": "u1", "ref": "the cat", "hyps": ["the cat", "cats"], "am_score": [-1.0, -2.0], "beam": 10}
    (directory / "hypr.json").write_text(json.dumps([record]))
    (directory / "plan").mkdir()
    for name, content in (
        ("nemo.tsv", "the cat\t-1.5\ncats\t-2.5\n"),
        ("classes.txt", "<unk> 0\nthe 0\ncat 1\n"),
        ("table.tsv", "cats\tthe cat\n"),
        ("words.dict", "a AH\nrose R OW Z\nrose(2) R OW S\n"),
        ("ref.trn", "the cat (u1)\ncats (u2)\n"),
        ("utt.slf", SLF),
        ("lattice.txt", KALDI_LATTICE),
        ("plan/tables.toml", TABLES),
    ):
        (directory / name).write_text(content)
    (directory / "text.txt.gz").write_bytes(gzip.compress(TINY_TEXT.encode(), mtime=0))
    for file, read in READERS.items():  # whole, they are read
        read(directory / file)


def read_mutant(file: str, number: int, directory: Path) -> tuple[str, float]:
    """(what did not hold, if anything; seconds of a processor) of one mutant in this process. The sandbox is left as it was."""
    path = directory / file
    content = path.read_bytes()
    path.write_bytes(mutant(content, random.Random(f"{file}:{number}")))
    started, problem = time.process_time(), ""
    try:
        READERS[file](path)
    except InputError as error:
        if not 0 < len(printable(error)) <= MOST_MESSAGE:
            problem = f"a message of {len(printable(error))} characters"
    except Exception:
        problem = "\n".join(line[:200] for line in traceback.format_exc().splitlines()[-9:])
    finally:
        path.write_bytes(content)
    seconds = time.process_time() - started
    return problem or (f"{seconds:.1f} s" if seconds > MOST_SECONDS else ""), seconds


def clean(directory: Path) -> None:
    """Without what commands wrote."""
    for made in ("new", "out"):
        shutil.rmtree(directory / made, ignore_errors=True)


def run(*arguments: object) -> None:
    done = trf(*arguments)
    if done.returncode:
        raise RuntimeError(f"trf {' '.join(map(str, arguments))}: {done.stderr}")


def bigram_arpa() -> str:
    """By hand: a word of four is as probable as another."""
    words = ["<unk>", "the", "cat", "ran"]
    head = f"\\data\\\nngram 1={len(words) + 2}\nngram 2=1\n\n\\1-grams:\n-99 <s> 0\n-0.69897 </s>\n"
    unigrams = "".join(f"-0.69897 {word} 0\n" for word in words)
    return f"{head}{unigrams}\n\\2-grams:\n-0.69897 the cat\n\n\\end\\\n"


def some_results() -> Results:
    """A table with a row of each kind."""
    figures = Figures(0.2, 20, 100, 10, 5, 5, 30, 0.5, Interval(0.1, 0.3, 0.95))
    weights = Weights({"kn5": 1.0}, 5.0, -1.0, 2.0)
    change = Example(
        utterance="u1", errors_a=3, errors_b=1, differences=(),
        reference="the cat", before="the hat", now="the cat", score_gains={"kn5": 1.0},
    )  # fmt: skip
    done = ModelRow(
        name="kn5", label="KN5", paper=Paper("141", "8.8"), wer=figures, dev_wer=0.2, weights=weights,
        scale_curve=((1.0, 0.3),), parameters=100, training_seconds=1.0, rescoring_seconds=0.1,
        perplexity=TextPerplexity(reset=141.2), changed=(change,), curves={"dev_nll": ((1.0, 5.0), (2.0, 4.0))},
    )  # fmt: skip
    missing = MissingRow(name="lstm", label="LSTM", paper=Paper(), status="failed", reason="no model")
    made = Made("0.1.0", None, "2", "3.11", "x86_64", "", "2026-01-01")
    lists = {"dev": ListFacts(3, 9, 9, {"1": 0.3, "1000": 0.1}), "test": ListFacts(3, 9, 9, {"1": 0.3})}
    return Results("A table", "", "kn5", 1, made, lists, {"oracle": figures}, (done, missing))


def mutant(content: bytes, rng: random.Random) -> bytes:
    """A few of: bytes changed, a part left out, doubled or moved, something nasty put in; in JSON, values exchanged."""
    if content[:1] == b"{" and rng.random() < 0.7:
        try:
            return mutant_json(content, rng)
        except (ValueError, RecursionError):
            pass
    for _ in range(rng.choice([1, 1, 2, 5])):
        low, high = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        high = min(high, low + 200)
        match rng.randrange(5):
            case 0 if content:
                at = rng.randrange(len(content))
                content = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
            case 1:
                content = content[:low] + content[high:]
            case 2:
                content = content[:high] + content[low:]
            case 3:
                content = content[:low] + rng.choice(BYTES) + content[low:]
            case _:
                content = (
                    content[:low]
                    if rng.random() < 0.3
                    else content[:low] + str(rng.choice(NASTY))[:5000].encode() + content[high:]
                )
    return content


def mutant_json(content: bytes, rng: random.Random) -> bytes:
    """One value, anywhere, is another; of JSON Lines in one of the lines."""
    lines = content.splitlines() if content.count(b"\n{") else [content]
    at = rng.randrange(len(lines))
    whole = {"": json.loads(lines[at])}
    place, key = whole, ""
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:  # type: ignore[index]
        place = place[key]  # type: ignore[index]
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
    if rng.random() < 0.15 and key != "":
        del place[key]  # type: ignore[arg-type]
    else:
        place[key] = rng.choice(NASTY)  # type: ignore[index]
    lines[at] = json.dumps(whole[""]).encode()
    return b"\n".join(lines)


def case(target: Target, number: int, directory: Path) -> tuple[str, float]:
    """(what did not hold, if anything; seconds of a processor) of one mutant. The sandbox is left as it was."""
    file = directory / target.file
    content = file.read_bytes()
    file.write_bytes(mutant(content, random.Random(f"{target.file}:{number}")))
    try:
        done = trf(*target.words(directory), cwd=directory)
    finally:
        file.write_bytes(content)
        clean(directory)
    seconds = done.processor_seconds
    if "Traceback" in done.stderr:
        return done.stderr[-600:], seconds
    if done.returncode not in (0, 1, 2):
        return f"exit {done.returncode}: {done.stderr[-600:]}", seconds
    if done.returncode and not 0 < len(done.stderr) <= MOST_MESSAGE:
        return f"a message of {len(done.stderr)} characters: {done.stderr[:200]}", seconds
    if any(ord(letter) < 32 and letter not in "\n\t\r" for letter in done.stderr):
        return f"control characters in {done.stderr[:300]!r}", seconds
    too_much = seconds > MOST_SECONDS or done.most_bytes > MOST_BYTES
    return f"{seconds:.1f} s, {done.most_bytes / 1e9:.2f} GB" if too_much else "", seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--readers", action="store_true", help="in this process, not through the commands")
    parser.add_argument("--case", default="", help="FILE:NUMBER")
    parser.add_argument("--from", dest="first", type=int, default=0, help="number of the first mutant of each file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        sandbox(directory)
        if arguments.readers:
            more_files(directory)
        files = {target.file: functools.partial(case, target) for target in TARGETS}
        if arguments.readers:
            files = {file: functools.partial(read_mutant, file) for file in READERS}
        if arguments.case:
            file, _, number = arguments.case.rpartition(":")
            print(files[file](int(number), directory))
            return
        started, number, failures, slowest = time.monotonic(), arguments.first, 0, (0.0, "")
        while time.monotonic() - started < 60 * arguments.minutes:
            for file, check in files.items():
                problem, seconds = check(number, directory)
                slowest = max(slowest, (seconds, f"{file}:{number}"))
                if problem:
                    failures += 1
                    print(f"{file}:{number}  {printable(problem)}\n", flush=True)
            number += 1
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6 if arguments.readers else 0.0
        cases = (number - arguments.first) * len(files)
        failures += most * 1e9 > MOST_BYTES
        memory = f", at most {most:.2f} GB" if arguments.readers else ""
        print(f"{cases} cases, {failures} did not hold; slowest {slowest[0]:.1f} s ({slowest[1]}){memory}")
        sys.exit(failures > 0)


if __name__ == "__main__":
    main()
