"""Every number on a command line is in the range that its type states, before the command begins."""

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

from trflm import ranges

Command = Callable[..., None]


def bounded(command: Command) -> Command:
    """The command; a number out of its range is an InputError that names the option."""
    return ranges.bounded(command, option)


def option(name: str, hint: Any) -> str:
    """How the user wrote it."""
    wishes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    named = next((wish.name for wish in wishes if getattr(wish, "name", None)), name)
    return f"--{named.replace('_', '-')} "
