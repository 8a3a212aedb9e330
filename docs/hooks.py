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
        display = "block" if found[1] == "div" else "inline"
        return str(convert(html.unescape(found[2]), display=display))

    return _FORMULA.sub(formula, content)
