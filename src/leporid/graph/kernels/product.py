"""The product of a graph with a block of 16 columns, row-parallel.

The product is bound by fetching the block's rows, so everything here serves that: 16 float32
columns of a row are one cache line; the columns of the graph are visited in panels whose rows
fit into the second-level cache; and the block lies on huge pages, which spare the random rows
most address translations. The inner loop is written as LLVM vectors: with AVX-512 it is one index
load, one broadcast and one fused multiply-add per edge, without bounds tests.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils as typed_cgutils
from numba.core import types
from numpy.typing import NDArray

from leporid.graph.types import KnnGraph
from leporid.kernel import kernel, vector_code

BLOCK = 16
"""Columns of a block."""
PANEL_BYTES = 1 << 20
"""Rows of the block visited at a time: half of a usual second-level cache."""
FEWEST_EDGES = 48
"""A row's edges are cut into panels only while a piece keeps about this many."""
CHUNKS = 512
"""Pieces of about equal work the rows are dealt out in."""
HUGE_PAGE = 1 << 21

cgutils: Any = typed_cgutils
_int64 = ir.IntType(64)
_int32 = ir.IntType(32)


def huge_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """A zero array at a 2 MiB boundary, large enough for numpy to ask for huge pages."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(max(size, 2 * HUGE_PAGE) + HUGE_PAGE, dtype=np.uint8)
    start = -buffer.ctypes.data % HUGE_PAGE
    return np.asarray(buffer[start : start + size].view(dtype).reshape(shape))


def _emit_edges(
    _typing: Any, columns: Any, weights: Any, x: Any, out: Any, start: Any, end: Any, row: Any
) -> Any:
    """out[row] += sum over p in [start, end) of weights[p] * x[columns[p]], 16 columns wide.

    Two sums run side by side, so that one multiply-add need not wait for the other.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = [
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(signature.args[:4], arguments[:4], strict=True)
        ]
        columns, weights, x, out = data
        start, end, row = arguments[4:]
        number = x.type.pointee
        lanes = ir.VectorType(number, BLOCK)
        width = ir.Constant(_int64, BLOCK)
        fma = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(lanes, [lanes] * 3),
            f"llvm.fma.v{BLOCK}{'f64' if isinstance(number, ir.DoubleType) else 'f32'}",
        )
        undefined = ir.Constant(lanes, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_int32, BLOCK), [0] * BLOCK)

        def address(array: Any, index: Any) -> Any:
            place = builder.gep(array, [builder.mul(index, width)])
            return builder.bitcast(place, lanes.as_pointer())

        def edge(position: Any, total: Any) -> None:
            column = builder.zext(builder.load(builder.gep(columns, [position])), _int64)
            weight = builder.load(builder.gep(weights, [position]))
            if weight.type != number:
                weight = builder.fpext(weight, number)
            first = builder.insert_element(undefined, weight, ir.Constant(_int32, 0))
            spread = builder.shuffle_vector(first, undefined, everywhere)
            values = builder.load(address(x, column), align=4)
            builder.store(builder.call(fma, [spread, values, builder.load(total)]), total)

        zero = ir.Constant(lanes, [0.0] * BLOCK)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        one, two = ir.Constant(_int64, 1), ir.Constant(_int64, 2)
        even = builder.sub(end, builder.and_(builder.sub(end, start), one))
        with cgutils.for_range_slice(builder, start, even, two, intp=_int64) as (position, _):
            edge(position, totals[0])
            edge(builder.add(position, one), totals[1])
        with builder.if_then(builder.icmp_unsigned("<", even, end)):
            edge(even, totals[0])
        target = address(out, row)
        sums = builder.fadd(builder.load(totals[0]), builder.load(totals[1]))
        builder.store(builder.fadd(builder.load(target, align=4), sums), target, align=4)
        return context.get_dummy_value()

    return types.void(columns, weights, x, out, start, end, row), code


add_edges: Any = vector_code(_emit_edges)


@kernel(parallel=True)
def _multiply(
    cuts: Any,
    columns: Any,
    weights: Any,
    chunks: Any,
    scale: Any,
    diagonal: Any,
    x: Any,
    scaled: Any,
    out: Any,
) -> None:
    n = cuts.shape[1]
    panels = cuts.shape[0] - 1
    for piece in numba.prange(len(chunks) - 1):
        for i in range(chunks[piece], chunks[piece + 1]):
            for c in range(BLOCK):
                scaled[i, c] = scale[i] * x[i, c]
                out[i, c] = 0.0
    for panel in range(panels):
        for piece in numba.prange(len(chunks) - 1):
            for i in range(chunks[piece], chunks[piece + 1]):
                start, end = cuts[panel, i], cuts[panel + 1, i]
                if start < end:
                    add_edges(columns, weights, scaled, out, start, end, np.int64(i))
    for piece in numba.prange(len(chunks) - 1):
        for i in range(chunks[piece], chunks[piece + 1]):
            for c in range(BLOCK):
                out[i, c] = scale[i] * out[i, c] + diagonal[i] * x[i, c]
    for i in range(n, len(x)):
        for c in range(BLOCK):
            out[i, c] = 0.0


@kernel(parallel=True)
def _cut_rows(indptr: Any, columns: Any, bounds: Any, cuts: Any) -> None:
    for i in numba.prange(len(indptr) - 1):
        row = columns[indptr[i] : indptr[i + 1]]
        for panel in range(len(bounds)):
            cuts[panel, i] = indptr[i] + np.searchsorted(row, bounds[panel])


def column_bounds(n: int, edges: int) -> NDArray[np.int64]:
    """int64[panels + 1]: where the panels of columns of a graph of this size begin and end."""
    panels = min(-(-n * BLOCK * 4 // PANEL_BYTES), edges // (FEWEST_EDGES * max(n, 1)))
    return np.linspace(0, n, max(panels, 1) + 1).astype(np.int64)


class BlockProduct:
    """S W S x + diagonal x for blocks of 16 columns, with W a graph in this process.

    Column numbers take 16 bits while n < 65,536; the weights are the graph's own memory. A graph
    that is mapped from a file is not copied into memory.
    """

    def __init__(self, graph: KnnGraph) -> None:
        self.weights = graph.weights
        self.columns: NDArray[Any] = graph.indices.view(np.uint32)
        if graph.n <= 1 << 16 and not isinstance(graph.indices.base, np.memmap):
            self.columns = graph.indices.astype(np.uint16)
        bounds = column_bounds(graph.n, graph.n_edges)
        # int64[panels + 1, n]: where each row's edges enter the next panel of columns.
        self.cuts = np.empty((len(bounds), graph.n), dtype=np.int64)
        _cut_rows(graph.indptr, graph.indices, bounds, self.cuts)
        chunks = np.searchsorted(graph.indptr, np.linspace(0, graph.n_edges, CHUNKS + 1))
        chunks[0], chunks[-1] = 0, graph.n
        self._chunks = np.unique(chunks.astype(np.int64))

    def __call__(
        self,
        scale: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        x: NDArray[Any],
        scaled: NDArray[Any],
        out: NDArray[Any],
    ) -> None:
        """Fill `out` from x, both float[>= n, 16]; rows past n are zero; `scaled` is work space.

        `scale`, the diagonal of S, and `diagonal` have n entries. Float32 or float64 throughout,
        as x is.
        """
        factors = scale.astype(x.dtype), diagonal.astype(x.dtype)
        edges = self.cuts, self.columns, self.weights, self._chunks
        _multiply(*edges, *factors, x, scaled, out)
