"""masked_top_k against a sort, on the host and as a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.data import Sequences
from leporid.errors import ConfigError, DataError
from leporid.ranking import NanScoreError, TopK, masked_top_k, masked_top_k_torch
from tests.evaluation.helpers import sequences


def by_sorting(
    scores: Any, n: int, seen: Sequences | None = None, allowed: Any | None = None
) -> TopK:
    """The slow, obvious version."""
    items = np.full((len(scores), n), -1, dtype=np.int32)
    best = np.full((len(scores), n), -np.inf, dtype=np.float32)
    for u in range(len(scores)):
        row = scores[u].copy()
        if seen is not None:
            row[seen.of(u)] = -np.inf
        if allowed is not None:
            row[~allowed] = -np.inf
        order = sorted(range(len(row)), key=lambda j: (-row[j], j))
        order = [j for j in order if row[j] > -np.inf][:n]
        items[u, : len(order)] = order
        best[u, : len(order)] = row[order]
    return TopK(items, best)


def assert_same(found: TopK, expected: TopK) -> None:
    np.testing.assert_array_equal(found.items, expected.items)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.items.dtype == np.int32
    assert found.scores.dtype == np.float32


@st.composite
def problems(draw: Any) -> tuple[Any, int, Sequences | None, Any | None]:
    m, n_items = draw(st.integers(0, 5)), draw(st.integers(1, 150))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        # Few distinct values, so that most places are tied; both zeros, both infinities.
        values = np.array([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf], dtype=np.float32)
        scores = rng.choice(values[draw(st.integers(0, 2)) : draw(st.integers(4, 6))], (m, n_items))
    else:
        scores = rng.normal(size=(m, n_items)).astype(np.float32)
    n = draw(st.integers(1, 1 + n_items * 2))
    seen = None
    if draw(st.booleans()):
        share = draw(st.sampled_from([0.1, 0.5, 1.0]))
        seen = sequences([np.flatnonzero(rng.random(n_items) < share).tolist() for _ in range(m)])
    allowed = rng.random(n_items) < 0.6 if draw(st.booleans()) else None
    return scores, n, seen, allowed


@settings(max_examples=150, deadline=None)
@given(problems())
def test_equals_sorting(problem: tuple[Any, int, Sequences | None, Any | None]) -> None:
    scores, n, seen, allowed = problem
    before = scores.copy()
    expected = by_sorting(scores, n, seen, allowed)
    assert_same(masked_top_k(scores, n, seen=seen, allowed=allowed), expected)
    tensor = torch.from_numpy(scores)
    assert_same(masked_top_k_torch(tensor, n, seen=seen, allowed=allowed), expected)
    np.testing.assert_array_equal(scores, before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@settings(max_examples=100, deadline=None)
@given(problems())
def test_equals_sorting_on_the_device(
    problem: tuple[Any, int, Sequences | None, Any | None],
) -> None:
    scores, n, seen, allowed = problem
    found = masked_top_k_torch(torch.from_numpy(scores).cuda(), n, seen=seen, allowed=allowed)
    assert_same(found, by_sorting(scores, n, seen, allowed))


def test_worked_example() -> None:
    scores = np.array([[5, 7, 7, 1], [0, 0, 0, 0]], dtype=np.float32)
    top = masked_top_k(scores, 3, seen=sequences([[0], [1]]))
    assert top.items.tolist() == [[1, 2, 3], [0, 2, 3]]
    assert top.scores.tolist() == [[7, 7, 1], [0, 0, 0]]
    top = masked_top_k(scores, 3, seen=sequences([[0, 1], []]), allowed=np.arange(4) < 3)
    assert top.items.tolist() == [[2, -1, -1], [0, 1, 2]]


@pytest.mark.parametrize(
    "rank", [masked_top_k, lambda s, n: masked_top_k_torch(torch.tensor(s), n)]
)
@pytest.mark.parametrize("column", [0, 40, 69])
def test_nan_names_the_row(rank: Any, column: int) -> None:
    scores = np.zeros((5, 70), dtype=np.float32)
    scores[0, 1] = np.inf  # infinities are allowed
    scores[3, column] = np.nan
    with pytest.raises(NanScoreError, match="row 3"):
        rank(scores, 2)


def test_other_layouts_give_the_same_lists() -> None:
    scores = np.random.default_rng(1).normal(size=(6, 41))
    expected = masked_top_k(scores.astype(np.float32), 7)
    assert_same(masked_top_k(np.asfortranarray(scores.astype(np.float32)), 7), expected)
    assert_same(masked_top_k(scores, 7), expected)
    frozen = scores.astype(np.float32)
    frozen.setflags(write=False)
    assert_same(masked_top_k(frozen, 7), expected)


def test_bad_input_is_refused() -> None:
    scores = np.zeros((2, 3), dtype=np.float32)
    with pytest.raises(ConfigError, match="at least 1"):
        masked_top_k(scores, 0)
    with pytest.raises(DataError, match="one row per user"):
        masked_top_k(scores[0], 1)
    with pytest.raises(DataError, match="given for 1"):
        masked_top_k(scores, 1, seen=sequences([[0]]))
    with pytest.raises(DataError, match=r"0 \.\. 2"):
        masked_top_k(scores, 1, seen=sequences([[0], [3]]))
    with pytest.raises(DataError, match=r"bool\[3\]"):
        masked_top_k(scores, 1, allowed=np.ones(4, dtype=np.bool_))


@pytest.mark.parametrize("rows", [[0, 1, 2], [1, 2], [2, 0], [1, 1], [3], []])
def test_items_to_leave_out_are_taken_row_by_row(rows: list[int]) -> None:
    taken = sequences([[4, 1], [], [0, 2, 3], [9]]).take(np.array(rows, dtype=np.int32))
    expected = [[[4, 1], [], [0, 2, 3], [9]][r] for r in rows]
    assert [taken.of(i).tolist() for i in range(len(rows))] == expected
