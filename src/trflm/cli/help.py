"""Help that reads forwards: a default is shown where it says something, an option that may be left out by what it takes.

`readable` writes into the annotations of a command, which is where tyro looks for such wishes.
"""

import dataclasses
import inspect
from collections.abc import Callable
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import tyro

Command = Callable[..., None]
SILENT = {"None", "False", "", "''"}  # nothing: the option's own text tells it better
NAMES = {"str": "TEXT", "int": "N", "float": "X", "Path": "PATH"}


def short(command: Command) -> Command:
    """A stand-in with the first sentence of a command's description, for the overview of all commands."""

    def nothing() -> None: ...

    nothing.__doc__ = first_sentence(command)
    return nothing


def first_sentence(command: Command) -> str:
    text = " ".join(inspect.getdoc(command).partition("\n\n")[0].split())  # pyright: ignore[reportOptionalMemberAccess]
    return text.partition(". ")[0].rstrip(".") + "."


def readable(command: Command) -> Command:
    """The command, its options and those of its subcommands described in this way."""
    hints, parameters = get_type_hints(command, include_extras=True), inspect.signature(command).parameters
    command.__annotations__ |= {name: described(hints[name], parameters[name].default) for name in parameters}
    return command


def described(hint: Any, default: Any) -> Any:
    """The type of an option, with how its default is shown. A dataclass of options is described as it stands."""
    inner, *wishes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    for constructor in constructors(hint).values():
        readable(constructor)
    if isinstance(inner, type) and dataclasses.is_dataclass(inner):
        hints = get_type_hints(inner, include_extras=True)
        inner.__annotations__ |= {
            field.name: described(hints[field.name], field.default) for field in dataclasses.fields(inner)
        }
    elif default is not inspect.Parameter.empty and default is not dataclasses.MISSING:
        ours = tyro.conf.arg(help_behavior_hint=default_shown, metavar=metavar(inner))
        return Annotated[inner, ours, *wishes]  # an option's own wishes come last, and count
    return hint


def default_shown(default: str) -> str:
    return "" if default in SILENT else f"(default: {default})"


def metavar(inner: Any) -> str | None:
    """What an option takes that may be left out: PATH instead of {None}|PATH."""
    kinds = [get_args(kind)[0] if get_origin(kind) is Annotated else kind for kind in get_args(inner) if kind is not NoneType]
    return NAMES.get(kinds[0].__name__) if len(kinds) == 1 and NoneType in get_args(inner) else None


def constructors(hint: Any) -> dict[str, Command]:
    """name -> function of the subcommands that an argument may be."""
    if get_origin(hint) is not Annotated:
        return {name: made for part in get_args(hint) for name, made in constructors(part).items()}
    named = [wish for wish in get_args(hint)[1:] if hasattr(wish, "constructor_factory") and getattr(wish, "name", None)]
    if named:
        return {wish.name: wish.constructor_factory() for wish in named if wish.constructor_factory is not None}
    return constructors(get_args(hint)[0])


def subcommands(command: Command) -> list[str]:
    """The names of a command's subcommands."""
    hints = get_type_hints(command, include_extras=True)
    return [name for hint in hints.values() for name in constructors(hint)]
