"""Sixteen lanes at a time, for the kernels of the search and of products.

numba vectorises plain loops but has no popcount, no compressing store and no gather of whole rows.
These functions emit portable LLVM vector code: with AVX-512 sixteen lanes are one register and a
word of `panel_counts` three instructions; elsewhere LLVM splits them as needed.

All indices are unsigned: a signed one costs numba a wrap-around test on each access.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from llvmlite import ir
from numba.core import cgutils as typed_cgutils
from numba.core import types
from numba.core.datamodel import models
from numba.core.types import float32, int64, uint16, uint32, uint64, void
from numba.extending import intrinsic, register_model

LANES = 16
"""Rows that are handled side by side."""
WORDS = 16
"""32-bit words in a panel: 512 columns."""

cgutils: Any = typed_cgutils
_i1, _i16, _i32, _i64 = (ir.IntType(width) for width in (1, 16, 32, 64))
_ints = ir.VectorType(_i32, LANES)
_floats = ir.VectorType(ir.FloatType(), LANES)
_mask = ir.VectorType(_i1, LANES)


class IntLanes(types.Type):
    """Sixteen 32-bit integers in registers."""


class Panel(types.Type):
    """The 512 bits of one query row, each word spread over all lanes."""


int_lanes = IntLanes("int_lanes")
panel = Panel("panel")
array = None
"""In a signature: whatever array the caller has."""


@register_model(IntLanes)
class _IntLanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _ints)  # type: ignore[no-untyped-call]


@register_model(Panel)
class _PanelModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.ArrayType(_ints, WORDS))  # type: ignore[no-untyped-call]


def _vector_function(result: Any, *kinds: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make `write(builder, *arguments)`, which emits code, callable from kernels.

    `kinds` are the numba types of the arguments; an `array` reaches `write` as its data pointer.
    """

    def decorate(write: Callable[..., Any]) -> Any:
        @wraps(write)  # numba reads the number of arguments from the signature
        def define(_typing: Any, *passed: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
                arguments = [
                    context.make_array(kind)(context, builder, value).data
                    if isinstance(kind, types.Array)
                    else value
                    for kind, value in zip(signature.args, values, strict=True)
                ]
                value = write(builder, *arguments)
                return context.get_dummy_value() if result is void else value

            expected = zip(kinds, passed, strict=True)
            return result(*(own if kind is None else kind for kind, own in expected)), generate

        return intrinsic(define)

    return decorate


def _at(builder: Any, data: Any, index: Any) -> tuple[Any, int]:
    """Where sixteen elements of an array start, as a vector, and the alignment in bytes."""
    vector = ir.VectorType(data.type.pointee, LANES)
    address = builder.bitcast(builder.gep(data, [index]), vector.as_pointer())
    return address, 2 if data.type.pointee == _i16 else 4


def _load(builder: Any, data: Any, index: Any) -> Any:
    address, align = _at(builder, data, index)
    return builder.load(address, align=align)


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_i32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_ints, [0] * LANES))


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    return builder.call(function, arguments)


def _fma(builder: Any, *factors: Any) -> Any:
    kind = "f32" if factors[0].type == _floats else "f64"
    return _call(builder, f"llvm.fma.v16{kind}", factors[0].type, *factors)


@_vector_function(panel, array, uint64)
def splat_panel(builder: Any, words: Any, index: Any) -> Any:
    """The panel of the 16 words that start at `words[index]`."""
    result = ir.Constant(ir.ArrayType(_ints, WORDS), ir.Undefined)
    start = builder.gep(words, [index])
    for word in range(WORDS):
        value = builder.load(builder.gep(start, [ir.Constant(_i32, word)]))
        result = builder.insert_value(result, _splat(builder, value, _ints), word)
    return result


@_vector_function(int_lanes, panel, array, uint64)
def panel_counts(builder: Any, query: Any, bits: Any, index: Any) -> Any:
    """How many of the query's 512 columns each of the 16 rows at `bits[index]` has."""
    start, align = _at(builder, bits, index)
    total = ir.Constant(_ints, [0] * LANES)
    for word in range(WORDS):
        rows = builder.load(builder.gep(start, [ir.Constant(_i32, word)]), align=align)
        shared = builder.and_(rows, builder.extract_value(query, word))
        total = builder.add(total, _call(builder, "llvm.ctpop.v16i32", _ints, shared))
    return total


@_vector_function(int_lanes, array, uint64)
def load_lanes(builder: Any, values: Any, index: Any) -> Any:
    """Sixteen numbers (uint16 or uint32) from `values[index]` on, as 32-bit lanes."""
    value = _load(builder, values, index)
    return value if value.type == _ints else builder.zext(value, _ints)


@_vector_function(void, int_lanes, array, uint64)
def store_counters(builder: Any, lanes: Any, counters: Any, index: Any) -> None:
    """Write 16 lanes back to the counters, in their width."""
    address, align = _at(builder, counters, index)
    narrow = address.type.pointee
    value = lanes if narrow == _ints else builder.trunc(lanes, narrow)
    builder.store(value, address, align=align)


@_vector_function(int_lanes, int_lanes, int_lanes)
def add_lanes(builder: Any, left: Any, right: Any) -> Any:
    """Lane-wise sum."""
    return builder.add(left, right)


@_vector_function(uint16, int_lanes, float32, float32, float32, array, uint64)
def passing(builder: Any, counts: Any, p: Any, q: Any, r: Any, term: Any, index: Any) -> Any:
    """Bit mask of the lanes where `counts * p >= q * term[index:] + r` (float32)."""
    p, q, r = (_splat(builder, scalar, _floats) for scalar in (p, q, r))
    left = builder.fmul(builder.sitofp(counts, _floats), p)
    right = _fma(builder, q, _load(builder, term, index), r)
    return builder.bitcast(builder.fcmp_ordered(">=", left, right), _i16)


@_vector_function(void, int_lanes, float32, float32, float32, array, uint64, array, uint64)
def store_similarity(
    builder: Any, counts: Any, x: Any, y: Any, g: Any, term: Any, index: Any, out: Any, at: Any
) -> None:
    """Write `counts / (x + y * term[index:] + g * counts)`, roughly, to `out[at:]` (float32)."""
    shared = builder.sitofp(counts, _floats)
    x, y, g = (_splat(builder, scalar, _floats) for scalar in (x, y, g))
    total = _fma(builder, g, shared, _fma(builder, y, _load(builder, term, index), x))
    # Where nothing is shared the similarity is zero, whatever the denominator.
    none = builder.fcmp_ordered("==", shared, ir.Constant(_floats, [0.0] * LANES))
    address, align = _at(builder, out, at)
    value = builder.select(none, shared, builder.fdiv(shared, total))
    builder.store(value, address, align=align)


@_vector_function(void, int_lanes, uint16, array, uint64)
def compress_lanes(builder: Any, lanes: Any, mask: Any, out: Any, at: Any) -> None:
    """Write the lanes named by the mask to `out[at:]`, without gaps."""
    mask = builder.bitcast(mask, _mask)
    address = builder.gep(out, [at])
    _call(builder, "llvm.masked.compressstore.v16i32", ir.VoidType(), lanes, address, mask)


@_vector_function(uint16, int_lanes, uint32)
def mask_above(builder: Any, lanes: Any, bound: Any) -> Any:
    """Bit mask of the lanes greater than `bound`, unsigned."""
    hit = builder.icmp_unsigned(">", lanes, _splat(builder, bound, _ints))
    return builder.bitcast(hit, _i16)


@_vector_function(uint16, int_lanes, uint32)
def mask_equal(builder: Any, lanes: Any, bound: Any) -> Any:
    """Bit mask of the lanes equal to `bound`."""
    hit = builder.icmp_unsigned("==", lanes, _splat(builder, bound, _ints))
    return builder.bitcast(hit, _i16)


@_vector_function(uint64, uint16)
def bits_in(builder: Any, mask: Any) -> Any:
    """Number of lanes named by the mask."""
    return builder.zext(_call(builder, "llvm.ctpop.i16", _i16, mask), _i64)


@_vector_function(uint64, uint64)
def lowest_bit(builder: Any, word: Any) -> Any:
    """Position of the lowest set bit of a 64-bit word that is not zero."""
    return _call(builder, "llvm.cttz.i64", _i64, word, ir.Constant(_i1, 1))


@_vector_function(int64, array, int64)
def fetch_add(builder: Any, counter: Any, step: Any) -> Any:
    """Atomically add `step` to `counter[0]` (int64) and return what it was."""
    return builder.atomic_rmw("add", counter, step, "monotonic")


@_vector_function(void, array, array, array, array, int64, int64, int64)
def add_edges(
    builder: Any, columns: Any, weights: Any, x: Any, out: Any, start: Any, end: Any, row: Any
) -> None:
    """out[row] += sum over p in [start, end) of weights[p] * x[columns[p]], 16 columns wide.

    Two sums run side by side, so that one multiply-add need not wait for the other.
    """
    number = x.type.pointee
    lanes = ir.VectorType(number, LANES)
    zero = ir.Constant(lanes, [0.0] * LANES)
    totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
    one, two, width = (ir.Constant(_i64, value) for value in (1, 2, LANES))

    def edge(position: Any, total: Any) -> None:
        column = builder.zext(builder.load(builder.gep(columns, [position])), _i64)
        weight = builder.load(builder.gep(weights, [position]))
        if weight.type != number:
            weight = builder.fpext(weight, number)
        values = _load(builder, x, builder.mul(column, width))
        spread = _splat(builder, weight, lanes)
        builder.store(_fma(builder, spread, values, builder.load(total)), total)

    even = builder.sub(end, builder.and_(builder.sub(end, start), one))
    with cgutils.for_range_slice(builder, start, even, two, intp=_i64) as (position, _):
        edge(position, totals[0])
        edge(builder.add(position, one), totals[1])
    with builder.if_then(builder.icmp_unsigned("<", even, end)):
        edge(even, totals[0])
    target, align = _at(builder, out, builder.mul(row, width))
    sums = builder.fadd(builder.load(totals[0]), builder.load(totals[1]))
    builder.store(builder.fadd(builder.load(target, align=align), sums), target, align=align)
