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

# `benchmarks` is not installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import RECORDS, markdown_table
from leporid.artifacts import read_json

_RECORD = re.compile(r"^<!-- record (\w+) -->$", re.MULTILINE)
_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])\s*</\1>', re.DOTALL
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace `<!-- record NAME -->` by the table of `benchmarks/records/NAME.json`."""
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
