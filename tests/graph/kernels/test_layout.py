"""The layout holds the matrix, and takes the memory it says."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.graph import Similarity, binary_csr
from leporid.graph.kernels import layout
from tests.graph.matrices import skewed


def unpacked(words: np.ndarray) -> np.ndarray:
    """bool[..., 32 w] from uint32[..., w], lowest bit first."""
    bits = words[..., None] >> np.arange(32, dtype=np.uint32) & 1
    return bits.reshape(*words.shape[:-1], -1).astype(bool)


@pytest.mark.parametrize("panels", [0, 1, 2])
def test_bits_and_lists_are_the_matrix(panels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "TILE_GROUPS", 5)  # tiles of 80 rows
    X = skewed(203, 1300, seed=6)
    members = binary_csr(X)
    columns = layout.Columns(layout.rank_columns(members).rank, panels)
    terms = Similarity().terms(members.degrees, members.degrees)
    fitted = layout.fitted_rows(members, columns, terms.b)
    queries = layout.query_rows(members, columns, terms, None)
    ranked = np.zeros((203, max(1300, 512 * panels)), bool)
    ranked[np.repeat(np.arange(203), members.degrees), columns.rank[members.columns]] = True

    blocks = fitted.bits.reshape(panels, fitted.groups, 16, 16).transpose(1, 3, 0, 2)
    bits = unpacked(blocks.reshape(fitted.groups * 16, panels * 16))
    np.testing.assert_array_equal(bits[:203], ranked[:, : 512 * panels])
    assert not bits[203:].any()
    own = queries.words[: 203 * panels * 16].reshape(203, panels * 16)
    np.testing.assert_array_equal(unpacked(own), ranked[:, : 512 * panels])

    for strip, starts in enumerate(fitted.list_start):
        first = strip // fitted.strips * fitted.tile_groups * 16
        for column in range(len(starts) - 1):
            rows = first + fitted.list_rows[starts[column] : starts[column + 1]].astype(int)
            tile = ranked[first : first + fitted.tile_groups * 16, 512 * panels + column]
            np.testing.assert_array_equal(rows, first + np.flatnonzero(tile))
    for row in range(203):
        rare = queries.rare_columns[queries.rare_start[row] : queries.rare_start[row + 1]]
        np.testing.assert_array_equal(np.sort(rare), np.flatnonzero(ranked[row, 512 * panels :]))


@pytest.mark.parametrize("k", [10, 3000])
def test_the_bytes_of_a_search_are_about_those_it_takes(k: int) -> None:
    members = binary_csr(skewed(4000, 1300, seed=2))
    columns = layout.rank_columns(members)
    terms = Similarity().terms(members.degrees, members.degrees)
    fitted = layout.fitted_rows(members, columns, terms.b)
    queries = layout.query_rows(members, columns, terms, None)
    scratch = layout.scratch_space(fitted, queries, k, 1)
    arrays = [a for part in (fitted, queries, scratch) for a in part if isinstance(a, np.ndarray)]
    views = scratch.weights.nbytes + scratch.sample.nbytes
    taken = sum(array.nbytes for array in arrays) - views
    assert taken <= layout.search_bytes(members, k, 1) <= 1.5 * taken
