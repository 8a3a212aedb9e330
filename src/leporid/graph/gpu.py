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
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from leporid.graph.types import BinaryCSR, KnnGraph, Side
from leporid.progress import ProgressLike

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

    def __getattr__(self, name: str) -> Any:
        if name not in GraphTensors._fields:
            raise AttributeError(name)
        array = getattr(self.tensors, name).cpu().numpy()
        vars(self)[name] = array
        return array

    @cached_property
    def _degrees(self) -> NDArray[np.float64]:
        weights = self.tensors.weights.double()
        sums = torch.segment_reduce(
            weights, "sum", offsets=self.tensors.indptr, initial=0
        )
        return np.asarray(sums.cpu().numpy())


def tensors_on(graph: KnnGraph, device: torch.device) -> GraphTensors:
    """The graph on `device`: its own tensors where it was made there, else a copy."""
    if (
        isinstance(graph, DeviceGraph)
        and graph.tensors.weights.device.type == device.type
    ):
        return graph.tensors
    arrays = (graph.indptr, graph.indices, graph.weights)
    return GraphTensors(*(torch.from_numpy(array).to(device) for array in arrays))


def knn_graph_on(
    members: BinaryCSR, k: int, device: str, side: Side, progress: ProgressLike
) -> KnnGraph:
    """`knn_graph` by way of a torch device ("auto" and "cuda" mean the current GPU); 1 <= k < n."""
    where = torch.device("cuda" if device == "auto" else device)
    n = members.n
    least = torch.zeros(n, dtype=torch.float32, device=where)
    last = torch.full((n,), -1, dtype=torch.int64, device=where)
    sources, targets, weights = [], [], []
    progress.start("neighbours", n)
    for first, stop, edges, bounds in _blocks(members, k, where):
        row, column, weight = edges
        least[first:stop], last[first:stop] = bounds
        sources.append((row + first).int())
        targets.append(column.int())
        weights.append(weight)
        progress.advance(stop - first)
    every = torch.cat(sources).long(), torch.cat(targets).long(), torch.cat(weights)
    return DeviceGraph(_symmetrise(*every, least, last), side, k)


Block = tuple[int, int, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]
"""(first, stop, (row, column, similarity), (similarity, column) of each row's k-th): the k best of
the rows between; rows count from `first`; the k-th is (0, -1) where fewer are positive."""


def _blocks(members: BinaryCSR, k: int, where: torch.device) -> Iterator[Block]:
    """The k best of all rows, by one fused kernel where that is possible and worth it."""
    if where.type == "cuda" and find_spec("triton"):
        from leporid.graph.fused import FusedSearch, is_worth_it

        if is_worth_it(members, where):
            return FusedSearch(members, where).blocks(k)
    return _dense_blocks(members, k, where)


def _dense_blocks(members: BinaryCSR, k: int, where: torch.device) -> Iterator[Block]:
    """The same from every similarity of a block of rows, by torch alone."""
    n, width = members.n, members.n_columns
    half = where.type == "cuda" and _can_widen(where)
    kind = torch.float16 if half else torch.float32
    options: Any = {"out_dtype": torch.float32} if half else {}
    tile = max(1, min(n, DENSE_ENTRIES[where.type] // width))
    whole = _zeros_and_ones(members, 0, n, kind, where) if tile == n else None

    def dense(first: int, stop: int) -> torch.Tensor:
        if whole is not None:
            return whole[first:stop]
        return _zeros_and_ones(members, first, stop, kind, where)

    sizes = torch.from_numpy(members.degrees).to(where, torch.float32)
    block = max(1, min(n, BLOCK_ENTRIES[where.type] // n))
    for first in range(0, n, block):
        stop = min(n, first + block)
        queries, counts = (
            dense(first, stop),
            torch.empty((stop - first, n), device=where),
        )
        for begin in range(0, n, tile):
            end = min(n, begin + tile)
            counts[:, begin:end] = torch.mm(queries, dense(begin, end).T, **options)
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
        yield first, stop, (row, column, weight), (bound, last)


def _zeros_and_ones(
    members: BinaryCSR, first: int, stop: int, kind: torch.dtype, where: torch.device
) -> torch.Tensor:
    """0/1 [stop - first, n_columns] of the rows from `first` to `stop`."""
    start, end = members.indptr[[first, stop]]
    columns = torch.from_numpy(members.columns[start:end]).to(where).long()
    degrees = torch.from_numpy(members.degrees[first:stop]).to(where)
    row = torch.arange(stop - first, device=where).repeat_interleave(degrees)
    dense = torch.zeros((stop - first, members.n_columns), dtype=kind, device=where)
    dense[row, columns] = 1
    return dense


def _can_widen(device: torch.device) -> bool:
    """Whether this torch multiplies half-precision matrices into a float32 one."""
    one = torch.ones((16, 16), dtype=torch.float16, device=device)
    try:
        torch.mm(one, one, out_dtype=torch.float32)
    except (TypeError, RuntimeError):
        return False
    return True


def _best(similar: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """bool[rows, n] of each row's k best, and its k-th similarity (0 where fewer are positive)."""
    bound = torch.topk(similar, k, dim=1, sorted=False).values.amin(dim=1)
    chosen = similar > bound[:, None]
    room = k - chosen.sum(dim=1)
    equal = (similar == bound[:, None]) & (bound > 0)[:, None]
    crowded = (equal.sum(dim=1) > room).nonzero()[:, 0]
    if len(crowded):
        some = equal[crowded]
        # The first `room` ties are those with the smallest index.
        equal[crowded] = some & (
            some.cumsum(dim=1, dtype=torch.int32) <= room[crowded, None]
        )
    return chosen.logical_or_(equal), bound


def _symmetrise(
    source: Any, target: Any, weight: Any, least: Any, last: Any
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
