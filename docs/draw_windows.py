"""Draws docs/windows.svg: which words each layer of the CNN potential sees, and which table rows an output of its bank sums.

    python docs/draw_windows.py

The offsets are the code's own (`half_offsets`) and the sizes the paper's (`CNNSize`), so the drawing shows what is computed.
"""

from pathlib import Path

from trflm.potentials.cnn.layers import half_offsets
from trflm.potentials.cnn.network import CNNSize

WIDTH, HEIGHT = 1040, 810
INK, QUIET, LINE, HERE = "#1b1f24", "#57606a", "#8c959f", "#fde9dd"
FILTER, POOLED, BELOW, ADDED, CHOSEN = "#4f86c6", "#c5daf1", "#e3b76b", "#f6e3bd", "#c2410c"
LEFT, CELL = 190, 38  # of the drawing of the windows
WORDS = range(-7, 10)  # what the last layer sees
EXAMPLE = 4  # the width whose table rows are shown


def text(x: float, y: float, content: str, fill: str = INK, size: int = 13, anchor: str = "start", weight: int = 400) -> str:
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{content}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, stroke: str = "white") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{stroke}"/>'


def place(offset: int) -> str:
    """Where a word stands, counted from position i."""
    return "i" if offset == 0 else minus(f"i{offset:+d}")


def minus(number: str) -> str:
    """With the sign that printers use."""
    return number.replace("-", "\u2212")


def column(offset: int) -> float:
    return LEFT + CELL * (offset - WORDS.start)


def bar(y: float, height: float, seen: range, fill: str) -> list[str]:
    return [box(column(offset), y, CELL, height, fill) for offset in seen]


def windows(config: CNNSize) -> list[str]:
    """The words, and below them what each layer sees: a pyramid."""
    right, y = column(WORDS.stop) + 14, 62
    parts = [text(20, 30, "What position i sees, layer by layer", size=17, weight=600)]
    parts += [box(column(0), y - 4, CELL, 340, HERE, "none"), text(20, y + 18, "words at")]
    for offset in WORDS:
        parts += [box(column(offset) + 2, y, CELL - 4, 26, "none", LINE)]
        parts += [text(column(offset) + CELL / 2, y + 17, place(offset), anchor="middle")]
    y += 40
    parts += [text(20, y + 12, "bank, filter widths k"), text(20, y + 30, "and max-pooling (light)", QUIET)]
    seen = range(0)
    for k in range(1, config.bank_width + 1):
        filtered = half_offsets(k)
        seen = range(filtered.start, filtered.stop + config.pool_width - 1)
        parts += bar(y, 16, seen, POOLED) + bar(y, 16, filtered, FILTER)
        parts += [text(column(-5) - 6, y + 13, f"k = {k}", QUIET, 12, "end")]
        parts += [text(right, y + 13, f"{k} word{'s' * (k > 1)}, pooled {len(seen)}", QUIET, 12)]
        y += 18
    reach = half_offsets(config.stack_width)
    for layer in range(1, config.stack_layers + 1):
        y += 8
        wider = range(seen.start + reach.start, seen.stop + reach.stop - 1)
        parts += bar(y, 28, wider, ADDED) + bar(y, 28, seen, BELOW)
        parts += [text(20, y + 19, f"stack, layer {layer}"), text(right, y + 19, f"{len(wider)} words", weight=600)]
        seen, y = wider, y + 28
    assert seen == WORDS, f"the drawing has room for {WORDS}, the CNN sees {seen}"
    legend = "Dark: the filter of the bank; in the stack, what the layer before has seen. Light: words that are added."
    return [*parts, text(20, y + 30, legend, QUIET)]


def table(config: CNNSize, top: float) -> list[str]:
    """The table rows of the words that one output of the bank sees, and the rows it sums."""
    n_pairs = config.bank_width * (config.bank_width + 1) // 2
    title = f"The table: {n_pairs} rows of {config.bank_filters} numbers a word, table[word, (k, o)] = F_k[o] y(word)"
    line = f"The bank's output of width {EXAMPLE} at position i sums {EXAMPLE} of them, one row of each word it sees:"
    parts = [text(20, top, title, size=17, weight=600), text(20, top + 24, line)]
    for number, seen in enumerate(half_offsets(EXAMPLE)):
        parts += rows_of_a_word(config, seen, 70 + 245 * number, top + 72, first=number == 0)
    return [*parts, text(20, top + 298, "f =", CHOSEN)]


def rows_of_a_word(config: CNNSize, seen: int, left: float, y: float, first: bool) -> list[str]:
    """A row of cells for each width k, a cell for each offset o; the one that is summed is marked."""
    cell, offsets = 21, half_offsets(config.bank_width)

    def middle(offset: int) -> float:
        return left + cell * (offset - offsets.start) + cell / 2

    parts = [text(middle(0), y - 10, f"rows of the word at {place(seen)}", anchor="middle")]
    for k in range(1, config.bank_width + 1):
        parts += [text(left - 8, y + 12, f"k = {k}", QUIET, 11, "end")] if first else []
        for o in half_offsets(k):
            parts += [box(middle(o) - cell / 2, y, cell, 15, CHOSEN if (k, o) == (EXAMPLE, seen) else POOLED)]
        y += 15
    parts += [text(left - 8, y + 13, "o =", QUIET, 11, "end")] if first else []
    parts += [text(middle(o), y + 13, minus(str(o)), QUIET, 10, "middle") for o in offsets]
    parts += [f'<path d="M{middle(seen):g} {y + 20} V{y + 56}" stroke="{CHOSEN}" marker-end="url(#tip)"/>']
    parts += [] if first else [text(middle(seen) - 133, y + 76, "+", anchor="middle")]
    row = f"table[word at {place(seen)}, ({EXAMPLE}, {minus(str(seen))})]"
    return [*parts, text(middle(seen), y + 76, row, CHOSEN, anchor="middle")]


def drawing() -> str:
    config = CNNSize()
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif">'
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    defs = f'<defs>{tip}<path d="M0 0 L8 4 L0 8 z" fill="{CHOSEN}"/></marker></defs>'
    parts = [head, defs, box(0, 0, WIDTH, HEIGHT, "white"), *windows(config), *table(config, 485), "</svg>"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("windows.svg").write_text(drawing(), encoding="utf-8")
