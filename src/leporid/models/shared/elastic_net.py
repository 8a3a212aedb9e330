"""Many elastic nets that share one sparse Gram matrix: coordinate descent on working sets.

For item j, minimise w'Gw / 2 - t'w + l1 |w|_1 + l2 |w|^2 / 2 with G = X'X, t = x_j'X, w_j = 0.
A small dense problem over the promising coordinates is solved to convergence; then all others
are checked, and those that would move join it. Nothing dense is larger than that working set.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

__all__ = ["elastic_net_columns"]

_FIRST = 64
"""Coordinates of the first working set."""


@njit(cache=True)
def _step(rho, curvature, l1, positive):  # type: ignore[no-untyped-def]
    """The minimiser along one coordinate (soft threshold)."""
    if rho > l1:
        return (rho - l1) / curvature
    if rho < -l1 and not positive:
        return (rho + l1) / curvature
    return 0.0


@njit(cache=True)
def _descend(gram, target, l1, l2, positive, limit, tolerance, w, gw):  # type: ignore[no-untyped-def]
    """Cyclic coordinate descent on a dense problem; `w` and `gw` = G w are updated."""
    size = len(w)
    for _ in range(limit):
        largest_change, largest = 0.0, 0.0
        for i in range(size):
            old, bend = w[i], gram[i, i]
            new = _step(target[i] - gw[i] + bend * old, bend + l2, l1, positive)
            if new != old:
                change = new - old
                for q in range(size):
                    gw[q] += change * gram[i, q]
                w[i] = new
                largest_change = max(largest_change, abs(change))
            largest = max(largest, abs(new))
        if largest_change <= tolerance * largest:
            break


@njit(cache=True)
def _dense_part(ptr, idx, val, members, size, position):  # type: ignore[no-untyped-def]
    """float64[size, size]: G between the members."""
    part = np.zeros((size, size))
    for c in range(size):
        position[members[c]] = c
    for c in range(size):
        for p in range(ptr[members[c]], ptr[members[c] + 1]):
            place = position[idx[p]]
            if place >= 0:
                part[c, place] = val[p]
    for c in range(size):
        position[members[c]] = -1
    return part


@njit(cache=True)
def _solve(  # type: ignore[no-untyped-def]
    ptr, idx, val, diagonal, target, candidates, l1, l2, positive, limit, tolerance, w, gw, position
):
    """Fill `w` for one column; `w` and `gw` come as zeros and are left at the solution."""
    gain = np.empty(len(candidates))
    for c in range(len(candidates)):
        i = candidates[c]
        gain[c] = abs(_step(target[i], diagonal[i] + l2, l1, positive))
    first = np.argsort(-gain, kind="mergesort")[:_FIRST]
    members = np.empty(len(candidates), dtype=np.int32)
    size = 0
    for c in first:
        if gain[c] > 0.0:
            members[size] = candidates[c]
            size += 1
    for _ in range(limit):
        inside = members[:size]
        local_w, local_gw = w[inside], gw[inside]
        part = _dense_part(ptr, idx, val, members, size, position)
        _descend(part, target[inside], l1, l2, positive, limit, tolerance, local_w, local_gw)
        largest = 0.0
        for c in range(size):
            i = inside[c]
            change = local_w[c] - w[i]
            largest = max(largest, abs(local_w[c]))
            if change != 0.0:
                for p in range(ptr[i], ptr[i + 1]):
                    gw[idx[p]] += change * val[p]
                w[i] = local_w[c]
        kept = 0
        for c in range(size):
            if w[members[c]] != 0.0:
                members[kept] = members[c]
                kept += 1
        # Everything outside that would move by more than the tolerance joins, the largest first.
        for c in range(len(candidates)):
            i = candidates[c]
            gain[c] = 0.0
            if w[i] == 0.0:
                gain[c] = abs(_step(target[i] - gw[i], diagonal[i] + l2, l1, positive))
        room = max(_FIRST, kept)
        newcomers = 0
        for c in np.argsort(-gain, kind="mergesort")[:room]:
            if gain[c] <= tolerance * largest:
                break
            members[kept + newcomers] = candidates[c]
            newcomers += 1
        if newcomers == 0:
            break
        size = kept + newcomers


@njit(cache=True, parallel=True)
def elastic_net_columns(  # type: ignore[no-untyped-def]
    ptr, idx, val, start, stop, l1, l2, positive, limit, tolerance, sources, values, blocks
):
    """Solve items start .. stop-1 in parallel; write the largest weights of each, by size.

    ptr, idx, val: CSR of the Gram matrix G. sources, values: int32, float32[n_items, k].
    """
    n, k = sources.shape
    diagonal = np.zeros(n)
    for i in range(n):
        for p in range(ptr[i], ptr[i + 1]):
            if idx[p] == i:
                diagonal[i] = val[p]
    for block in prange(blocks):
        w, gw, target = np.zeros(n), np.zeros(n), np.zeros(n)
        coordinates = np.empty(n, dtype=np.int32)
        position = np.full(n, -1, dtype=np.int32)
        for j in range(start + block, stop, blocks):
            size = 0
            for p in range(ptr[j], ptr[j + 1]):
                i = idx[p]
                target[i] = val[p]
                # G and w are not negative, so rho <= G_ij: smaller ones stay zero for good.
                if positive and i != j and val[p] > l1:
                    coordinates[size] = i
                    size += 1
            if not positive:
                for i in range(n):
                    if i != j and diagonal[i] > 0.0:
                        coordinates[size] = i
                        size += 1
            found = coordinates[:size]
            _solve(
                ptr,
                idx,
                val,
                diagonal,
                target,
                found,
                l1,
                l2,
                positive,
                limit,
                tolerance,
                w,
                gw,
                position,
            )
            magnitude = np.abs(w[found])
            order = np.argsort(-magnitude, kind="mergesort")[:k]
            for p in range(len(order)):
                i = found[order[p]]
                if w[i] == 0.0:
                    break
                sources[j, p] = i
                values[j, p] = w[i]
            w[:] = 0.0
            gw[:] = 0.0
            target[:] = 0.0
