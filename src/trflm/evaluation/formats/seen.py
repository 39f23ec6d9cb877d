"""Names that were met, with the line of each: 20 bytes a name or less, so that ten million of them fit in memory.

Of a name 64 bits are kept. Two names of ten million have the same ones with a probability of 3 in a million.
"""

from array import array

FULL = 0.7  # of the places, before there are twice as many
NOTHING = 0  # a free place


class Seen:
    """A table of hashes with open addressing."""

    def __init__(self) -> None:
        self.count, self.mask = 0, 63
        self.keys, self.lines = array("Q", bytes(8 * 64)), array("I", bytes(4 * 64))

    def line_of(self, name: str) -> int | None:
        """Where this name was met, None if it was not."""
        place = self._place(_key(name))
        return self.lines[place] if self.keys[place] != NOTHING else None

    def add(self, name: str, line: int) -> None:
        """A name that was not met before."""
        if self.count > FULL * self.mask:
            self._grow()
        self._put(_key(name), line)
        self.count += 1

    def _place(self, key: int) -> int:
        place = key & self.mask
        while self.keys[place] not in (NOTHING, key):
            place = (place + 1) & self.mask
        return place

    def _put(self, key: int, line: int) -> None:
        place = self._place(key)
        self.keys[place], self.lines[place] = key, line

    def _grow(self) -> None:
        keys, lines = self.keys, self.lines
        self.mask = 2 * self.mask + 1
        self.keys = array("Q", bytes(8 * (self.mask + 1)))
        self.lines = array(lines.typecode, bytes(lines.itemsize * (self.mask + 1)))
        for key, line in zip(keys, lines, strict=True):
            if key != NOTHING:
                self._put(key, line)


def _key(name: str) -> int:
    return hash(name) & (2**64 - 1) or 1
