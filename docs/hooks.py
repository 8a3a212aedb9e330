"""While the pages are built: tables of benchmark records, and formulas as MathML.

No script, no font and no other host is needed.
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

DOCS = Path(__file__).resolve().parent
# `benchmarks` is not installed.
sys.path.insert(0, str(DOCS.parent))

from benchmarks.harness import RECORDS, markdown_table
from leporid.foundation import read_json

_INCLUDED = re.compile(r'^--8<-- "(\w+\.md)"$', re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\((?!https?:)([^)#\s]+)[^)]*\)")
_RECORD = re.compile(r"^<!-- record (\w+) -->$", re.MULTILINE)
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])\s*</\1>', re.DOTALL
)


def included(name: str) -> str:
    """A file of the repository's root; its links lead to pages, or are plain text."""

    def link(found: re.Match[str]) -> str:
        page = Path(found[2]).name.lower()
        return f"[{found[1]}]({page})" if (DOCS / page).is_file() else found[1]

    return _LINK.sub(link, (DOCS.parent / name).read_text(encoding="utf-8"))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Include files of the root, and replace `<!-- record NAME -->` by that record's table."""
    markdown = _INCLUDED.sub(lambda found: included(found[1]), markdown)
    return _RECORD.sub(
        lambda found: markdown_table(read_json(RECORDS / f"{found[1]}.json")), markdown
    )


def on_page_content(content: str, **_: Any) -> str:
    """Called by mkdocs for each page."""

    def formula(found: re.Match[str]) -> str:
        latex = html.unescape(found[2])
        if found[1] == "span":
            return str(convert(latex, display="inline"))
        # What is wider than a phone scrolls by itself, not with the page.
        return f'<div style="overflow: auto hidden">{convert(latex, display="block")}</div>'

    return _FORMULA.sub(formula, content)
