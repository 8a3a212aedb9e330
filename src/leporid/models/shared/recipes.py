"""Recipes: the settings of `general`, and the kinds of log that it tells apart.

The seven logs the limits were set on, and what each limit decides, are in docs/models.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leporid.data import Interactions

GENERAL: dict[str, Any] = {
    "schedule": "inverse-root", "ema_share": 0.1, "steps": 10_000, "passes": 0.0,
    "eval_every": 125, "patience": 4,
}  # fmt: skip
"""The recipe `general` of neural models: patience on validation ends a run, on any log."""

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
