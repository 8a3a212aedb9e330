"""While the pages are built: files of the repository's root become pages, and formulas MathML.

No script, no font and no other host is needed.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parent
ROOT_PAGES = {
    "architecture.md": "ARCHITECTURE.md",
    "changelog.md": "CHANGELOG.md",
    "glossary.md": "GLOSSARY.md",
}
"""Pages of the site that are files of the repository's root."""

_LINK = re.compile(r"\[([^]]*)\]\((?!https?:)([^)#\s]+)[^)]*\)")
_ROOT_LINK = re.compile(r"\]\(\.\./(\w+\.md)")
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])\s*</\1>', re.DOTALL
)


def included(name: str) -> str:
    """A file of the repository's root; its links lead to pages, or are plain text."""

    def link(found: re.Match[str]) -> str:
        page = Path(found[2]).name.lower()
        is_page = page in ROOT_PAGES or (DOCS / page).is_file()
        return f"[{found[1]}]({page})" if is_page else found[1]

    return _LINK.sub(link, (DOCS.parent / name).read_text(encoding="utf-8"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are files of the repository's root."""
    for page, name in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=included(name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files of the root to their pages."""
    return _ROOT_LINK.sub(lambda found: f"]({found[1].lower()}", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for each page."""

    def formula(found: re.Match[str]) -> str:
        latex = html.unescape(found[2])
        if found[1] == "span":
            return str(convert(latex, display="inline"))
        # What is wider than a phone scrolls by itself, not with the page.
        return f'<div style="overflow: auto hidden">{convert(latex, display="block")}</div>'

    return _FORMULA.sub(formula, content)
