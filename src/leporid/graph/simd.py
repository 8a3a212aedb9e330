"""Sixteen 32-bit lanes at a time, for the neighbour kernels.

numba vectorises plain loops but knows no popcount and no compressing store, the two things the
search lives on. These intrinsics emit portable LLVM vector code: with AVX-512 one row of lanes is
one register and `and_popcount` three instructions; elsewhere LLVM splits it into what there is.

All indices are unsigned: a signed one costs numba a wrap-around test on each access.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import register_model

from leporid.kernel import vector_code

__all__ = [
    "LANES",
    "WORDS",
    "add_lanes",
    "bits_in",
    "compress_lanes",
    "fetch_add",
    "load_counters",
    "load_lanes",
    "lowest_bit",
    "mask_above",
    "mask_equal",
    "panel_counts",
    "passing",
    "splat_panel",
    "store_counters",
    "store_similarity",
]

LANES = 16
"""Rows that are handled side by side."""
WORDS = 16
"""32-bit words in a panel: 512 columns."""

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


@register_model(IntLanes)
class _IntLanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _ints)  # type: ignore[no-untyped-call]


@register_model(Panel)
class _PanelModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.ArrayType(_ints, WORDS))  # type: ignore[no-untyped-call]


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


def _vector_address(
    context: Any, builder: Any, kind: Any, array: Any, index: Any, vector: Any
) -> Any:
    return builder.bitcast(_address(context, builder, kind, array, index), vector.as_pointer())


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_i32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_ints, [0] * LANES))


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    function: Any = cgutils.get_or_insert_function(builder.module, signature, name)  # type: ignore[no-untyped-call]
    return builder.call(function, arguments)


def _counter_lanes(kind: Any) -> Any:
    """The vector that sixteen counters of the array `kind` (16 or 32 bits wide) fill."""
    return ir.VectorType(ir.IntType(kind.dtype.bitwidth), LANES)


@vector_code
def splat_panel(_typing: Any, words: Any, index: Any) -> Any:
    """The panel of the 16 words that start at `words[index]`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = ir.Constant(ir.ArrayType(_ints, WORDS), ir.Undefined)
        start = _address(context, builder, signature.args[0], *arguments)
        for word in range(WORDS):
            value = builder.load(builder.gep(start, [ir.Constant(_i32, word)]))
            result = builder.insert_value(result, _splat(builder, value, _ints), word)
        return result

    return panel(words, types.uint64), code


@vector_code
def panel_counts(_typing: Any, query: Any, bits: Any, index: Any) -> Any:
    """How many of the query's 512 columns each of the 16 rows at `bits[index]` has."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = _vector_address(
            context, builder, signature.args[1], arguments[1], arguments[2], _ints
        )
        total = ir.Constant(_ints, [0] * LANES)
        for word in range(WORDS):
            rows = builder.load(builder.gep(start, [ir.Constant(_i32, word)]), align=4)
            shared = builder.and_(rows, builder.extract_value(arguments[0], word))
            total = builder.add(total, _call(builder, "llvm.ctpop.v16i32", _ints, shared))
        return total

    return int_lanes(panel, bits, types.uint64), code


@vector_code
def load_counters(_typing: Any, counters: Any, index: Any) -> Any:
    """Sixteen counters as 32-bit lanes."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        narrow = _counter_lanes(kind)
        address = _vector_address(context, builder, kind, arguments[0], arguments[1], narrow)
        value = builder.load(address, align=kind.dtype.bitwidth // 8)
        return value if narrow == _ints else builder.zext(value, _ints)

    return int_lanes(counters, types.uint64), code


@vector_code
def store_counters(_typing: Any, lanes: Any, counters: Any, index: Any) -> Any:
    """Write 16 lanes back to the counters, in their width."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[1]
        narrow = _counter_lanes(kind)
        value = arguments[0] if narrow == _ints else builder.trunc(arguments[0], narrow)
        address = _vector_address(context, builder, kind, arguments[1], arguments[2], narrow)
        builder.store(value, address, align=kind.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(int_lanes, counters, types.uint64), code


@vector_code
def add_lanes(_typing: Any, left: Any, right: Any) -> Any:
    """Lane-wise sum."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.add(*arguments)

    return int_lanes(int_lanes, int_lanes), code


@vector_code
def passing(_typing: Any, counts: Any, p: Any, q: Any, r: Any, fitted: Any, index: Any) -> Any:
    """Bit mask of the lanes where `counts * p >= q * fitted[index:] + r`."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counts, p, q, r, array, index = arguments
        address = _vector_address(context, builder, signature.args[4], array, index, _floats)
        term = builder.load(address, align=4)
        left = builder.fmul(builder.sitofp(counts, _floats), _splat(builder, p, _floats))
        q, r = _splat(builder, q, _floats), _splat(builder, r, _floats)
        right = _call(builder, "llvm.fma.v16f32", _floats, q, term, r)
        return builder.bitcast(builder.fcmp_ordered(">=", left, right), _i16)

    real = types.float32
    return types.uint16(int_lanes, real, real, real, fitted, types.uint64), code


def _compress(
    context: Any, builder: Any, lanes: Any, mask: Any, kind: Any, array: Any, at: Any
) -> Any:
    address = _vector_address(context, builder, kind, array, at, _i32)
    mask = builder.bitcast(mask, _mask)
    _call(builder, "llvm.masked.compressstore.v16i32", ir.VoidType(), lanes, address, mask)
    return context.get_dummy_value()


@vector_code
def compress_lanes(_typing: Any, lanes: Any, mask: Any, out: Any, at: Any) -> Any:
    """Write the lanes named by the mask to `out[at:]`, without gaps."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes, mask, out, at = arguments
        return _compress(context, builder, lanes, mask, signature.args[2], out, at)

    return types.void(int_lanes, types.uint16, out, types.uint64), code


@vector_code
def bits_in(_typing: Any, mask: Any) -> Any:
    """Number of lanes named by the mask."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.zext(_call(builder, "llvm.ctpop.i16", _i16, *arguments), _i64)

    return types.uint64(types.uint16), code


@vector_code
def lowest_bit(_typing: Any, word: Any) -> Any:
    """Position of the lowest set bit of a 64-bit word that is not zero."""

    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.cttz.i64", _i64, *arguments, ir.Constant(_i1, 1))

    return types.uint64(types.uint64), code


@vector_code
def fetch_add(_typing: Any, counter: Any, step: Any) -> Any:
    """Atomically add `step` to `counter[0]` (int64) and return what it was."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(_i64, 0)
        address = _address(context, builder, signature.args[0], arguments[0], zero)
        return builder.atomic_rmw("add", address, arguments[1], "monotonic")

    return types.int64(counter, types.int64), code


@vector_code
def load_lanes(_typing: Any, values: Any, index: Any) -> Any:
    """Sixteen 32-bit values from `values[index]` on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _vector_address(
            context, builder, signature.args[0], arguments[0], arguments[1], _ints
        )
        return builder.load(address, align=4)

    return int_lanes(values, types.uint64), code


def _compare(operator: str) -> Any:
    def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        lanes, bound = arguments
        hit = builder.icmp_unsigned(operator, lanes, _splat(builder, bound, _ints))
        return builder.bitcast(hit, _i16)

    return types.uint16(int_lanes, types.uint32), code


@vector_code
def mask_above(_typing: Any, lanes: Any, bound: Any) -> Any:
    """Bit mask of the lanes greater than `bound`, unsigned."""
    return _compare(">")


@vector_code
def mask_equal(_typing: Any, lanes: Any, bound: Any) -> Any:
    """Bit mask of the lanes equal to `bound`."""
    return _compare("==")


@vector_code
def store_similarity(
    _typing: Any, counts: Any, x: Any, y: Any, g: Any, fitted: Any, index: Any, out: Any, at: Any
) -> Any:
    """Write `counts / (x + y * fitted[index:] + g * counts)`, roughly, to `out[at:]` (float32)."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counts, x, y, g, fitted, index, out, at = arguments
        address = _vector_address(context, builder, signature.args[4], fitted, index, _floats)
        term = builder.load(address, align=4)
        shared = builder.sitofp(counts, _floats)
        x, y, g = (_splat(builder, scalar, _floats) for scalar in (x, y, g))
        total = _call(builder, "llvm.fma.v16f32", _floats, y, term, x)
        total = _call(builder, "llvm.fma.v16f32", _floats, g, shared, total)
        # Where nothing is shared the similarity is zero, whatever the denominator.
        none = builder.fcmp_ordered("==", shared, ir.Constant(_floats, [0.0] * LANES))
        value = builder.select(none, shared, builder.fdiv(shared, total))
        address = _vector_address(context, builder, signature.args[6], out, at, _floats)
        builder.store(value, address, align=4)
        return context.get_dummy_value()

    real = types.float32
    return types.void(int_lanes, real, real, real, fitted, types.uint64, out, types.uint64), code
