"""`svd` against numpy's dense decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from leporid.embeddings import svd, truncated_svd
from leporid.embeddings.svd import SVD
from tests.initializers.helpers import make_interactions, planted


@pytest.mark.parametrize("dense_side", [0, 10_000], ids=["sparse solver", "dense"])
def test_products_are_the_best_low_rank_approximation(
    monkeypatch: pytest.MonkeyPatch, dense_side: int
) -> None:
    monkeypatch.setattr(svd, "_DENSE_SIDE", dense_side)
    train = planted(80, 50, seed=1)
    made = SVD(dim=7).fit(train)
    u, s, vt = np.linalg.svd(train.csr().toarray().astype(float), full_matrices=False)
    best = (u[:, :7] * s[:7]) @ vt[:7]
    np.testing.assert_allclose(made.users.vectors @ made.items.vectors.T, best, atol=2e-5)
    # The square root of S on both sides, not all of S on one.
    np.testing.assert_allclose(np.linalg.norm(made.users.vectors, axis=0) ** 2, s[:7], rtol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(made.items.vectors, axis=0) ** 2, s[:7], rtol=1e-4)


def test_signs_follow_the_rule_and_the_solver_is_deterministic() -> None:
    matrix = sparse.random_array((700, 300), density=0.05, rng=np.random.default_rng(0)).tocsr()
    first, second = truncated_svd(matrix, 9), truncated_svd(matrix, 9)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    u = first[0]
    assert np.all(u[np.argmax(np.abs(u), axis=0), np.arange(9)] > 0)
    other_seed = truncated_svd(matrix, 9, seed=3)[0]
    np.testing.assert_allclose(u, other_seed, atol=1e-7)


def test_columns_beyond_the_rank_are_zero() -> None:
    dense = np.zeros((6, 4), bool)
    dense[:3, :2] = True
    dense[3:, 2:] = True
    made = SVD(dim=5).fit(make_interactions(dense))
    assert made.users.vectors.shape == (6, 5)
    assert np.count_nonzero(made.users.vectors.any(axis=0)) == 2
    np.testing.assert_allclose(made.users.vectors @ made.items.vectors.T, dense, atol=1e-6)


def test_where_the_sparse_solver_gives_up_the_dense_one_answers() -> None:
    """Pairs of a very sparse log, each a block of its own: one singular value, many times."""
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 881, 1204), rng.integers(0, 656, 1204)
    matrix = sparse.csr_array((np.ones(1204), (users, items)), shape=(881, 656))
    matrix.data[:] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(svd, "_RESTARTS", 1)
        u, s, v = truncated_svd(matrix, 64)
    np.testing.assert_allclose(s, np.linalg.svd(matrix.toarray(), compute_uv=False)[:64])
    np.testing.assert_allclose(matrix @ v, u * s, atol=1e-9)
