"""Formulas as MathML while the pages are built: no script, no font, no other host is needed."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])\s*</\1>', re.DOTALL
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
