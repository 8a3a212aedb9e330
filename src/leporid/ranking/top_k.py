"""From scores to ranked lists: `TopK`, masked top-n, ties to the smaller item index, chunks.

A list needs at most n items, so most of a row need never be compared item by item: the items
are dealt to lanes in turn, and the n-th largest of the lanes' maxima bounds the n-th best score
from below. Only lanes that reach it are searched, with a heap of the n best. Lane by lane the
maxima are plain vector instructions, without a reduction across a vector. Each thread masks in
a buffer of one row; the scores are neither copied as a whole nor changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numba import get_num_threads, prange
from numpy.typing import NDArray

from leporid.data import Sequences
from leporid.errors import ConfigError, DataError
from leporid.kernel import kernel
from leporid.machine import free_memory

if TYPE_CHECKING:
    import torch

Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.integer[Any]]

_LANES = 128
"""The number of lanes is the multiple of this that is at least eight times n."""


@dataclass(frozen=True, eq=False)
class TopK:
    """The best `k` items of each of `m` users, best first; ties go to the smaller index."""

    items: NDArray[np.int32]
    """int32[m, k]; -1 pads a row with fewer than k candidates."""
    scores: NDArray[np.float32]
    """float32[m, k]; -inf where `items` is -1."""


class NanScoreError(DataError):
    """A row of scores contains NaN, so it has no order."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(f"row {row} of the scores contains NaN: check the model")


def chunk_rows(n_items: int, batch_size: int | None = None) -> int:
    """Users to score at once, by evaluation and by recommending; `batch_size` overrides the rule.

    Their scores take at most an eighth of the free memory, since a model may need several such
    arrays to compute them, and at most 256 MiB. What a neural model keeps per user is not known
    here: at most 2,048 users.
    """
    if batch_size is not None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {batch_size}")
        return batch_size
    rows = min(free_memory() // 8, 256 * 2**20) // (4 * max(n_items, 1))
    return max(1, min(rows, 2048))


def masked_top_k(
    scores: NDArray[np.float32],
    n: int,
    *,
    seen: Sequences | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> TopK:
    """The `n` best items of each row of float32[m, n_items], best first, without those `seen`.

    Equal scores go to the smaller index; an item scored -inf is never recommended, NaN is a
    `NanScoreError`. Where fewer candidates remain, -1 and -inf fill the row. `allowed`
    bool[n_items] are the only items to rank. Scores are not changed, nor copied if C-contiguous.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float32)
    m, _ = _check(scores.shape, n, seen, allowed)
    blocked = np.empty(0, np.int64) if allowed is None else np.flatnonzero(~allowed)
    if seen is None:
        seen = Sequences(np.zeros(m + 1, np.int64), np.empty(0, np.int32))
    items = np.full((m, n), -1, dtype=np.int32)
    best = np.full((m, n), -np.inf, dtype=np.float32)
    undefined = np.zeros(m, dtype=np.bool_)
    n_blocks = max(1, min(m, get_num_threads() * 4))
    _top_rows(
        scores, (seen.indptr, seen.items), blocked, (items, best), undefined, n_blocks
    )
    if undefined.any():
        raise NanScoreError(int(np.argmax(undefined)))
    return TopK(items, best)


def masked_top_k_torch(
    scores: torch.Tensor,
    n: int,
    *,
    seen: Sequences | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> TopK:
    """`masked_top_k` where the scores are: only the lists leave the device.

    `scores` is a float tensor [m, n_items] on any device, left as it is; the result equals
    that of `masked_top_k` on the same float32 numbers, ties included.
    """
    import torch

    m, n_items = _check(tuple(scores.shape), n, seen, allowed)
    device = scores.device
    # Adding zero copies, and turns -0.0 into 0.0, which radix selection would tell apart.
    work = scores.detach().to(torch.float32) + 0.0
    undefined = torch.isnan(work).any(dim=1)
    if bool(undefined.any()):
        raise NanScoreError(int(torch.nonzero(undefined)[0, 0]))
    if seen is not None and m:
        first, last = int(seen.indptr[0]), int(seen.indptr[-1])
        row = np.repeat(np.arange(m, dtype=np.int64), np.diff(seen.indptr))
        flat = torch.from_numpy(row * n_items + seen.items[first:last]).to(device)
        work.view(-1)[flat] = -torch.inf
    if allowed is not None:
        work.masked_fill_(torch.from_numpy(~allowed).to(device), -torch.inf)
    k = min(n, n_items)
    # Keys that are all distinct, in the order of (score, then smaller column). The bits of a float,
    # read as a signed integer, are in its order once the lower bits of negative ones are flipped.
    bits = work.view(torch.int32)
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
    column = torch.arange(n_items - 1, -1, -1, device=device)
    index = (n_items - 1) - torch.topk(
        (ordered << 32) | column, k, dim=1
    ).values % 2**32
    values = work.gather(1, index)
    items = np.full((m, n), -1, dtype=np.int32)
    best = np.full((m, n), -np.inf, dtype=np.float32)
    items[:, :k] = (
        torch.where(values == -torch.inf, -1, index).to(torch.int32).cpu().numpy()
    )
    best[:, :k] = values.cpu().numpy()
    return TopK(items, best)


def _check(
    shape: tuple[int, ...],
    n: int,
    seen: Sequences | None,
    allowed: NDArray[np.bool_] | None,
) -> tuple[int, int]:
    if n < 1:
        raise ConfigError(f"n must be at least 1, not {n}")
    if len(shape) != 2:
        raise DataError(
            f"scores must have one row per user, one column per item, not {shape}"
        )
    m, n_items = shape
    if seen is not None:
        if len(seen) != m:
            raise DataError(
                f"scores have {m} rows, but seen items were given for {len(seen)}"
            )
        used = seen.items[seen.indptr[0] : seen.indptr[-1]]
        if len(used) and (used.min() < 0 or used.max() >= n_items):
            raise DataError(f"seen items must be indices in 0 .. {n_items - 1}")
    if allowed is not None and (
        allowed.shape != (n_items,) or allowed.dtype != np.bool_
    ):
        raise DataError(
            f"allowed must be bool[{n_items}], not {allowed.dtype}{allowed.shape}"
        )
    return m, n_items


@kernel
def _worse(score_a: float, item_a: int, score_b: float, item_b: int) -> bool:
    return score_a < score_b or (score_a == score_b and item_a > item_b)


@kernel
def _sift_down(items: Ints, best: Floats, size: int) -> None:
    """Restore the heap (worst entry at the root) below a new root."""
    item, score, parent = items[0], best[0], 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and _worse(
            best[child + 1], items[child + 1], best[child], items[child]
        ):
            child += 1
        if not _worse(best[child], items[child], score, item):
            break
        items[parent], best[parent] = items[child], best[child]
        parent = child
    items[parent], best[parent] = item, score


@kernel(fastmath={"reassoc"})
def _copy_row(scores: Floats, row: Floats) -> bool:
    """Copy one row; True if it holds a NaN."""
    total = np.float32(0)
    for j in range(len(scores)):
        row[j] = scores[j]
        total += scores[j] * np.float32(0)
    if total == total:
        return False
    # The sum is NaN for infinities too, which are allowed.
    return bool(np.isnan(scores).any())


@kernel
def _lane_maxima(row: Floats, maxima: Floats) -> None:
    """maxima[lane] = max of row[lane], row[lane + lanes], ...; in pairs of turns."""
    lanes = len(maxima)
    maxima[:] = -np.inf
    for start in range(0, len(row), 2 * lanes):
        one, two = row[start : start + lanes], row[start + lanes : start + 2 * lanes]
        for lane in range(lanes):
            larger = one[lane] if one[lane] > two[lane] else two[lane]
            maxima[lane] = larger if larger > maxima[lane] else maxima[lane]


@kernel
def _push(items: Ints, best: Floats, size: int, item: int, score: float) -> int:
    """Add an entry to the heap, in place of the worst one if it is full; the new size."""
    if size == len(items):
        items[0], best[0] = item, score
        _sift_down(items, best, size)
        return size
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if not _worse(score, item, best[parent], items[parent]):
            break
        items[child], best[child] = items[parent], best[parent]
        child = parent
    items[child], best[child] = item, score
    return size + 1


@kernel
def _search(row: Floats, maxima: Floats, items: Ints, best: Floats) -> None:
    """Fill one list; `items`, `best` come as -1, -inf."""
    n, lanes = len(items), len(maxima)
    size, quarter = 0, lanes // 4
    for lane in range(quarter):
        # Four lanes together give nearly as good a bound at a quarter of the cost.
        left = max(maxima[lane], maxima[lane + quarter])
        largest = max(left, maxima[lane + 2 * quarter], maxima[lane + 3 * quarter])
        if size < n or largest > best[0]:
            size = _push(items, best, size, lane, largest)
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
                size = _push(items, best, size, j, score)
                if size == n:
                    bound = best[0]
    for last in range(size - 1, 0, -1):
        items[0], items[last] = items[last], items[0]
        best[0], best[last] = best[last], best[0]
        _sift_down(items, best, last)


@kernel(parallel=True)
def _top_rows(
    scores: Floats,
    seen: tuple[Ints, Ints],
    blocked: Ints,
    lists: tuple[Ints, Floats],
    undefined: NDArray[np.bool_],
    n_blocks: int,
) -> None:
    """Every row of `lists` (items, scores), from (indptr, items) of what to leave out."""
    m, n_items = scores.shape
    indptr, hidden = seen
    items, best = lists
    lanes = (8 * items.shape[1] + _LANES - 1) // _LANES * _LANES
    turns = (n_items + 2 * lanes - 1) // (2 * lanes) * 2
    for block in prange(n_blocks):
        row = np.full(turns * lanes, -np.inf, dtype=np.float32)
        maxima = np.empty(lanes, dtype=np.float32)
        for user in range(m * block // n_blocks, m * (block + 1) // n_blocks):
            undefined[user] = _copy_row(scores[user], row)
            for position in range(indptr[user], indptr[user + 1]):
                row[hidden[position]] = -np.inf
            for item in blocked:
                row[item] = -np.inf
            _lane_maxima(row, maxima)
            _search(row, maxima, items[user], best[user])
