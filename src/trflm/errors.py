"""The two errors a user may see. Their messages name the file, the line, the value and the remedy."""


class InputError(ValueError):
    """Something the user gave us is wrong. The command line prints the message alone and exits with 2."""


class TrainingError(RuntimeError):
    """Training cannot go on. The command line prints the message alone and exits with 1."""
