"""Small training data with a structure to find, never square."""

from __future__ import annotations

from typing import Any

import numpy as np

from leporid.data import IdMap, Interactions


def make_interactions(
    dense: np.ndarray[Any, Any], string_items: bool = False, times: bool = True
) -> Interactions:
    """The non-zero cells of a user x item matrix; ids are not the positions."""
    user, item = np.nonzero(dense)
    n_users, n_items = dense.shape
    users = IdMap.from_values([100 + 3 * u for u in range(n_users)], "user")
    names: list[Any] = [f"é{i:04d}" if string_items else 7 + 2 * i for i in range(n_items)]
    time = np.random.default_rng(5).permutation(len(user)) if times else None
    return Interactions.from_arrays(user, item, time, users, IdMap.from_values(names, "item"))


def planted(
    n_users: int = 90, n_items: int = 60, blocks: int = 3, seed: int = 0, **options: Any
) -> Interactions:
    """`blocks` communities: 40% of the cells inside a community, 3% outside."""
    rng = np.random.default_rng(seed)
    user_block = np.arange(n_users) % blocks
    item_block = np.arange(n_items) * blocks // n_items
    inside = user_block[:, None] == item_block[None, :]
    dense = rng.random((n_users, n_items)) < np.where(inside, 0.4, 0.03)
    dense[np.arange(n_users), np.arange(n_users) % n_items] = True
    return make_interactions(dense, **options)


class SplitMix:
    """Random numbers of compiled loops, in plain integers: stream named (seed, first, second)."""

    STEP = 0x9E3779B97F4A7C15

    def __init__(self, seed: int, first: int, second: int) -> None:
        self.state = 0
        for name in (seed, first, second):
            self.state = self._mix((self.state ^ name) + self.STEP)

    @staticmethod
    def _mix(z: int) -> int:
        z &= 2**64 - 1
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & (2**64 - 1)
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & (2**64 - 1)
        return z ^ (z >> 31)

    def bits(self) -> int:
        """The next 64 random bits."""
        self.state += self.STEP
        return self._mix(self.state)

    def below(self, n: int) -> int:
        """The next integer in [0, n)."""
        return (self.bits() >> 32) * n >> 32

    def uniform(self) -> float:
        """The next number in [0, 1)."""
        return (self.bits() >> 11) / 2**53
