"""The kernel of the synthetic generator: one user's path, one item after the other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.kernel import kernel
from leporid.random_stream import next_state, to_bits, uniform

_DRIFT = 2.2
"""Angle in radians that a user's position travels between first and last interaction."""
_REACH = 0.35
"""How far from their position users look for items."""
_BACKGROUND = 0.15
"""Share of interactions drawn by popularity alone."""
_NEW_SESSION = 0.2
"""Sessions last five interactions on average."""
_WOBBLE = 0.12
"""How far a session strays from the path, as the standard deviation in each coordinate."""
_TRIES = 200
"""Proposals near the position before falling back to popularity, then to any unseen item."""


class Catalogue(NamedTuple):
    """The items, sorted by their finest community."""

    positions: NDArray[np.float64]
    """float64[n_items, d]."""
    cumulative: NDArray[np.float64]
    """float64[n_items]: running sum of popularity."""
    starts: NDArray[np.int64]
    """int64[communities + 1]: where each community begins."""
    centres: NDArray[np.float64]
    """float64[communities, d]."""
    radius: NDArray[np.float64]
    """float64[communities]: largest distance of an item from the centre of its community."""


class _Walker(NamedTuple):
    """One user at a time: what the steps of a path share."""

    here: NDArray[np.float64]
    """float64[d]: the position of the session."""
    bound: NDArray[np.float64]
    """float64[communities]: the smallest possible distance^2 / (2 reach^2) of its items."""
    weights: NDArray[np.float64]
    """float64[communities]: running sum of what each can weigh at most."""
    seen: NDArray[np.int64]
    """int64[n_items]: the last user who had the item."""
    state: NDArray[np.uint64]
    """uint64[1]: of the user's own stream of random numbers."""


@kernel(inline="always")
def _draw(state: NDArray[np.uint64]) -> Any:
    """The next number in [0, 1) of a stream."""
    state[0] = next_state(state[0])
    return uniform(to_bits(state[0]))


@kernel
def _first_above(cumulative: NDArray[np.float64], low: int, high: int, value: float) -> int:
    """The first index in [low, high) whose cumulative weight exceeds `value`."""
    return int(low + np.searchsorted(cumulative[low : high - 1], value, side="right"))


@kernel(inline="always")
def _square_distance(points: NDArray[np.float64], row: int, here: NDArray[np.float64]) -> float:
    square = 0.0
    for j in range(len(here)):
        square += (points[row, j] - here[j]) ** 2
    return square


@kernel(inline="always")
def _mass(items: Catalogue, group: int) -> Any:
    """Popularity before a community, and within it."""
    start, stop = items.starts[group], items.starts[group + 1]
    before = items.cumulative[start - 1] if start > 0 else 0.0
    return before, items.cumulative[stop - 1] - before


@kernel
def _begin_session(
    walker: _Walker, items: Catalogue, home: Any, ahead: Any, sharpness: float
) -> None:
    """A new session at `home + ahead` (on a great circle) plus a wobble; weigh the communities."""
    here, norm = walker.here, 0.0
    for j in range(len(here)):
        # Box-Muller; 1 - u is never zero.
        away = math.sqrt(-2.0 * math.log(1.0 - _draw(walker.state)))
        away *= math.cos(2.0 * math.pi * _draw(walker.state))
        here[j] = home[j] + ahead[j]
        here[j] += _WOBBLE * away
        norm += here[j] * here[j]
    here /= math.sqrt(norm)
    running = 0.0
    for g in range(len(walker.bound)):
        near = max(0.0, math.sqrt(_square_distance(items.centres, g, here)) - items.radius[g])
        walker.bound[g] = near * near * sharpness
        running += math.exp(-walker.bound[g]) * _mass(items, g)[1]
        walker.weights[g] = running


@kernel
def _nearby(walker: _Walker, items: Catalogue, user: int, sharpness: float) -> int:
    """An unseen item drawn from popularity * exp(-distance^2 * sharpness); -1 after many tries.

    A community is proposed with the largest value the density can take inside it (it lies within
    `radius` of its centre), an item by popularity, and the proposal is accepted with the ratio.
    """
    weights, state = walker.weights, walker.state
    for _ in range(_TRIES):
        g = _first_above(weights, 0, len(weights), _draw(state) * weights[-1])
        before, mass = _mass(items, g)
        value = before + _draw(state) * mass
        tried = _first_above(items.cumulative, items.starts[g], items.starts[g + 1], value)
        if walker.seen[tried] == user:
            continue
        square = _square_distance(items.positions, tried, walker.here)
        if _draw(state) < math.exp(walker.bound[g] - square * sharpness):
            return tried
    return -1


@kernel
def _anywhere(walker: _Walker, cumulative: NDArray[np.float64], user: int) -> int:
    """An unseen item drawn by popularity, else the next one after a random index."""
    seen, state = walker.seen, walker.state
    for _ in range(_TRIES):
        tried = _first_above(cumulative, 0, len(seen), _draw(state) * cumulative[-1])
        if seen[tried] != user:
            return tried
    index = int(_draw(state) * len(seen))
    while seen[index] == user:
        index = (index + 1) % len(seen)
    return index


@kernel
def walk_users(
    first_user: int,
    last_user: int,
    indptr: NDArray[np.int64],
    home: NDArray[np.float64],
    direction: NDArray[np.float64],
    items: Catalogue,
    seed: np.uint64,
    indices: NDArray[np.int32],
    session: NDArray[np.bool_],
) -> None:
    """Fill `indices` (in the catalogue) and `session` for users in [first_user, last_user)."""
    groups, d = items.centres.shape
    seen, state = np.full(len(items.positions), -1, np.int64), np.empty(1, np.uint64)
    walker = _Walker(np.empty(d), np.empty(groups), np.empty(groups), seen, state)
    sharpness = 1.0 / (2.0 * _REACH * _REACH)
    for user in range(first_user, last_user):
        state[0] = to_bits(seed + np.uint64(user) * next_state(np.uint64(0)))
        begin, end = indptr[user], indptr[user + 1]
        for row in range(begin, end):
            session[row] = row == begin or _draw(state) < _NEW_SESSION
            if session[row]:
                angle = _DRIFT * ((row - begin) / (end - begin) - 0.5)
                towards = math.cos(angle) * home[user], math.sin(angle) * direction[user]
                _begin_session(walker, items, *towards, sharpness)
            index = -1
            if _draw(state) >= _BACKGROUND and walker.weights[-1] > 0.0:
                index = _nearby(walker, items, user, sharpness)
            if index < 0:
                index = _anywhere(walker, items.cumulative, user)
            seen[index] = user
            indices[row] = index
