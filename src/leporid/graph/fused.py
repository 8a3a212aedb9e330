"""The best neighbours of many rows on a GPU, without storing their similarities.

`gpu.py` stores every similarity of a block of rows and reads it some twenty times to select the k
best. Here one kernel multiplies 0/1 tiles, turns shared counts into Jaccard similarities and keeps
only those above the k-th best so far.

A candidate is one integer, `similarity << 32 | ~column`: a float32 that is not negative is ordered
as its bits are, so the larger integer is the better neighbour and ties go to the smaller column.
Columns come in ascending order, in strips that double: a strip as wide as all columns before it
brings about k candidates to each row. The quotient is the correctly rounded one, as in `gpu.py`.
"""

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from leporid.graph.nearest_block import NearestBlock
from leporid.graph.types import BinaryCSR

TILE = 128
"""Rows and columns of a tile, and the columns of the matrix multiplied at once."""
FIRST_STRIP = 4096
"""Columns of the first strip, where every positive similarity is a candidate; at least 4 k."""
CANDIDATES = 2**28
"""Candidates in memory, 8 bytes each; they bound the rows of a block."""


def unpacked(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns and the similarities of candidates."""
    return ~keys.int(), (keys >> 32).int().view(torch.float32)


def is_worth_it(members: BinaryCSR, device: torch.device) -> bool:
    """Return whether the rows are many and fit the GPU as bytes.

    Triton multiplies bytes from NVIDIA's Ampere on; elsewhere it is not tested.
    """
    if members.n < 8 * FIRST_STRIP or not torch.version.cuda:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return members.n * members.n_columns < 0.6 * free


class FusedSearch:
    """The rows as 0/1 bytes on a device, padded to whole tiles."""

    def __init__(self, members: BinaryCSR, device: torch.device) -> None:
        self._n = members.n
        height = _whole_tiles(members.n)
        width = _whole_tiles(members.n_columns)
        self._dense = torch.zeros((height, width), dtype=torch.int8, device=device)
        self._degrees = torch.zeros(height, dtype=torch.int32, device=device)
        degrees = torch.from_numpy(members.degrees).to(device)
        self._degrees[: members.n] = degrees
        columns = torch.from_numpy(members.columns).to(device)
        # By parts: an index has 8 bytes where an entry has one.
        for first in range(0, members.n, 2**16):
            stop = min(members.n, first + 2**16)
            part = slice(int(members.indptr[first]), int(members.indptr[stop]))
            row = torch.arange(first, stop, device=device)
            row = row.repeat_interleave(degrees[first:stop])
            self._dense[row, columns[part].long()] = 1

    def blocks(self, k: int) -> Iterator[NearestBlock]:
        """Yield the k best of all rows."""
        strips = list(_strips(self._n, k))
        room = k + max(stop - first for first, stop in strips)
        rows = max(TILE, CANDIDATES // room // TILE * TILE)
        keys = torch.zeros(
            (min(rows, len(self._dense)), room),
            dtype=torch.int64,
            device=self._dense.device,
        )
        for first in range(0, self._n, rows):
            stop = min(self._n, first + rows)
            best = self._best(keys[: stop - first], first, strips, k)
            row, rank = best.nonzero(as_tuple=True)
            column, weight = unpacked(best[row, rank])
            last, least = unpacked(best.amin(dim=1))
            last = torch.where(least > 0, last, -1)
            yield NearestBlock(first, stop, row, column, weight, least, last)

    def _best(
        self,
        keys: Tensor,
        first: int,
        strips: list[tuple[int, int]],
        k: int,
    ) -> Tensor:
        """Return int64[rows, k], 0 where fewer are positive; `keys` is zeros and is left so."""
        rows = len(keys)
        bound = torch.zeros(rows, dtype=torch.float32, device=keys.device)
        count = torch.full((rows,), k, dtype=torch.int32, device=keys.device)
        for begin, end in strips:
            self._add(keys, bound, count, first, begin, end)
            longest = int(count.max())
            if longest > k:
                best = torch.topk(keys[:, :longest], k, dim=1, sorted=False).values
                keys[:, k:longest] = 0
                keys[:, :k] = best
                bound = unpacked(best.amin(dim=1))[1]
                count.fill_(k)
        best = keys[:, :k].clone()
        keys[:, :k] = 0
        return best

    def _add(
        self,
        keys: Tensor,
        bound: Tensor,
        count: Tensor,
        first: int,
        begin: int,
        end: int,
    ) -> None:
        """Append the candidates of columns `begin` to `end` of the rows from `first` on."""
        rows = len(keys)
        grid = (-(-rows // TILE) * -(-(end - begin) // TILE),)
        # Triton launches on the current device, whatever the tensors' is.
        with torch.cuda.device_of(keys):  # type: ignore[no-untyped-call]
            _candidates[grid](
                self._dense,
                self._degrees,
                bound,
                count,
                keys.view(torch.int32),
                first,
                begin,
                end,
                rows,
                self._dense.shape[1],
                keys.stride(0),
                size=TILE,
                num_warps=4,
                num_stages=3,
            )


def _whole_tiles(size: int) -> int:
    """Return `size`, rounded up to whole tiles."""
    return -(-size // TILE) * TILE


def _strips(n: int, k: int) -> Iterator[tuple[int, int]]:
    """Yield strips of columns [begin, end): whole tiles, as wide as all columns before."""
    begin = 0
    end = min(n, _whole_tiles(max(FIRST_STRIP, 4 * k)))
    while begin < n:
        yield begin, end
        begin = end
        end = min(n, 2 * end)


@triton.jit  # type: ignore[untyped-decorator]
def _candidates(  # type: ignore[no-untyped-def]  # noqa: PLR0913 (a kernel takes arrays)
    dense,
    degrees,
    bound,
    count,
    keys,
    first,
    begin,
    end,
    rows,
    width,
    stride,
    size: tl.constexpr,
):
    """Search one tile: `size` rows from `first` on times `size` columns from `begin` on."""
    down = tl.cdiv(rows, size)
    tile = tl.program_id(0)
    # Neighbouring programs share their columns, which then stay in the cache.
    row = (tile % down) * size + tl.arange(0, size)
    column = begin + (tile // down) * size + tl.arange(0, size)
    inner = tl.arange(0, size)
    left = dense + (first + row).to(tl.int64)[:, None] * width + inner[None, :]
    right = dense + column.to(tl.int64)[None, :] * width + inner[:, None]
    shared = tl.zeros((size, size), dtype=tl.int32)
    for _ in range(0, width, size):
        shared = tl.dot(tl.load(left), tl.load(right), shared, out_dtype=tl.int32)
        left += size
        right += size
    here = row < rows
    row_degrees = tl.load(degrees + first + row)[:, None]
    column_degrees = tl.load(degrees + column)[None, :]
    union = row_degrees + column_degrees - shared
    similar = tl.math.div_rn(shared.to(tl.float32), tl.maximum(union, 1).to(tl.float32))
    least = tl.load(bound + row, mask=here, other=2.0)
    good = (similar > least[:, None]) & ((first + row)[:, None] != column[None, :])
    good = (good & (column < end)[None, :]).to(tl.int32)
    found = tl.sum(good, axis=1)
    if tl.max(found, axis=0) > 0:
        start = tl.atomic_add(count + row, found, mask=here)
        filled = row.to(tl.int64)[:, None] * stride + start[:, None]
        at = filled + tl.cumsum(good, axis=1) - 1
        low = (-1 - column)[None, :] + tl.zeros_like(good)
        high = similar.to(tl.int32, bitcast=True)
        tl.store(keys + 2 * at, low, mask=good > 0)
        tl.store(keys + 2 * at + 1, high, mask=good > 0)
