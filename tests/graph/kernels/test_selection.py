"""Each selection against sorting."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.graph.kernels.search import keep_best, kth_largest


@settings(deadline=None, max_examples=100)
@given(
    values=st.lists(st.integers(1, 40) | st.integers(1, 2**30), min_size=1, max_size=90),
    data=st.data(),
)
def test_keep_best_is_a_stable_selection(values: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    bits = np.zeros(len(values) + 32, np.uint32)
    bits[: len(values)] = values
    rows = np.arange(len(bits), dtype=np.uint32) * np.uint32(3)
    least = keep_best(bits, rows, len(values), k)
    best = sorted(sorted(range(len(values)), key=lambda index: (-values[index], index))[:k])
    np.testing.assert_array_equal(rows[:k], np.array(best) * 3)
    np.testing.assert_array_equal(bits[:k], np.array(values)[best])
    assert least == sorted(values, reverse=True)[k - 1]


def test_fewer_steps_give_a_lower_bound() -> None:
    bits = np.arange(1, 161, dtype=np.uint32) * np.uint32(1000)
    for steps in range(20):
        assert kth_largest(bits, 160, 10, steps) <= 151_000
