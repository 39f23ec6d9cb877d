"""A hook of mkdocs: README.md and CONTRIBUTING.md, which lie beside docs/, become pages of the site; links to files that are
no pages become plain text."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
BESIDE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, name in BESIDE.items():
        text = (
            (ROOT / name)
            .read_text(encoding="utf-8")
            .replace("](docs/", "](")
            .replace("](CONTRIBUTING.md)", "](contributing.md)")
        )
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, files: Files, **_: object) -> str:
    """Links to what is not in the site (sources, notebooks) become plain text."""

    def kept(found: re.Match[str]) -> str:
        target = found[2].partition("#")[0]
        inside = not target or "://" in target or files.get_file_from_path(target) is not None
        return found[0] if inside else found[1]

    return LINK.sub(kept, markdown)
