"""Docstrings as the site shows them: what follows `name :` is a description, unless it is a type.

Types are in the signatures. Griffe takes the words after the colon for a type, also where they are
the first half of a sentence that goes on in the next line.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"(^Parameters\n-+\n)(.*?)(?=^\w+\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(
    r"^(\*{0,2}\w[\w, *]*) : (.+)(?:\n|\Z)((?: {4}.*(?:\n|\Z)|\n)*)", re.MULTILINE
)
_TYPE = re.compile(
    r"(?:int|float|str|bool|bytes|path|dict|list|tuple|None|callable|True|False|[A-Z]\w+|'[^']*'"
    r"|\"[^\"]*\"|(?:u?int|float)\d+\[[^]]*\]|[\d.]+)(?:(?:,| or|, or) |\[|\]|$)"
)


def described(text: str) -> str:
    """The docstring with parameters in numpydoc's two lines: name, then description."""

    def rewrite(found: re.Match[str]) -> str:
        name, first, rest = found.groups()
        if not _TYPE.sub("", first).strip():
            return found[0]
        following = rest.strip()[:1]
        # A new sentence begins with a capital; inside brackets the old one goes on.
        ends = following.isupper() or (following == "`" and len(first) < 50)
        stop = "." if ends and first.count("(") == first.count(")") else ""
        return f"{name}\n    {first.rstrip('.') if stop else first}{stop}\n{rest}"

    return _SECTION.sub(lambda found: found[1] + _PARAMETER.sub(rewrite, found[2]), text)


class Parameters(griffe.Extension):
    """Called by griffe for every object it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring before it is parsed."""
        if obj.docstring:
            obj.docstring.value = described(obj.docstring.value)
