"""Synthetic logs whose geometry is known, so that its recovery can be scored.

Users and items live on a unit sphere in `dimension` dimensions. Communities are nested at
several scales: each splits into smaller ones nearer to each other. A user's next item is drawn
with probability proportional to

    popularity(item) * exp(-|item - position|^2 / (2 reach^2)),

without repeats, where the position moves along a great circle while time passes (drift, mostly
along a current that all users share) and wobbles from one sitting to the next. Popularity and
activity follow power laws. Every random number comes from the seed; the result does not depend
on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.recovery import RecoveryScore, recovery_score
from leporid.data.synthetic_walk import walk_users
from leporid.errors import ConfigError

__all__ = ["RecoveryScore", "SyntheticData", "recovery_score", "synthesize", "synthesize_planted"]

_SECONDS_A_DAY = 86_400
_BEGINNING = 946_684_800
"""1 January 2000, when the first user may arrive."""


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """A log together with the geometry it was drawn from."""

    interactions: Interactions
    user_positions: NDArray[np.float32]
    """float32[n_users, dimension], unit rows: the middle of each user's path."""
    item_positions: NDArray[np.float32]
    """float32[n_items, dimension], unit rows."""
    user_communities: NDArray[np.int32]
    """int32[n_users, scales]: the community at each scale, coarsest first."""
    item_communities: NDArray[np.int32]
    """int32[n_items, scales]."""


def synthesize(
    users: int = 1000,
    items: int = 500,
    interactions: int = 50_000,
    *,
    seed: int = 0,
    communities: Sequence[int] = (5, 4, 3),
    dimension: int = 6,
    exponent: float = 2.5,
    activity: float = 1.8,
    min_activity: int = 20,
    drift: float = 2.2,
    reach: float = 0.35,
    background: float = 0.15,
) -> Interactions:
    """A seeded log with communities, power laws and drift; see `synthesize_planted`."""
    return synthesize_planted(
        users,
        items,
        interactions,
        seed=seed,
        communities=communities,
        dimension=dimension,
        exponent=exponent,
        activity=activity,
        min_activity=min_activity,
        drift=drift,
        reach=reach,
        background=background,
    ).interactions


def synthesize_planted(
    users: int = 1000,
    items: int = 500,
    interactions: int = 50_000,
    *,
    seed: int = 0,
    communities: Sequence[int] = (5, 4, 3),
    dimension: int = 6,
    exponent: float = 2.5,
    activity: float = 1.8,
    min_activity: int = 20,
    drift: float = 2.2,
    reach: float = 0.35,
    background: float = 0.15,
) -> SyntheticData:
    """A seeded log and its planted geometry.

    Parameters
    ----------
    users, items, interactions : sizes; exactly `interactions` distinct pairs are drawn
    seed : the same seed gives the same log
    communities : into how many parts each community splits, coarsest scale first
    dimension : of the space around the sphere
    exponent : item popularity is (rank + items / 10) ** -exponent
    activity : tail index of the users' activity; smaller means a heavier tail
    min_activity : every user has at least this many (or half the mean, if that is less)
    drift : angle in radians that a user's position travels between first and last interaction
    reach : how far from their position users look for items
    background : share of interactions drawn by popularity alone
    """
    _check(users, items, interactions, communities, dimension, exponent, activity, drift, reach)
    rng = np.random.default_rng(seed)
    centres, tree = _communities(rng, tuple(communities), dimension)
    leaves = len(centres)
    spread = 0.25 * 0.5 ** len(communities)
    item_leaf = _uneven(rng, items, leaves)
    user_leaf = _uneven(rng, users, leaves)
    item_positions = _on_sphere(centres[item_leaf] + rng.normal(0, spread, (items, dimension)))
    user_positions = _on_sphere(centres[user_leaf] + rng.normal(0, spread, (users, dimension)))
    # Zipf-Mandelbrot: without the shift the tail would be far too popular for a real log.
    rank = np.arange(1, items + 1, dtype=np.float64) + items / 10
    popularity = rng.permutation(rank**-exponent)
    counts = _activities(rng, users, items, interactions, activity, min_activity)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    item, sitting = _draw(
        indptr=indptr,
        home=user_positions,
        direction=_directions(rng, user_positions),
        item_positions=item_positions,
        popularity=popularity,
        item_leaf=item_leaf,
        leaves=leaves,
        seed=int(rng.integers(2**63)),
        settings=(drift, reach, background),
    )
    user = np.repeat(np.arange(users, dtype=np.int32), counts)
    time = _times(rng, indptr, sitting)
    return SyntheticData(
        interactions=Interactions(
            user, item, time, IdMap.range(users, "user"), IdMap.range(items, "item")
        ),
        user_positions=user_positions.astype(np.float32),
        item_positions=item_positions.astype(np.float32),
        user_communities=tree[user_leaf],
        item_communities=tree[item_leaf],
    )


def _check(
    users: int,
    items: int,
    interactions: int,
    communities: Sequence[int],
    dimension: int,
    exponent: float,
    activity: float,
    drift: float,
    reach: float,
) -> None:
    if users < 1 or items < 1:
        raise ConfigError(f"users and items must be at least 1, got {users} and {items}")
    if not users <= interactions <= users * items:
        raise ConfigError(
            f"{users:,} users and {items:,} items can have from {users:,} to "
            f"{users * items:,} distinct interactions, not {interactions:,}"
        )
    if not communities or min(communities) < 1:
        raise ConfigError(f"communities must be positive numbers, got {tuple(communities)}")
    if dimension < 2:
        raise ConfigError(f"dimension must be at least 2, got {dimension}")
    if exponent < 0 or activity <= 1 or drift < 0 or reach <= 0:
        raise ConfigError(
            f"needed: exponent >= 0, activity > 1, drift >= 0 and reach > 0, "
            f"got {exponent}, {activity}, {drift} and {reach}"
        )


def _on_sphere(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def _communities(
    rng: np.random.Generator, branching: tuple[int, ...], dimension: int
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Centres float64[leaves, dimension] of the finest communities, int32[leaves, scales] tree.

    Each scale halves the distances of the one above it.
    """
    centres = np.zeros((1, dimension))
    tree = np.zeros((1, 0), dtype=np.int32)
    for scale, parts in enumerate(branching):
        offsets = np.concatenate([_spread_out(rng, parts, dimension) for _ in centres])
        centres = np.repeat(centres, parts, axis=0) + 0.5**scale * offsets
        tree = np.repeat(tree, parts, axis=0)
        tree = np.column_stack([tree, np.arange(len(centres), dtype=np.int32)])
    return _on_sphere(centres), tree


def _spread_out(rng: np.random.Generator, n: int, dimension: int) -> NDArray[np.float64]:
    """n unit vectors far from each other: each the farthest of 32 tries."""
    chosen = _on_sphere(rng.normal(size=(1, dimension)))
    while len(chosen) < n:
        tries = _on_sphere(rng.normal(size=(32, dimension)))
        nearest = (tries @ chosen.T).max(axis=1)
        chosen = np.concatenate([chosen, tries[[nearest.argmin()]]])
    return chosen


def _uneven(rng: np.random.Generator, n: int, groups: int) -> NDArray[np.int64]:
    """Members of groups of uneven sizes, int64[n]."""
    shares = rng.dirichlet(np.full(groups, 3.0))
    return np.asarray(rng.choice(groups, size=n, p=shares))


def _activities(
    rng: np.random.Generator, users: int, items: int, total: int, tail: float, least: int
) -> NDArray[np.int64]:
    """int64[users] with the exact sum `total`: a floor plus a Lomax tail, capped."""
    mean = total / users
    floor = max(1, min(least, int(mean / 2)))
    cap = min(items, max(items // 2, int(np.ceil(1.2 * mean))))
    weight = rng.pareto(tail, size=users) + 1e-9
    extra = np.zeros(users)
    left = float(total - floor * users)
    free = np.ones(users, dtype=bool)
    while left > 1e-6 and free.any():  # what the cap cuts off goes to the others
        extra[free] += left * weight[free] / weight[free].sum()
        over = extra > cap - floor
        left = float((extra[over] - (cap - floor)).sum())
        extra[over] = cap - floor
        free &= ~over
    counts = floor + np.floor(extra).astype(np.int64)
    missing = total - int(counts.sum())
    order = np.argsort(-(extra - np.floor(extra)), kind="stable")
    order = order[counts[order] < items]
    while missing > 0:  # largest remainders first
        step = order[:missing]
        counts[step] += 1
        missing -= len(step)
        order = order[counts[order] < items]
    return counts


def _directions(rng: np.random.Generator, home: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit tangents float64[n, d]: a current shared by all, and as much of each user's own."""
    dimension = home.shape[1]
    square = rng.normal(size=(dimension, dimension))
    current = home @ (square - square.T)  # a rotation's velocity: tangent to the sphere
    own = rng.normal(size=home.shape)
    own -= (own * home).sum(axis=1, keepdims=True) * home
    return _on_sphere(_on_sphere(current) + 0.5 * _on_sphere(own))


def _draw(
    *,
    indptr: NDArray[np.int64],
    home: NDArray[np.float64],
    direction: NDArray[np.float64],
    item_positions: NDArray[np.float64],
    popularity: NDArray[np.float64],
    item_leaf: NDArray[np.int64],
    leaves: int,
    seed: int,
    settings: tuple[float, float, float],
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The items of every user in order, and where a new sitting begins."""
    order = np.argsort(item_leaf, kind="stable")
    starts = np.searchsorted(item_leaf[order], np.arange(leaves + 1)).astype(np.int64)
    positions = np.ascontiguousarray(item_positions[order])
    cumulative = np.cumsum(popularity[order])
    filled = np.flatnonzero(np.diff(starts))
    starts = np.append(starts[filled], len(order))
    centres = np.add.reduceat(positions, starts[:-1], axis=0) / np.diff(starts)[:, None]
    leaf_of = np.repeat(np.arange(len(filled)), np.diff(starts))
    distance = np.linalg.norm(positions - centres[leaf_of], axis=1)
    radius = np.maximum.reduceat(distance, starts[:-1])

    n = int(indptr[-1])
    places = np.empty(n, dtype=np.int32)
    sitting = np.empty(n, dtype=np.bool_)
    threads = min(os.cpu_count() or 1, 8)
    bounds = np.searchsorted(indptr, np.linspace(0, n, 4 * threads + 1)).astype(np.int64)
    bounds[-1] = len(indptr) - 1

    def part(i: int) -> None:
        walk_users(
            bounds[i], bounds[i + 1], indptr, home, direction, positions, cumulative,
            starts, centres, radius, *settings, np.uint64(seed), places, sitting,
        )  # fmt: skip

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(len(bounds) - 1)))
    return order[places].astype(np.int32), sitting


def _times(
    rng: np.random.Generator, indptr: NDArray[np.int64], sitting: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """int64[n] seconds, strictly ascending within a user: minutes apart, days between sittings."""
    n = len(sitting)
    gap = rng.integers(30, 900, size=n)
    gap[sitting] += (rng.exponential(5.0, size=int(sitting.sum())) * _SECONDS_A_DAY).astype(int)
    elapsed = np.cumsum(gap)
    counts = np.diff(indptr)
    first = np.repeat(elapsed[indptr[:-1]], counts)
    arrival = _BEGINNING + rng.integers(0, 3 * 365 * _SECONDS_A_DAY, size=len(counts))
    return np.asarray(elapsed - first + np.repeat(arrival, counts), dtype=np.int64)
