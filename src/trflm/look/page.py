"""A self-contained page: one style sheet, no scripts, nothing fetched. Whatever comes from files is escaped."""

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

STYLE_SHEET = Path(__file__).parent / "look.css"


@cache
def style() -> str:
    return STYLE_SHEET.read_text(encoding="utf-8")


def page(title: str, *sections: str) -> str:
    """The whole file."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style()}</style>\n<main>\n"
        + "\n".join(sections)
        + "\n</main>\n</html>\n"
    )


def heading(title: str, about: str) -> str:
    return f'<header><h1>{html.escape(title)}</h1><p class="soft">{html.escape(about)}</p></header>'


def section(title: str, *content: str, note: str = "") -> str:
    """A part of a page; none if it has no content."""
    if not any(content):
        return ""
    said = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return f"<section><h2>{html.escape(title)}</h2>{said}{''.join(content)}</section>"


def figures(values: Iterable[tuple[str, str, str]]) -> str:
    """(name, value, small print) each."""
    items = (
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}"
        + (f"<small>{html.escape(more)}</small>" if more else "")
        + "</dd></div>"
        for name, value, more in values
    )
    return f'<dl class="figures">{"".join(items)}</dl>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), name: str = "") -> str:
    """The columns `numbers` are set to the right; the first cell of a row is its name."""
    right = set(numbers)

    def kind(column: int) -> str:
        return ' class="number"' if column in right else ""

    top = "".join(f'<th scope="col"{kind(i)}>{html.escape(cell)}</th>' for i, cell in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{html.escape(cell)}</th>' if i == 0 else f"<td{kind(i)}>{html.escape(cell)}</td>"
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    caption = f'<caption class="hidden">{html.escape(name)}</caption>' if name else ""
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="' + html.escape(name or "table") + '">'
        f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def settings(title: str, values: Mapping[str, Any]) -> str:
    """Nested settings as a table that is closed at first."""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>'
        for key, value in flat(values).items()
    )
    return f'<details><summary>{html.escape(title)}</summary><table class="settings"><tbody>{rows}</tbody></table></details>'


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as `section.key`."""
    pairs: dict[str, Any] = {}
    for key, value in values.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return pairs


def duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:.1f} h"
