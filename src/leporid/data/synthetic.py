"""Synthetic logs whose geometry is known.

Users and items live on a unit sphere. Communities are nested at
several scales: each splits into smaller ones nearer to each other. A user's next item is drawn
with probability proportional to

    popularity(item) * exp(-|item - position|^2 / (2 reach^2)),

without repeats, where the position moves along a great circle while time passes (drift, mostly
along a current that all users share) and wobbles from one session to the next. Popularity and
activity follow power laws. Every random number comes from the seed; the result does not depend
on the number of threads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.synthetic_walk import Catalogue, walk_users
from leporid.errors import ConfigError
from leporid.threads import on_each_thread

_COMMUNITIES = (5, 4, 3)
"""Into how many parts each community splits, coarsest scale first."""
_DIMENSION = 6
"""Of the space around the sphere."""
_EXPONENT = 2.5
"""Item popularity is (rank + items / 10) ** -exponent."""
_ACTIVITY = 1.8
"""Tail index of the users' activity; smaller means a heavier tail."""
_SECONDS_PER_DAY = 86_400
_BEGINNING = 946_684_800
"""1 January 2000, when the first user may arrive."""


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """A log together with the geometry it was drawn from."""

    interactions: Interactions
    user_positions: NDArray[np.float32]
    """float32[n_users, d], unit rows: the middle of each user's path."""
    item_positions: NDArray[np.float32]
    """float32[n_items, d], unit rows."""
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
    min_activity: int = 20,
) -> Interactions:
    """A seeded log with communities, power laws and drift; see `synthesize_planted`."""
    sizes = users, items, interactions
    return synthesize_planted(*sizes, seed=seed, min_activity=min_activity).interactions


def synthesize_planted(
    users: int = 1000,
    items: int = 500,
    interactions: int = 50_000,
    *,
    seed: int = 0,
    min_activity: int = 20,
) -> SyntheticData:
    """A seeded log and its planted geometry.

    Parameters
    ----------
    users, items, interactions : sizes; exactly `interactions` distinct pairs are drawn
    seed : the same seed gives the same log
    min_activity : every user has at least so many interactions (or half the mean, if that is less)
    """
    if users < 1 or items < 1:
        raise ConfigError(f"users and items must be at least 1, got {users} and {items}")
    if not users <= interactions <= users * items:
        raise ConfigError(
            f"{users:,} users and {items:,} items can have from {users:,} to "
            f"{users * items:,} distinct interactions, not {interactions:,}"
        )
    rng = np.random.default_rng(seed)
    centres, tree = _communities(rng)
    spread = 0.25 * 0.5 ** len(_COMMUNITIES)
    item_leaf = _uneven(rng, items, len(centres))
    user_leaf = _uneven(rng, users, len(centres))
    item_positions, user_positions = (
        _on_sphere(centres[leaf] + rng.normal(0, spread, (len(leaf), _DIMENSION)))
        for leaf in (item_leaf, user_leaf)
    )
    # Zipf-Mandelbrot: without the shift the tail would be far too popular for a real log.
    rank = np.arange(1, items + 1, dtype=np.float64) + items / 10
    popularity = rng.permutation(rank**-_EXPONENT)
    counts = _activities(rng, users, items, interactions, min_activity)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    direction = _directions(rng, user_positions)
    order = np.argsort(item_leaf, kind="stable")
    catalogue = _catalogue(item_positions[order], popularity[order], item_leaf[order])
    walk = indptr, user_positions, direction, catalogue
    indices, session = _walk(*walk, np.uint64(rng.integers(2**63)))
    log = Interactions(
        user=np.repeat(np.arange(users, dtype=np.int32), counts),
        item=order[indices].astype(np.int32),
        time=_times(rng, indptr, session),
        users=IdMap.range(users, "user"),
        items=IdMap.range(items, "item"),
    )
    users_at, items_at = user_positions.astype(np.float32), item_positions.astype(np.float32)
    return SyntheticData(log, users_at, items_at, tree[user_leaf], tree[item_leaf])


def _on_sphere(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def _communities(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Centres float64[leaves, d] of the finest communities, int32[leaves, scales] tree.

    Each scale halves the distances of the one above it.
    """
    centres = np.zeros((1, _DIMENSION))
    tree = np.zeros((1, 0), dtype=np.int32)
    for scale, parts in enumerate(_COMMUNITIES):
        offsets = np.concatenate([_spread_out(rng, parts) for _ in centres])
        centres = np.repeat(centres, parts, axis=0) + 0.5**scale * offsets
        tree = np.repeat(tree, parts, axis=0)
        tree = np.column_stack([tree, np.arange(len(centres), dtype=np.int32)])
    return _on_sphere(centres), tree


def _spread_out(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """n unit vectors far from each other: each the farthest of 32 tries."""
    chosen = _on_sphere(rng.normal(size=(1, _DIMENSION)))
    while len(chosen) < n:
        tries = _on_sphere(rng.normal(size=(32, _DIMENSION)))
        farthest = (tries @ chosen.T).max(axis=1).argmin()
        chosen = np.vstack([chosen, tries[farthest]])
    return chosen


def _uneven(rng: np.random.Generator, n: int, groups: int) -> NDArray[np.int64]:
    """int64[n]: groups of uneven sizes."""
    shares = rng.dirichlet(np.full(groups, 3.0))
    return np.asarray(rng.choice(groups, size=n, p=shares))


def _activities(
    rng: np.random.Generator, users: int, items: int, total: int, min_activity: int
) -> NDArray[np.int64]:
    """int64[users] with the exact sum `total`: a floor plus a Lomax tail, capped."""
    mean = total / users
    floor = max(1, min(min_activity, int(mean / 2)))
    cap = min(items, max(items // 2, int(np.ceil(1.2 * mean))))
    weight = rng.pareto(_ACTIVITY, size=users) + 1e-9
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
    square = rng.normal(size=(_DIMENSION, _DIMENSION))
    current = home @ (square - square.T)  # a rotation's velocity: tangent to the sphere
    own = rng.normal(size=home.shape)
    own -= (own * home).sum(axis=1, keepdims=True) * home
    return _on_sphere(_on_sphere(current) + 0.5 * _on_sphere(own))


def _catalogue(
    positions: NDArray[np.float64], popularity: NDArray[np.float64], leaf: NDArray[np.int64]
) -> Catalogue:
    """Items sorted by `leaf`, their community, as the kernel wants them."""
    starts = np.append(np.flatnonzero(np.diff(leaf, prepend=-1)), len(leaf))
    sizes = np.diff(starts)
    centres = np.add.reduceat(positions, starts[:-1], axis=0) / sizes[:, None]
    distance = np.linalg.norm(positions - np.repeat(centres, sizes, axis=0), axis=1)
    radius = np.maximum.reduceat(distance, starts[:-1])
    return Catalogue(positions, np.cumsum(popularity), starts, centres, radius)


def _walk(indptr: NDArray[np.int64], *walk: Any) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The indices in the catalogue of every user's items, and where a new session begins."""
    n, threads = int(indptr[-1]), min(os.cpu_count() or 1, 8)
    out = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.bool_)
    bounds = np.searchsorted(indptr, np.linspace(0, n, threads + 1)).astype(np.int64)
    bounds[-1] = len(indptr) - 1
    walk = indptr, *walk, *out
    on_each_thread(lambda i: walk_users(*bounds[i : i + 2], *walk), threads)
    return out


def _times(
    rng: np.random.Generator, indptr: NDArray[np.int64], session: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """int64[n] seconds, strictly ascending within a user: minutes apart, days between sessions."""
    n = len(session)
    gap = rng.integers(30, 900, size=n)
    gap[session] += (rng.exponential(5.0, size=int(session.sum())) * _SECONDS_PER_DAY).astype(int)
    elapsed = np.cumsum(gap)
    counts = np.diff(indptr)
    first = np.repeat(elapsed[indptr[:-1]], counts)
    arrival = _BEGINNING + rng.integers(0, 3 * 365 * _SECONDS_PER_DAY, size=len(counts))
    return np.asarray(elapsed - first + np.repeat(arrival, counts), dtype=np.int64)
