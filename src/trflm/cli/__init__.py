"""The `trf` command: one module a command. Each parses and prints; none holds mathematics.

Results go to stdout, progress and warnings to stderr. Exit status: 0 done, 2 wrong use or bad input, 1 anything else,
130 interrupted. torch is imported by the commands that need it, when they need it, so that `trf --help` stays fast.
"""

import difflib
import os
import platform
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn

import tyro

import trflm
from trflm.cli.bench import bench
from trflm.cli.bounds import bounded
from trflm.cli.calibrate import calibrate
from trflm.cli.demo import demo
from trflm.cli.doctor import doctor
from trflm.cli.explain import explain
from trflm.cli.help import readable, short, subcommands
from trflm.cli.nbest import nbest
from trflm.cli.perplexity import perplexity
from trflm.cli.recipes import recipes
from trflm.cli.report import report
from trflm.cli.reproduce import reproduce
from trflm.cli.rescore import merge, rescore
from trflm.cli.sample import sample
from trflm.cli.score import score
from trflm.cli.serve import serve
from trflm.cli.train import train
from trflm.cli.tune import tune
from trflm.cli.wer import wer
from trflm.errors import InputError, TrainingError, printable

COMMANDS: dict[str, Callable[..., None]] = {
    "train": train,
    "recipes": recipes,
    "score": score,
    "sample": sample,
    "explain": explain,
    "doctor": doctor,
    "tune": tune,
    "rescore": rescore,
    "rescore-merge": merge,
    "serve": serve,
    "wer": wer,
    "nbest": nbest,
    "report": report,
    "perplexity": perplexity,
    "calibrate": calibrate,
    "reproduce": reproduce,
    "demo": demo,
    "bench": bench,
}


ABOUT = """Whole-sentence random field language models: train them, score with them, look into them.

    trf train tiny --out runs/tiny     train a small model in seconds; trf recipes list shows what else can be trained
    trf score runs/tiny text.txt       one natural-log probability a line
    trf COMMAND --help                 all about a command; trf --version: what is installed"""


def main() -> NoReturn:
    """Run one command of `sys.argv`, and end the process with its exit status."""
    warnings.showwarning = lambda message, *where: complain(message, 0)
    if sys.argv[1:3] == ["rescore", "merge"]:
        sys.argv[1:3] = ["rescore-merge"]
    try:
        if sys.argv[1:] == ["--version"]:
            print(version())
            sys.exit(0)
        words = checked(sys.argv[1:])
        tyro.extras.subcommand_cli_from_dict(
            {name: bounded(readable(command)) if name == words[0] else short(command) for name, command in COMMANDS.items()},
            prog="trf",
            description=ABOUT,
            args=words,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        sys.stdout.flush()
    except InputError as error:
        sys.exit(complain(error, 2))
    except (TrainingError, ChildProcessError) as error:
        sys.exit(complain(error, 1))
    except BrokenPipeError:  # the reader of our output has gone, as with `trf score ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a full disk, or a pipe or file that failed under our hands
        try:
            sys.stdout.flush()
        except OSError:  # what is left cannot be written either, and Python would try again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(complain(f"{error.filename or 'writing'}: {error.strerror or error}", 1))
    except (MemoryError, RuntimeError) as error:  # torch says by a RuntimeError that it is out of memory
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        sys.exit(complain("out of memory; use a smaller batch or shorter sentences", 1))
    except KeyboardInterrupt:
        sys.exit(complain("interrupted", 130))
    sys.exit(0)


def version() -> str:
    """What a report of a fault should name."""
    from importlib.metadata import version as of

    return f"trf {trflm.__version__} (Python {platform.python_version()}, torch {of('torch')}, {platform.machine()})"


def checked(words: list[str]) -> list[str]:
    """The words of a command line: a mistyped command is an error that names the nearest, a command left open asks for help."""
    known, before = list(COMMANDS), "trf"
    for word in words:
        if word.startswith("-") or not known:
            return words
        if word not in known:
            close = difflib.get_close_matches(word, known, n=1)
            remedy = f"did you mean {before} {close[0]}?" if close else f"the commands are {', '.join(known)}"
            raise InputError(f"{before} {word}".removeprefix("trf ") + f": there is no such command; {remedy}")
        known, before = subcommands(COMMANDS[word]) if before == "trf" else [], f"{before} {word}"
    return [*words, "--help"] if known else words


def complain(error: object, status: int) -> int:
    """Of several processes on a machine (torchrun), the first speaks for all: what went wrong is the same for each."""
    if "WORLD_SIZE" not in os.environ or os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"trf: {printable(error)}", file=sys.stderr)
    return status
