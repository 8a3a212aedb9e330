"""Each vector function, called from a kernel of its own, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import float32, int64, uint16, uint32, uint64

from leporid.graph.kernels import simd
from leporid.kernel import kernel

RNG = np.random.default_rng(0)


@kernel
def counted(words: Any, bits: Any, at: Any, out: Any) -> None:
    query = simd.splat_panel(words, uint64(at))
    simd.store_counters(simd.panel_counts(query, bits, uint64(0)), out, uint64(0))


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_panel_counts_are_popcounts_of_shared_bits(kind: Any) -> None:
    words = RNG.integers(0, 2**32, 48, dtype=np.uint32)
    bits = RNG.integers(0, 2**32, (16, 16), dtype=np.uint32)  # word, row
    out = np.zeros(16, kind)
    counted(words, bits.ravel(), 16, out)
    expected = unpacked(words[16:32, None] & bits).sum(axis=(0, 2))
    np.testing.assert_array_equal(out, expected)


def unpacked(words: Any) -> Any:
    """Bits of uint32[...], as a last axis of 32."""
    return words[..., None] >> np.arange(32, dtype=np.uint32) & 1


@kernel
def summed(left: Any, right: Any, at: Any) -> None:
    lanes = simd.add_lanes(simd.load_lanes(left, uint64(at)), simd.load_lanes(right, uint64(0)))
    simd.store_counters(lanes, left, uint64(at))


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_counters_are_added_in_their_width(kind: Any) -> None:
    left, right = (RNG.integers(0, 30_000, 40).astype(kind) for _ in range(2))
    expected = left.copy()
    expected[5:21] += right[:16]
    summed(left, right, 5)
    np.testing.assert_array_equal(left, expected)


@kernel
def passed(counts: Any, p: Any, q: Any, r: Any, term: Any, at: Any) -> Any:
    lanes = simd.load_lanes(counts, uint64(0))
    return simd.passing(lanes, float32(p), float32(q), float32(r), term, uint64(at))


def test_passing_is_a_comparison_with_a_line() -> None:
    counts = RNG.integers(0, 10, 16).astype(np.uint32)
    term = RNG.integers(1, 20, 30).astype(np.float32)
    mask = passed(counts, 2.0, 0.5, 1.0, term, 7)
    expected = counts * 2.0 >= 0.5 * term[7:23] + 1.0
    assert [bool(mask >> lane & 1) for lane in range(16)] == expected.tolist()
    assert 0 < expected.sum() < 16


@kernel
def similar(counts: Any, term: Any, out: Any) -> None:
    lanes = simd.load_lanes(counts, uint64(0))
    x, y, g = float32(9.0), float32(1.0), float32(-1.0)
    simd.store_similarity(lanes, x, y, g, term, uint64(3), out, uint64(2))


def test_similarities_are_quotients_and_zero_without_shared_columns() -> None:
    counts = np.arange(16, dtype=np.uint32)
    term = np.full(20, 12.0, np.float32)
    term[3] = -9.0  # 0 / 0
    out = np.full(20, -1.0, np.float32)
    similar(counts, term, out)
    expected = np.append([0.0], counts[1:] / (9.0 + 12.0 - counts[1:]))
    np.testing.assert_allclose(out[2:18], expected, rtol=1e-6)
    assert (out[[0, 1, 18, 19]] == -1.0).all()


@kernel
def selected(values: Any, bound: Any, equal: Any, out: Any) -> Any:
    lanes = simd.load_lanes(values, uint64(1))
    above = simd.mask_above(lanes, uint32(bound))
    mask = uint16(above | simd.mask_equal(lanes, uint32(bound))) if equal else above
    simd.compress_lanes(lanes, mask, out, uint64(4))
    return simd.bits_in(mask)


@pytest.mark.parametrize("equal", [False, True])
def test_masks_name_the_lanes_that_are_written_without_gaps(equal: bool) -> None:
    values = RNG.integers(0, 4, 17).astype(np.uint32) + np.uint32(2**31)  # above: unsigned
    out = np.zeros(24, np.uint32)
    number = selected(values, 2**31 + 1, equal, out)
    lanes = values[1:]
    expected = lanes[lanes >= 2**31 + 1] if equal else lanes[lanes > 2**31 + 1]
    assert number == len(expected)
    np.testing.assert_array_equal(out[4 : 4 + number], expected)
    assert not out[4 + number :].any()


@kernel
def lowest(word: Any) -> Any:
    return simd.lowest_bit(uint64(word))


def test_lowest_bit() -> None:
    for bit in (0, 1, 31, 63):
        assert lowest(np.uint64((1 << bit) | (1 << 63))) == bit


@kernel
def turns(counter: Any, step: Any) -> Any:
    return simd.fetch_add(counter, int64(step))


def test_fetch_add_returns_what_was_there() -> None:
    counter = np.array([5], np.int64)
    assert [turns(counter, 3), turns(counter, 2), int(counter[0])] == [5, 8, 10]
