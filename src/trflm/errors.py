"""The two errors a user may see. Their messages name the file, the line, the value and the remedy."""


class InputError(ValueError):
    """Something the user gave us is wrong. The command line prints the message alone and exits with 2."""


class TrainingError(RuntimeError):
    """Training cannot go on. The command line prints the message alone and exits with 1."""


def printable(message: object, most: int = 1800) -> str:
    """A message for a terminal: what it quotes may be of any length and hold anything, so its middle is left out beyond `most`
    characters, and control characters are written as escapes."""
    text = str(message)
    if len(text) > most:
        text = f"{text[: most // 2]} ... ({len(text) - most:,} characters left out) ... {text[-most // 2 :]}"
    return "".join(letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1] for letter in text)
