"""What a worker tells its supervisor on stdout, a word a line, and what everybody tells the operator on stderr."""

import sys

from trflm.errors import printable

READY = "ready"  # it answers
LOADED = "loaded"  # after SIGHUP: the new rescorer is in use
KEPT = "kept"  # after SIGHUP: the new one could not be loaded, the old one is in use


def say(message: object) -> None:
    print(f"trf: {printable(message)}", file=sys.stderr, flush=True)
