"""The layout holds the matrix, and takes the memory it says."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.graph import Similarity, binary_csr
from leporid.graph.kernels import layout
from tests.graph.matrices import skewed


def unpacked(words: np.ndarray) -> np.ndarray:
    """bool[n, 64 w] from uint64[n, w], lowest bit first."""
    bits = words[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
    return bits.reshape(len(words), words.shape[1] * 64).astype(bool)


@pytest.mark.parametrize("panels", [0, 1, 2])
def test_bits_and_lists_are_the_matrix(panels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "TILE", layout.CHUNK)
    n, size = 1203, layout.PANEL
    members = binary_csr(skewed(n, 1300, seed=6))
    columns = layout.Columns(layout.rank_columns(members).rank, panels)
    terms = Similarity().terms(members.degrees, members.degrees)
    fitted = layout.fitted_rows(members, columns, terms)
    queries = layout.query_rows(members, columns, terms, None)
    ranked = np.zeros((n, 1300), bool)
    ranked[np.repeat(np.arange(n), members.degrees), columns.rank[members.columns]] = True

    chunks = len(fitted.bits)
    assert chunks == 3
    bits = unpacked(fitted.bits.transpose(0, 3, 1, 2).reshape(chunks * layout.CHUNK, panels * 4))
    np.testing.assert_array_equal(bits[:n], ranked[:, : size * panels])
    assert not bits[n:].any()
    own = unpacked(queries.words.reshape(n, panels * 4))
    np.testing.assert_array_equal(own, ranked[:, : size * panels])

    for tile, starts in enumerate(fitted.list_start):
        for column in range(len(starts) - 1):
            rows = fitted.list_rows[starts[column] : starts[column + 1]]
            inside = ranked[tile * layout.CHUNK :][: layout.CHUNK, size * panels + column]
            np.testing.assert_array_equal(rows, np.flatnonzero(inside))
    for row in range(n):
        rare = queries.rare_columns[queries.rare_start[row] : queries.rare_start[row + 1]]
        np.testing.assert_array_equal(np.sort(rare), np.flatnonzero(ranked[row, size * panels :]))


@pytest.mark.parametrize("k", [10, 3000])
def test_the_bytes_of_a_search_are_about_those_it_takes(k: int) -> None:
    members = binary_csr(skewed(4000, 1300, seed=2))
    columns = layout.rank_columns(members)
    terms = Similarity().terms(members.degrees, members.degrees)
    queries = layout.query_rows(members, columns, terms, None)
    fitted = layout.fitted_rows(members, columns, terms, queries)
    scratch = layout.scratch_space(k, members.n_columns)
    arrays = [a for part in (fitted, queries, scratch) for a in part if isinstance(a, np.ndarray)]
    taken = sum(array.nbytes for array in arrays) - scratch.passing_words.nbytes
    assert taken <= layout.search_bytes(members, k, 1) <= 1.5 * taken
