"""The kernel of the synthetic generator: one user's path, one item after the other."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["walk_users"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)

_NEW_SITTING = 0.2
"""Sittings last five interactions on average."""
_WOBBLE = 0.12
"""How far a sitting strays from the path, as the standard deviation in each coordinate."""
_TRIES = 200
"""Proposals near the position before falling back to popularity, then to any unseen item."""


@njit(cache=True, nogil=True, inline="always")
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@njit(cache=True, nogil=True, inline="always")
def _uniform(state: NDArray[np.uint64]) -> float:
    """The next number in [0, 1) of a user's own stream (splitmix64)."""
    state[0] += _GOLDEN
    return float(_mix(state[0]) >> _S11) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def _first_above(cumulative: NDArray[np.float64], low: int, high: int, value: float) -> int:
    """The first place in [low, high) whose cumulative weight exceeds `value`."""
    last = high - 1
    while low < last:
        middle = (low + last) // 2
        if cumulative[middle] > value:
            last = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def walk_users(
    first_user: int,
    last_user: int,
    indptr: NDArray[np.int64],
    home: NDArray[np.float64],
    direction: NDArray[np.float64],
    positions: NDArray[np.float64],
    cumulative: NDArray[np.float64],
    starts: NDArray[np.int64],
    centres: NDArray[np.float64],
    radius: NDArray[np.float64],
    drift: float,
    reach: float,
    background: float,
    seed: np.uint64,
    places: NDArray[np.int32],
    sitting: NDArray[np.bool_],
) -> None:
    """Fill `places` and `sitting` for users in [first_user, last_user).

    Items are sorted by their finest community (`starts`); `cumulative` is the running sum of
    their popularity. An item is drawn exactly from popularity * exp(-distance^2 / (2 reach^2)):
    a community is proposed with the largest value the kernel can take inside it (it lies within
    `radius` of its centre), an item by popularity, and the proposal is accepted with the ratio.
    """
    n_items, d = positions.shape
    n_groups = len(centres)
    seen = np.full(n_items, -1, dtype=np.int64)
    here = np.empty(d)
    bound = np.empty(n_groups)
    group_cumulative = np.empty(n_groups)
    state = np.empty(1, dtype=np.uint64)
    sharpness = 1.0 / (2.0 * reach * reach)
    total = cumulative[n_items - 1]

    for user in range(first_user, last_user):
        state[0] = _mix(seed + np.uint64(user) * _GOLDEN)
        begin, end = indptr[user], indptr[user + 1]
        for row in range(begin, end):
            fresh = row == begin or _uniform(state) < _NEW_SITTING
            sitting[row] = fresh
            if fresh:
                # Where the user is now: on the great circle through home, plus a wobble.
                angle = drift * ((row - begin) / (end - begin) - 0.5)
                norm = 0.0
                for j in range(d):
                    # Box-Muller; 1 - u is never zero.
                    away = math.sqrt(-2.0 * math.log(1.0 - _uniform(state)))
                    away *= math.cos(2.0 * math.pi * _uniform(state))
                    here[j] = math.cos(angle) * home[user, j] + math.sin(angle) * direction[user, j]
                    here[j] += _WOBBLE * away
                    norm += here[j] * here[j]
                norm = math.sqrt(norm)
                for j in range(d):
                    here[j] /= norm
                running = 0.0
                for g in range(n_groups):
                    square = 0.0
                    for j in range(d):
                        square += (centres[g, j] - here[j]) ** 2
                    near = max(0.0, math.sqrt(square) - radius[g])
                    bound[g] = near * near * sharpness
                    before = cumulative[starts[g] - 1] if starts[g] > 0 else 0.0
                    mass = cumulative[starts[g + 1] - 1] - before
                    running += math.exp(-bound[g]) * mass
                    group_cumulative[g] = running

            place = -1
            if _uniform(state) >= background and running > 0.0:
                for _ in range(_TRIES):
                    g = _first_above(group_cumulative, 0, n_groups, _uniform(state) * running)
                    before = cumulative[starts[g] - 1] if starts[g] > 0 else 0.0
                    mass = cumulative[starts[g + 1] - 1] - before
                    value = before + _uniform(state) * mass
                    tried = _first_above(cumulative, starts[g], starts[g + 1], value)
                    if seen[tried] == user:
                        continue
                    square = 0.0
                    for j in range(d):
                        square += (positions[tried, j] - here[j]) ** 2
                    if _uniform(state) < math.exp(bound[g] - square * sharpness):
                        place = tried
                        break
            if place < 0:
                for _ in range(_TRIES):
                    tried = _first_above(cumulative, 0, n_items, _uniform(state) * total)
                    if seen[tried] != user:
                        place = tried
                        break
            if place < 0:
                place = int(_uniform(state) * n_items)
                while seen[place] == user:
                    place = (place + 1) % n_items
            seen[place] = user
            places[row] = place
