"""`FeatureSum`: rows of a table that are sums with the embeddings of their features.

With a table about items the network reads E_i + sum_f B_if F_f of item i. Row i of B has length
one and holds the words, categories and numbers of the item (`leporid.data.item_features`); if
they weigh alike each is 1 / sqrt(count). F begins at zero.
"""

import zlib

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.utils import parametrize

from leporid.models.neural.layers import SparseProduct, apply, csr_tensor

_MAX_FEATURES = 10_000
"""Features that get an embedding: those that most rows have."""


class FeatureSum(nn.Module):
    """Adds to each row of float32[n, D] the embeddings of its features."""

    matrix: Tensor
    transposed: Tensor

    def __init__(self, features: sparse.csr_array, dim: int) -> None:
        super().__init__()
        n_features = features.shape[1]
        self.rows = nn.Parameter(torch.zeros(n_features, dim))
        self.register_buffer("matrix", _csr_tensor(features), persistent=False)
        transposed = _csr_tensor(features.T.tocsr())
        self.register_buffer("transposed", transposed, persistent=False)
        # A checkpoint holds it: a run is not resumed with another table.
        digest = [
            zlib.crc32(features.indptr),
            zlib.crc32(features.indices),
            zlib.crc32(features.data),
        ]
        self.register_buffer("digest", torch.tensor(digest))

    def forward(self, table: Tensor) -> Tensor:
        return table + apply(SparseProduct, self.matrix, self.transposed, self.rows)


def add_features(table: nn.Embedding, features: sparse.csr_array) -> None:
    """Make the rows of a table sums with their most common features.

    Whoever reads the table sees the sums; `fold_features` makes them its rows.
    """
    rows_by_feature = np.bincount(features.indices, minlength=features.shape[1])
    by_count = np.argsort(-rows_by_feature, kind="stable")
    common = np.sort(by_count[:_MAX_FEATURES])
    common_features = sparse.csr_array(features[:, common])
    feature_sum = FeatureSum(common_features, table.embedding_dim)
    parametrize.register_parametrization(table, "weight", feature_sum)


def fold_features(table: nn.Embedding) -> None:
    """Make the sums that `add_features` introduced the plain rows of the table."""
    if parametrize.is_parametrized(table):
        parametrize.remove_parametrizations(table, "weight")


def _csr_tensor(matrix: sparse.csr_array) -> Tensor:
    return csr_tensor(
        torch.from_numpy(matrix.indptr).int(),
        torch.from_numpy(matrix.indices).int(),
        torch.from_numpy(matrix.data),
        columns=matrix.shape[1],
    )
