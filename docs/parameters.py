"""Docstrings as the site shows them: `name : a sentence` is a description, not a type.

Types are in the signatures. Griffe would take the words after the colon for one where no indented
description follows.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"(^Parameters\n-+\n)(.*?)(?=^\w+\n-{3,}$|\Z)", re.MULTILINE | re.DOTALL)
_BARE = re.compile(r"^(\w[\w, ]*) : (.+)$(?!\n    )", re.MULTILINE)


def described(text: str) -> str:
    """The docstring with its one-line parameters in numpydoc's two lines."""
    return _SECTION.sub(lambda found: found[1] + _BARE.sub(r"\1\n    \2", found[2]), text)


class Parameters(griffe.Extension):
    """Called by griffe for every object it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring before it is parsed."""
        if obj.docstring:
            obj.docstring.value = described(obj.docstring.value)
