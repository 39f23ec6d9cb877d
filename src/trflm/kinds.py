"""A kind of thing (a potential, a learner, noise) is a frozen dataclass with `kind: Literal["..."]` and `build(...)` beside its
class, named once in a plain tuple of its folder. A section of a recipe lists what it may hold by `one_of`:

    model: PotentialConfig = one_of(lambda: potentials.POTENTIALS)

so a new kind is one new file and one line in that tuple.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Annotated, Any

import torch

from trflm.text import Text, Vocab

KINDS = "kinds"  # the key in a field's metadata
PATH = "a path"
PathName = Annotated[str, PATH]  # a key that names a file or directory; experiment/paths.py looks for it


def one_of(kinds: Callable[[], tuple[type, ...]], default: Any = MISSING) -> Any:
    """A dataclass field that holds one of these kinds, the first if nothing is said; or with a `default` of (), any number.
    The tuple is asked for when a recipe is read."""
    if default is MISSING:

        def first() -> Any:
            return kinds()[0]()

        return field(default_factory=first, metadata={KINDS: kinds})
    return field(default=default, metadata={KINDS: kinds})


@dataclass(frozen=True)
class Start:
    """What a new object may start from. `fresh` is False where a file follows that holds its parameters: then nothing that only
    a start needs is computed, and there may be no text."""

    vocab: Vocab
    text: Text | None = None
    rng: torch.Generator | None = None
    seed: int = 0
    fresh: bool = False

    def drawing(self, rng: torch.Generator) -> "Start":
        """The same with another source of randomness."""
        return Start(self.vocab, self.text, rng, self.seed, self.fresh)
