"""The neighbour graph with torch: dense 0/1 products, top-K and symmetrisation on one device.

The number of shared columns is a matrix product of 0/1 blocks, in half precision where torch sums
it in float32. Inputs are exact, and so is every sum: float32 holds every integer below 2^24.

The order is the CPU's: by the Jaccard similarity as a float32 number, ties to the smaller index.
The float32 quotient of two integers below 2^24 is the correctly rounded one, hence equal to the
rounded float64 quotient of the CPU.

`torch.device("cpu")` gives the same graph, for tests.
"""

from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from leporid.foundation import ProgressLike
from leporid.graph.nearest_block import NearestBlock
from leporid.graph.types import BinaryCSR, KnnGraph, Side

BLOCK_ENTRIES = {"cuda": 2**28, "cpu": 2**22}
"""Pairs of rows compared at once, by kind of device: about 20 bytes each at the peak."""
DENSE_ENTRIES = {"cuda": 2**33, "cpu": 2**26}
"""Largest matrix kept dense; a larger one is made dense tile by tile for each block."""


class GraphTensors(NamedTuple):
    """A `KnnGraph` as tensors on a device."""

    indptr: torch.Tensor
    indices: torch.Tensor
    weights: torch.Tensor


class DeviceGraph(KnnGraph):
    """A `KnnGraph` on a device (see `tensors_on`); its edges come to the host on first use."""

    tensors: GraphTensors

    def __init__(self, tensors: GraphTensors, side: Side, k: int) -> None:
        vars(self).update(tensors=tensors, side=side, k=k)

    def __getattr__(self, name: str) -> object:
        if name not in GraphTensors._fields:
            raise AttributeError(name)
        array = self.tensors._asdict()[name].cpu().numpy()
        vars(self)[name] = array
        return array

    @cached_property
    def _degrees(self) -> NDArray[np.float64]:
        weights = self.tensors.weights.double()
        sums = torch.segment_reduce(
            weights,
            "sum",
            offsets=self.tensors.indptr,
            initial=0,
        )
        return np.asarray(sums.cpu().numpy())


def tensors_on(graph: KnnGraph, device: torch.device) -> GraphTensors:
    """Return the graph on `device`: its own tensors where it was made there, else a copy."""
    tensors = graph.tensors if isinstance(graph, DeviceGraph) else None
    if tensors is not None and tensors.weights.device.type == device.type:
        return tensors
    return GraphTensors(
        indptr=torch.from_numpy(graph.indptr).to(device),
        indices=torch.from_numpy(graph.indices).to(device),
        weights=torch.from_numpy(graph.weights).to(device),
    )


def knn_graph_on(
    members: BinaryCSR,
    k: int,
    device: str,
    side: Side,
    progress: ProgressLike,
) -> KnnGraph:
    """Make `knn_graph` on a torch device ("auto" and "cuda" mean the current GPU); 1 <= k < n."""
    where = torch.device("cuda" if device == "auto" else device)
    n = members.n
    least = torch.zeros(n, dtype=torch.float32, device=where)
    last = torch.full((n,), -1, dtype=torch.int64, device=where)
    sources = []
    targets = []
    weights = []
    progress.start("neighbours", n)
    for block in _blocks(members, k, where):
        least[block.first : block.stop] = block.least
        last[block.first : block.stop] = block.last
        sources.append((block.row + block.first).int())
        targets.append(block.column.int())
        weights.append(block.weight)
        progress.advance(block.stop - block.first)
    tensors = _symmetrise(
        torch.cat(sources).long(),
        torch.cat(targets).long(),
        torch.cat(weights),
        least,
        last,
    )
    return DeviceGraph(tensors, side, k)


def _blocks(members: BinaryCSR, k: int, where: torch.device) -> Iterator[NearestBlock]:
    """Yield the k best of all rows, by one fused kernel where that is possible and worth it."""
    if where.type == "cuda" and find_spec("triton"):
        from leporid.graph.fused import FusedSearch, is_worth_it

        if is_worth_it(members, where):
            return FusedSearch(members, where).blocks(k)
    return _dense_blocks(members, k, where)


def _dense_blocks(
    members: BinaryCSR,
    k: int,
    where: torch.device,
) -> Iterator[NearestBlock]:
    """Yield the k best of all rows from every similarity of a block, by torch alone."""
    n = members.n
    half = where.type == "cuda" and _can_widen(where)
    kind = torch.float16 if half else torch.float32
    tile = max(1, min(n, DENSE_ENTRIES[where.type] // members.n_columns))
    matrix = _zeros_and_ones(members, 0, n, kind, where) if tile == n else None

    def dense(first: int, stop: int) -> torch.Tensor:
        if matrix is not None:
            return matrix[first:stop]
        return _zeros_and_ones(members, first, stop, kind, where)

    def shared_columns(queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if half:
            return torch.mm(queries, rows.T, out_dtype=torch.float32)
        return torch.mm(queries, rows.T)

    sizes = torch.from_numpy(members.degrees).to(where, torch.float32)
    block = max(1, min(n, BLOCK_ENTRIES[where.type] // n))
    for first in range(0, n, block):
        stop = min(n, first + block)
        queries = dense(first, stop)
        counts = torch.empty((stop - first, n), device=where)
        for begin in range(0, n, tile):
            end = min(n, begin + tile)
            counts[:, begin:end] = shared_columns(queries, dense(begin, end))
        rows = torch.arange(stop - first, device=where)
        counts[rows, rows + first] = 0
        # Where nothing is shared the union may be empty; 0 / 1 is the 0 it should be.
        union = (sizes[first:stop, None] + sizes).sub_(counts).clamp_(min=1)
        similar = counts.div_(union)
        del union
        chosen, bound = _best(similar, k)
        row, column = chosen.nonzero(as_tuple=True)
        weight = similar[chosen]
        last = torch.full((stop - first,), -1, dtype=torch.int64, device=where)
        at_bound = weight == bound[row]
        last.scatter_reduce_(0, row[at_bound], column[at_bound], "amax")
        del counts, similar, chosen
        yield NearestBlock(first, stop, row, column, weight, bound, last)


def _zeros_and_ones(
    members: BinaryCSR,
    first: int,
    stop: int,
    kind: torch.dtype,
    where: torch.device,
) -> torch.Tensor:
    """Return 0/1 [stop - first, n_columns] of the rows from `first` to `stop`."""
    start, end = members.indptr[[first, stop]]
    columns = torch.from_numpy(members.columns[start:end]).to(where).long()
    degrees = torch.from_numpy(members.degrees[first:stop]).to(where)
    row = torch.arange(stop - first, device=where).repeat_interleave(degrees)
    dense = torch.zeros((stop - first, members.n_columns), dtype=kind, device=where)
    dense[row, columns] = 1
    return dense


def _can_widen(device: torch.device) -> bool:
    """Return whether this torch multiplies half-precision matrices into a float32 one."""
    ones = torch.ones((16, 16), dtype=torch.float16, device=device)
    try:
        torch.mm(ones, ones, out_dtype=torch.float32)
    except (TypeError, RuntimeError):
        return False
    return True


def _best(similar: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return bool[rows, n] of each row's k best, and the k-th similarity of each row.

    The k-th similarity is 0 where fewer are positive.
    """
    bound = torch.topk(similar, k, dim=1, sorted=False).values.amin(dim=1)
    chosen = similar > bound[:, None]
    room = k - chosen.sum(dim=1)
    equal = (similar == bound[:, None]) & (bound > 0)[:, None]
    crowded = (equal.sum(dim=1) > room).nonzero()[:, 0]
    if len(crowded):
        ties = equal[crowded]
        ranks = ties.cumsum(dim=1, dtype=torch.int32)
        # The first `room` ties are those with the smallest index.
        equal[crowded] = ties & (ranks <= room[crowded, None])
    return chosen.logical_or_(equal), bound


def _symmetrise(
    source: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    least: torch.Tensor,
    last: torch.Tensor,
) -> GraphTensors:
    """Add every edge's reverse where its target did not choose it (as `symmetrise` decides it)."""
    n = len(least)
    bound = least[target]
    missing = (weight < bound) | ((weight == bound) & (source > last[target]))
    key = torch.cat([source * n + target, target[missing] * n + source[missing]])
    weight = torch.cat([weight, weight[missing]])
    del source, target, bound, missing
    key, order = torch.sort(key)
    weight = weight[order]
    del order
    row = torch.div(key, n, rounding_mode="floor")
    indptr = torch.zeros(n + 1, dtype=torch.int64, device=key.device)
    torch.cumsum(torch.bincount(row, minlength=n), dim=0, out=indptr[1:])
    return GraphTensors(indptr, (key - row * n).int(), weight)
