"""The product of a graph with a block of 16 columns, row-parallel.

The product is bound by fetching the block's rows: 16 float32 columns of a row are one cache line,
and the block lies on huge pages, which spare the random rows most address translations. numba does
not keep 16 sums in registers, so the inner loop (`_add_edges`) is written in LLVM's vector code:
one index load, one broadcast and one fused multiply-add per edge.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import cgutils as typed_cgutils
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import DTypeLike, NDArray

from leporid.foundation import kernel
from leporid.graph.types import Block

cgutils: Any = typed_cgutils
Type: TypeAlias = types.Type
"""The type of an argument, as numba infers it."""
Value: TypeAlias = Any
"""A value of the program that llvmlite writes."""
BLOCK = 16
"""Columns of a block."""
HUGE_PAGE = 1 << 21


def huge_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make a zero array at a 2 MiB boundary, large enough for numpy to ask for huge pages."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(max(size, 2 * HUGE_PAGE) + HUGE_PAGE, dtype=np.uint8)
    start = -buffer.ctypes.data % HUGE_PAGE
    return np.asarray(buffer[start : start + size].view(dtype).reshape(shape))


def _edges_code(
    _typing: object,
    columns: Type,
    weights: Type,
    x: Type,
    out: Type,
    start: Type,
    end: Type,
    row: Type,
) -> tuple[object, Callable[..., Value]]:
    """Set out[row] += sum over p in [start, end) of weights[p] * x[columns[p]], 16 columns wide."""

    def generate(
        context: Any,
        builder: ir.IRBuilder,
        signature: Any,
        values: list[Value],
    ) -> Value:
        def data(position: int) -> Value:
            array = context.make_array(signature.args[position])
            return array(context, builder, values[position]).data

        arrays = [data(position) for position in range(4)]
        _write_edges(builder, *arrays, *values[4:])
        return context.get_dummy_value()

    return types.void(columns, weights, x, out, start, end, row), generate


_add_edges: Any = intrinsic(_edges_code)


def _write_edges(
    builder: ir.IRBuilder,
    columns: Value,
    weights: Value,
    x: Value,
    out: Value,
    start: Value,
    end: Value,
    row: Value,
) -> None:
    """Write the code of `_add_edges`, with two sums side by side: neither waits for the other."""
    number = x.type.pointee
    index = ir.IntType(64)
    lanes = ir.VectorType(number, BLOCK)
    one = ir.Constant(index, 1)
    two = ir.Constant(index, 2)
    width = ir.Constant(index, BLOCK)
    undefined = ir.Constant(lanes, ir.Undefined)
    zero = ir.Constant(lanes, [0.0] * BLOCK)
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)
    first_lane = ir.Constant(ir.IntType(32), 0)
    totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
    kind = "f32" if number == ir.FloatType() else "f64"
    signature = ir.FunctionType(lanes, [lanes] * 3)
    fma = cgutils.get_or_insert_function(
        builder.module,
        signature,
        f"llvm.fma.v16{kind}",
    )
    align = 4

    def sixteen(data: Value, position: Value) -> Value:
        first = builder.gep(data, [builder.mul(position, width)])
        return builder.bitcast(first, lanes.as_pointer())

    def add_edge(position: Value, total: Value) -> None:
        column = builder.zext(builder.load(builder.gep(columns, [position])), index)
        weight = builder.load(builder.gep(weights, [position]))
        if weight.type != number:
            weight = builder.fpext(weight, number)
        values = builder.load(sixteen(x, column), align=align)
        spread = builder.insert_element(undefined, weight, first_lane)
        spread = builder.shuffle_vector(spread, undefined, everywhere)
        total_with_edge = builder.call(fma, [spread, values, builder.load(total)])
        builder.store(total_with_edge, total)

    even = builder.sub(end, builder.and_(builder.sub(end, start), one))
    pairs = cgutils.for_range_slice(builder, start, even, two, intp=index)
    with pairs as (position, _):
        add_edge(position, totals[0])
        add_edge(builder.add(position, one), totals[1])
    with builder.if_then(builder.icmp_unsigned("<", even, end)):
        add_edge(even, totals[0])
    target = sixteen(out, row)
    sums = builder.fadd(builder.load(totals[0]), builder.load(totals[1]))
    image = builder.fadd(builder.load(target, align=align), sums)
    builder.store(image, target, align=align)


@kernel
def add_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    first: int,
    stop: int,
    x: Block,
    out: Block,
) -> None:
    """Add W x to `out` for the rows [first, stop) of a CSR matrix W."""
    for row in range(first, stop):
        start = indptr[row]
        end = indptr[row + 1]
        if start < end:
            _add_edges(indices, weights, x, out, start, end, np.int64(row))


def even_shares(indptr: NDArray[np.int64], threads: int) -> list[int]:
    """Return where the rows of each thread end and begin, so all have about as many edges."""
    even = np.linspace(0, indptr[-1], threads + 1)[1:-1]
    return [0, *np.searchsorted(indptr, even).tolist(), len(indptr) - 1]
