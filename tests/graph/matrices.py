"""Matrices the kernels are tried on."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def random_sets(n: int, m: int, density: float, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    return sparse.csr_array((rng.random((n, m)) < density).astype(np.float32))


def skewed(n: int, m: int, seed: int) -> sparse.csr_array:
    """Popular and rare columns, busy and idle rows: what interaction logs look like."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / (1.0 + np.arange(m)) ** 0.7
    activity = np.exp(rng.normal(0.0, 1.0, n))
    chance = np.clip(0.6 * np.outer(activity, popularity[rng.permutation(m)]), 0.0, 0.95)
    return sparse.csr_array((rng.random((n, m)) < chance).astype(np.float32))


def adversarial() -> dict[str, tuple[sparse.csr_array, int]]:
    """Name to (matrix, k)."""
    rng = np.random.default_rng(7)
    ties = np.zeros((90, 12))
    ties[np.arange(90), np.arange(90) % 4] = 1
    ties[:, 11] = 1
    holes = rng.random((70, 30)) < 0.2
    holes[::3] = False
    identical = np.tile(rng.random((1, 40)) < 0.4, (100, 1))
    blocks = np.kron(np.eye(5), np.ones((13, 7)))
    return {
        "ties everywhere": (sparse.csr_array(ties), 7),
        "empty rows": (sparse.csr_array(holes.astype(np.int8)), 9),
        "all rows empty": (sparse.csr_array((20, 8)), 3),
        "identical rows": (sparse.csr_array(identical.astype(np.float64)), 11),
        "one column": (sparse.csr_array((rng.random((50, 1)) < 0.5).astype(np.float32)), 6),
        "one row": (sparse.csr_array(np.ones((1, 5))), 3),
        "two rows": (sparse.csr_array([[1, 1, 0], [0, 1, 1]]), 1),
        "all ones": (sparse.csr_array(np.ones((40, 600))), 5),
        "k of all others": (random_sets(33, 50, 0.2, 1), 32),
        "k beyond n": (random_sets(33, 50, 0.2, 2), 1000),
        "sixteen rows": (random_sets(16, 20, 0.3, 3), 4),
        "seventeen rows": (random_sets(17, 20, 0.3, 4), 4),
        "disconnected blocks": (sparse.csr_array(blocks), 20),
        "two panels and rare columns": (
            sparse.csr_array(
                sparse.hstack([random_sets(60, 1100, 0.5, 5), random_sets(60, 900, 0.02, 6)])
            ),
            8,
        ),
    }
