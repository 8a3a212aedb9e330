"""The selection kernels and the thread helpers."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.errors import ConfigError
from leporid.graph.kernels.selection import keep_best, kth_largest
from leporid.threads import on_each_share, on_each_thread, one_thread_pool, resolve_threads


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
    least = keep_best(bits, rows, len(values), k, 0)
    best = sorted(sorted(range(len(values)), key=lambda place: (-values[place], place))[:k])
    np.testing.assert_array_equal(rows[:k], np.array(best) * 3)
    np.testing.assert_array_equal(bits[:k], np.array(values)[best])
    assert least == sorted(values, reverse=True)[k - 1]


def test_fewer_steps_give_a_lower_bound() -> None:
    bits = np.arange(1, 161, dtype=np.uint32) * np.uint32(1000)
    for steps in range(20):
        assert kth_largest(bits, 160, 10, 0, steps) <= 151_000


def test_threads_are_resolved_and_restored() -> None:
    before = numba.get_num_threads()
    assert 1 <= resolve_threads(None) <= numba.config.NUMBA_NUM_THREADS
    assert resolve_threads(10_000) == numba.config.NUMBA_NUM_THREADS

    def fail() -> None:
        with one_thread_pool(1) as used:
            assert used == numba.get_num_threads() == 1
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert numba.get_num_threads() == before
    with pytest.raises(ConfigError, match="at least 1"):
        resolve_threads(0)


@pytest.mark.parametrize(
    ("first", "stop", "threads"), [(0, 10, 1), (3, 20, 4), (5, 7, 3), (2, 2, 2)]
)
def test_shares_are_all_rows_once(first: int, stop: int, threads: int) -> None:
    shares: list[range] = [range(0)] * threads

    def work(thread: int, begin: int, end: int) -> None:
        shares[thread] = range(begin, end)

    on_each_share(work, first, stop, threads)
    assert [row for share in shares for row in share] == list(range(first, stop))


def test_errors_of_threads_are_raised() -> None:
    def work(thread: int) -> None:
        if thread == 1:
            raise ValueError("from thread 1")

    with pytest.raises(ValueError, match="from thread 1"):
        on_each_thread(work, 2)
