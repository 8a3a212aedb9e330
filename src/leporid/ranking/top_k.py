"""From scores to ranked lists: `TopK`, masked top-n, ties to the smaller item index.

A list needs at most n items, so most of a row need never be compared item by item: the items
are dealt to lanes in turn, and the n-th largest of the lanes' maxima bounds the n-th best score
from below. Only lanes that reach it are searched, with a heap of the n best. Lane by lane the
maxima are plain vector instructions, without a reduction across a vector. Each thread masks in
a buffer of one row; the scores are neither copied as a whole nor changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numba import get_num_threads, prange
from numpy.typing import NDArray

from leporid.data import Sequences
from leporid.errors import ConfigError, DataError
from leporid.foundation import kernel

if TYPE_CHECKING:
    import torch

Floats: TypeAlias = NDArray[np.float32]
Indices: TypeAlias = NDArray[np.int32]
"""int32[m]: users or items by their row in an `IdMap`."""
Ints: TypeAlias = NDArray[np.integer]
Mask: TypeAlias = NDArray[np.bool_]

_LANES = 128
"""The number of lanes is the multiple of this that is at least eight times n."""


@dataclass(frozen=True, eq=False)
class TopK:
    """The best `k` items of each of `m` users, best first; ties go to the smaller index."""

    items: Indices
    """int32[m, k]; -1 pads a row with fewer than k candidates."""
    scores: Floats
    """float32[m, k]; -inf where `items` is -1."""

    @classmethod
    def empty(
        cls,
        m: int,
        k: int,
    ) -> Self:
        """Return `m` lists with room for `k` items each, all of them padding."""
        return cls(
            items=np.full((m, k), -1, dtype=np.int32),
            scores=np.full((m, k), -np.inf, dtype=np.float32),
        )


class NanScoreError(DataError):
    """A row of scores contains NaN, so it has no order."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(f"row {row} of the scores contains NaN: check the model")


def masked_top_k(
    scores: Floats,
    n: int,
    *,
    seen: Sequences | None = None,
    allowed: Mask | None = None,
) -> TopK:
    """Return the `n` best unseen items of each row of float32[m, n_items], best first.

    Equal scores go to the smaller index; an item scored -inf is never recommended, NaN is a
    `NanScoreError`. Where fewer candidates remain, -1 and -inf fill the row. `allowed`
    bool[n_items] are the only items to rank. Scores are not changed, nor copied if C-contiguous.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float32)
    m, _ = _check(scores.shape, n, seen, allowed)
    blocked = np.empty(0, np.int64)
    if allowed is not None:
        blocked = np.flatnonzero(~allowed)
    if seen is None:
        seen = Sequences(np.zeros(m + 1, np.int64), np.empty(0, np.int32))
    top = TopK.empty(m, n)
    has_nan = np.zeros(m, dtype=np.bool_)
    n_blocks = max(1, min(m, get_num_threads() * 4))
    _fill_top_rows(
        scores,
        seen.indptr,
        seen.items,
        blocked,
        top.items,
        top.scores,
        has_nan,
        n_blocks,
    )
    if has_nan.any():
        raise NanScoreError(int(np.argmax(has_nan)))
    return top


def masked_top_k_torch(
    scores: torch.Tensor,
    n: int,
    *,
    seen: Sequences | None = None,
    allowed: Mask | None = None,
) -> TopK:
    """Rank as `masked_top_k` does, on the device of the scores: only the lists leave it.

    `scores` is a float tensor [m, n_items] on any device, left as it is; the result equals
    that of `masked_top_k` on the same float32 numbers, ties included.
    """
    import torch

    m, n_items = _check(tuple(scores.shape), n, seen, allowed)
    device = scores.device
    # Adding zero copies, and turns -0.0 into 0.0, which radix selection would tell apart.
    work = scores.detach().to(torch.float32) + 0.0
    has_nan = torch.isnan(work).any(dim=1)
    if bool(has_nan.any()):
        raise NanScoreError(int(torch.nonzero(has_nan)[0, 0]))
    if seen is not None and m:
        first = int(seen.indptr[0])
        last = int(seen.indptr[-1])
        row = np.repeat(np.arange(m, dtype=np.int64), np.diff(seen.indptr))
        cells = row * n_items + seen.items[first:last]
        work.view(-1)[torch.from_numpy(cells).to(device)] = -torch.inf
    if allowed is not None:
        work.masked_fill_(torch.from_numpy(~allowed).to(device), -torch.inf)
    k = min(n, n_items)
    # Keys that are all distinct, in the order of (score, then smaller column). The bits of a float,
    # read as a signed integer, are in its order once the lower bits of negative ones are flipped.
    bits = work.view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
    column = torch.arange(n_items - 1, -1, -1, device=device)
    keys = (ordered << 32) | column
    best_keys = torch.topk(keys, k, dim=1).values
    index = (n_items - 1) - best_keys % 2**32
    values = work.gather(1, index)
    listed = torch.where(values == -torch.inf, -1, index)
    top = TopK.empty(m, n)
    top.items[:, :k] = listed.to(torch.int32).cpu().numpy()
    top.scores[:, :k] = values.cpu().numpy()
    return top


def _check(
    shape: tuple[int, ...],
    n: int,
    seen: Sequences | None,
    allowed: Mask | None,
) -> tuple[int, int]:
    """Check the arguments of a top-n against each other; return the shape of the scores."""
    if n < 1:
        raise ConfigError(f"n must be at least 1, not {n}")
    if len(shape) != 2:
        raise DataError(
            f"scores must have one row per user, one column per item, not {shape}"
        )
    m, n_items = shape
    if seen is not None:
        _check_seen(seen, m, n_items)
    if allowed is not None:
        is_mask = allowed.shape == (n_items,) and allowed.dtype == np.bool_
        if not is_mask:
            raise DataError(
                f"allowed must be bool[{n_items}], not {allowed.dtype}{allowed.shape}"
            )
    return m, n_items


def _check_seen(
    seen: Sequences,
    m: int,
    n_items: int,
) -> None:
    """Refuse seen items of another number of users, or that are no item indices."""
    n_users = len(seen.indptr) - 1
    if n_users != m:
        raise DataError(
            f"scores have {m} rows, but seen items were given for {n_users}"
        )
    used = seen.items[seen.indptr[0] : seen.indptr[-1]]
    if len(used) and (used.min() < 0 or used.max() >= n_items):
        raise DataError(f"seen items must be indices in 0 .. {n_items - 1}")


@kernel
def _worse(
    score_a: float,
    item_a: int,
    score_b: float,
    item_b: int,
) -> bool:
    """Tell whether entry a ranks after entry b: a smaller score, or a larger index at a tie."""
    return score_a < score_b or (score_a == score_b and item_a > item_b)


@kernel
def _sift_down(
    items: Ints,
    best: Floats,
    size: int,
) -> None:
    """Restore the heap (worst entry at the root) below a new root."""
    item = items[0]
    score = best[0]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        sibling = child + 1
        if sibling < size and _worse(
            best[sibling],
            items[sibling],
            best[child],
            items[child],
        ):
            child = sibling
        if not _worse(best[child], items[child], score, item):
            break
        items[parent] = items[child]
        best[parent] = best[child]
        parent = child
    items[parent] = item
    best[parent] = score


@kernel(fastmath={"reassoc"})
def _copy_row(
    scores: Floats,
    row: Floats,
) -> bool:
    """Copy one row; return whether it holds a NaN."""
    total = np.float32(0)
    for j in range(len(scores)):
        row[j] = scores[j]
        total += scores[j] * np.float32(0)
    if total == total:
        return False
    # The sum is NaN for infinities too, which are allowed.
    return bool(np.isnan(scores).any())


@kernel
def _lane_maxima(
    row: Floats,
    maxima: Floats,
) -> None:
    """Set maxima[lane] to the largest of row[lane], row[lane + lanes], ..., in pairs of turns."""
    lanes = len(maxima)
    maxima[:] = -np.inf
    for start in range(0, len(row), 2 * lanes):
        middle = start + lanes
        first_turn = row[start:middle]
        second_turn = row[middle : middle + lanes]
        for lane in range(lanes):
            first = first_turn[lane]
            second = second_turn[lane]
            larger = first if first > second else second
            maxima[lane] = larger if larger > maxima[lane] else maxima[lane]


@kernel
def _push(
    items: Ints,
    best: Floats,
    size: int,
    item: int,
    score: float,
) -> int:
    """Add an entry to the heap, in place of the worst one if it is full; return the new size."""
    if size == len(items):
        items[0] = item
        best[0] = score
        _sift_down(items, best, size)
        return size
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if not _worse(score, item, best[parent], items[parent]):
            break
        items[child] = items[parent]
        best[child] = best[parent]
        child = parent
    items[child] = item
    best[child] = score
    return size + 1


@kernel
def _search(
    row: Floats,
    maxima: Floats,
    items: Ints,
    best: Floats,
) -> None:
    """Fill one list with the best items of a row; `items` and `best` come as -1 and -inf."""
    n = len(items)
    lanes = len(maxima)
    quarter = lanes // 4
    size = 0
    for lane in range(quarter):
        # Four lanes together give nearly as good a bound at a quarter of the cost.
        left = max(maxima[lane], maxima[lane + quarter])
        largest = max(left, maxima[lane + 2 * quarter], maxima[lane + 3 * quarter])
        if size < n or largest > best[0]:
            size = _push(
                items,
                best,
                size,
                lane,
                largest,
            )
    # There are at least 2 n such fours, so as many scores as wanted reach this bound.
    bound = best[0]
    items[:] = -1
    best[:] = -np.inf
    size = 0
    for lane in range(lanes):
        if maxima[lane] < bound:
            continue
        for j in range(lane, len(row), lanes):
            score = row[j]
            if score < bound or score == -np.inf:
                continue
            if size < n or _worse(best[0], items[0], score, j):
                size = _push(
                    items,
                    best,
                    size,
                    j,
                    score,
                )
                if size == n:
                    bound = best[0]
    for last in range(size - 1, 0, -1):
        items[0], items[last] = items[last], items[0]
        best[0], best[last] = best[last], best[0]
        _sift_down(items, best, last)


@kernel(parallel=True)
def _fill_top_rows(
    scores: Floats,
    seen_indptr: Ints,
    seen_items: Ints,
    blocked: Ints,
    items: Ints,
    best: Floats,
    has_nan: Mask,
    n_blocks: int,
) -> None:
    """Fill every row of `items` and `best` without seen and blocked items; mark rows with a NaN."""
    m, n_items = scores.shape
    lanes = (8 * items.shape[1] + _LANES - 1) // _LANES * _LANES
    turns = (n_items + 2 * lanes - 1) // (2 * lanes) * 2
    for block in prange(n_blocks):
        row = np.full(turns * lanes, -np.inf, dtype=np.float32)
        maxima = np.empty(lanes, dtype=np.float32)
        first_user = m * block // n_blocks
        last_user = m * (block + 1) // n_blocks
        for user in range(first_user, last_user):
            has_nan[user] = _copy_row(scores[user], row)
            for position in range(seen_indptr[user], seen_indptr[user + 1]):
                row[seen_items[position]] = -np.inf
            for item in blocked:
                row[item] = -np.inf
            _lane_maxima(row, maxima)
            _search(row, maxima, items[user], best[user])
