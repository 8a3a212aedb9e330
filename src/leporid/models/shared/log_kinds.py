"""Kinds of log a recipe may tell apart, by numbers of the training part alone.

The seven logs the limits were set on, and what each limit decides, are in docs/models.md.
"""

from __future__ import annotations

from collections.abc import Callable

from leporid.data import Interactions

_SHORT, _LONG = 25, 50
"""Training interactions per user, on average."""
_SMALL, _LARGE = 50_000, 200_000
"""Training interactions."""

KINDS: dict[str, Callable[[Interactions], bool]] = {
    "short histories": lambda train: len(train) < _SHORT * train.n_users,
    "small": lambda train: len(train) < _SMALL,
    "large": lambda train: len(train) >= _LARGE,
    "large with long histories in order": lambda train: (
        len(train) >= max(_LARGE, _LONG * train.n_users) and train.time is not None
    ),
    "large without order": lambda train: len(train) >= _LARGE and train.time is None,
}
"""By name, the general ones before the special ones."""


def kinds_of(train: Interactions) -> list[str]:
    """The kinds a training part belongs to."""
    return [name for name, belongs in KINDS.items() if belongs(train)]
