"""`Split`: train, validation and test parts that share their id maps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions

__all__ = ["Part", "Split"]

Part = Literal["valid", "test"]


@dataclass(frozen=True, eq=False)
class Split:
    """Three parts of one log; every part has the same users and items in its id maps."""

    train: Interactions
    valid: Interactions
    test: Interactions
    protocol: str
    """How it was made, for example 'temporal(0.7, 0.1)'."""

    @property
    def users(self) -> IdMap:
        """External user ids."""
        return self.train.users

    @property
    def items(self) -> IdMap:
        """External item ids."""
        return self.train.items

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.train.n_users

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.train.n_items

    @cached_property
    def train_valid(self) -> Interactions:
        """Train followed by validation within each user: what is known when testing."""
        user = np.concatenate([self.train.user, self.valid.user])
        order = np.argsort(user, kind="stable")
        time = None
        if self.train.time is not None and self.valid.time is not None:
            time = np.concatenate([self.train.time, self.valid.time])[order]
        item = np.concatenate([self.train.item, self.valid.item])[order]
        return Interactions(user[order], item, time, self.users, self.items)

    def known(self, part: Part) -> Interactions:
        """What a recommender may know of a user, and must not recommend, when judged on `part`."""
        return self.train if part == "valid" else self.train_valid

    def part(self, part: Part) -> Interactions:
        """The held-out interactions of `part`."""
        return self.valid if part == "valid" else self.test

    @cached_property
    def digest(self) -> str:
        """A hash of the three parts."""
        return "-".join(p.digest[:8] for p in (self.train, self.valid, self.test))
