"""The product of a graph with a block of 16 columns, row-parallel.

The product is bound by fetching the block's rows: 16 float32 columns of a row are one cache line,
and the block lies on huge pages, which spare the random rows most address translations. numba does
not keep 16 sums in registers, so the inner loop (`_add_edges`) is written in LLVM's vector code:
one index load, one broadcast and one fused multiply-add per edge.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils as typed_cgutils
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from leporid.kernel import kernel

cgutils: Any = typed_cgutils
BLOCK = 16
"""Columns of a block."""
HUGE_PAGE = 1 << 21


def huge_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """A zero array at a 2 MiB boundary, large enough for numpy to ask for huge pages."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(max(size, 2 * HUGE_PAGE) + HUGE_PAGE, dtype=np.uint8)
    start = -buffer.ctypes.data % HUGE_PAGE
    return np.asarray(buffer[start : start + size].view(dtype).reshape(shape))


def _edges_code(
    _typing: Any,
    columns: Any,
    weights: Any,
    x: Any,
    out: Any,
    start: Any,
    end: Any,
    row: Any,
) -> Any:
    """out[row] += sum over p in [start, end) of weights[p] * x[columns[p]], 16 columns wide."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        arrays = zip(signature.args[:4], values[:4], strict=True)
        data = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in arrays
        )
        _write_edges(builder, *data, *values[4:])
        return context.get_dummy_value()

    return types.void(columns, weights, x, out, start, end, row), generate


_add_edges: Any = intrinsic(_edges_code)


def _write_edges(
    builder: Any,
    columns: Any,
    weights: Any,
    x: Any,
    out: Any,
    start: Any,
    end: Any,
    row: Any,
) -> None:
    """The code of `_add_edges`: two sums side by side, so that neither waits for the other."""
    number, index = x.type.pointee, ir.IntType(64)
    lanes = ir.VectorType(number, BLOCK)
    one, two, width = (ir.Constant(index, value) for value in (1, 2, BLOCK))
    undefined, zero = (
        ir.Constant(lanes, ir.Undefined),
        ir.Constant(lanes, [0.0] * BLOCK),
    )
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)
    totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
    kind = "f32" if number == ir.FloatType() else "f64"
    signature = ir.FunctionType(lanes, [lanes] * 3)
    fma = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.fma.v16{kind}"
    )
    align = 4

    def sixteen(data: Any, position: Any) -> Any:
        first = builder.gep(data, [builder.mul(position, width)])
        return builder.bitcast(first, lanes.as_pointer())

    def edge(position: Any, total: Any) -> None:
        column = builder.zext(builder.load(builder.gep(columns, [position])), index)
        weight = builder.load(builder.gep(weights, [position]))
        if weight.type != number:
            weight = builder.fpext(weight, number)
        values = builder.load(sixteen(x, column), align=align)
        spread = builder.insert_element(
            undefined, weight, ir.Constant(ir.IntType(32), 0)
        )
        spread = builder.shuffle_vector(spread, undefined, everywhere)
        builder.store(builder.call(fma, [spread, values, builder.load(total)]), total)

    even = builder.sub(end, builder.and_(builder.sub(end, start), one))
    with cgutils.for_range_slice(builder, start, even, two, intp=index) as (
        position,
        _,
    ):
        edge(position, totals[0])
        edge(builder.add(position, one), totals[1])
    with builder.if_then(builder.icmp_unsigned("<", even, end)):
        edge(even, totals[0])
    target = sixteen(out, row)
    sums = builder.fadd(builder.load(totals[0]), builder.load(totals[1]))
    builder.store(
        builder.fadd(builder.load(target, align=align), sums), target, align=align
    )


@kernel
def add_rows(
    indptr: Any, indices: Any, weights: Any, first: int, stop: int, x: Any, out: Any
) -> None:
    """Add W x to `out` for the rows [first, stop) of a CSR matrix W."""
    for row in range(first, stop):
        start, end = indptr[row], indptr[row + 1]
        if start < end:
            _add_edges(indices, weights, x, out, start, end, np.int64(row))


def even_shares(indptr: NDArray[np.int64], threads: int) -> list[int]:
    """Where the rows of each thread end and begin, so that all have about as many edges."""
    even = np.linspace(0, indptr[-1], threads + 1)[1:-1]
    return [0, *np.searchsorted(indptr, even).tolist(), len(indptr) - 1]
