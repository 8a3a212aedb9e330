"""`content`: item vectors from a table about the items.

The features of `leporid.data` less their mean are about U S V^T; an item's vector is a row of U
(whitened) or of U S, and a user is the mean of their items.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from leporid.data import Interactions, StoredInteractions, item_features
from leporid.embeddings.arrays import Float64Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.eigenpairs import column_signs
from leporid.embeddings.isolated import cleared
from leporid.embeddings.row_norm import with_size_one
from leporid.embeddings.svd import largest_triplets
from leporid.embeddings.vectors import Embedding, InitialEmbeddings, padded
from leporid.errors import ConfigError
from leporid.foundation import JsonValue, ProgressLike

_DENSE = 5_000_000
"""Entries up to which the dense decomposition is taken."""


@dataclass(frozen=True, kw_only=True)
class ContentConfig(InitializerConfig):
    items: str = ""
    """The file about the items: a table by item id, or vectors of your own by id."""
    columns: tuple[str, ...] = ()
    """Columns to read, `title` or `year:categories` (text, categories, number, vector); all, with
    their kinds guessed, where none is named."""
    whiten: bool = True
    """Give every direction the same spread; False keeps the singular values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_item_file("content", self.items)


class Content(Initializer):
    """Principal components of words, categories, numbers or vectors of the items."""

    name = "content"
    config_class = ContentConfig
    config: ContentConfig

    def provenance(
        self, data: Interactions | StoredInteractions
    ) -> dict[str, JsonValue]:
        content = item_file_digest(self.config.items)
        return {**super().provenance(data), "content": content}

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        features = item_features(train.items, config.items, columns=config.columns)
        known = features.known
        progress.start("content", 1)
        scores, singular = principal_components(
            features.matrix[known],
            config.dim,
            config.seed,
        )
        progress.advance()
        if not config.whiten:
            scores = scores * singular
        vectors = np.zeros((train.n_items, config.dim), np.float32)
        vectors[known] = padded(scores, config.dim)
        items = Embedding(vectors, None, self.provenance(train))
        if not config.whiten:
            items = with_size_one(items)
        return InitialEmbeddings(item_means(items, train.csr()), items)


def item_means(items: Embedding, matrix: sparse.csr_array) -> Embedding:
    """Return users as the mean of their items' z-scored vectors; zeros for those without items."""
    vectors = cleared(items.standardized().vectors, items.isolated)
    n_items = np.diff(matrix.indptr)
    means = (matrix @ vectors) / np.maximum(n_items, 1)[:, None]
    return Embedding(
        np.asarray(means, dtype=np.float32),
        items.eigenvalues,
        items.provenance,
    )


def check_item_file(initializer: str, items: str) -> None:
    """Refuse settings without a file about the items."""
    if not items:
        raise ConfigError(
            f"{initializer} needs a file about the items: items='items.parquet' (on the command "
            f"line --init-set items=items.parquet for train, --set for embed)"
        )


def item_file_digest(items: str) -> str:
    """Hash the file about the items, which belongs to where the vectors come from.

    A `.npy` file is hashed with the ids beside it. A data set has its name only.
    """
    path = Path(items).expanduser()
    ids = path.parent / f"{path.stem}.ids.npy"
    files = [file for file in (path, ids) if file.is_file()]
    contents = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(contents or items.encode()).hexdigest()[:16]


def principal_components(
    matrix: sparse.csr_array,
    dim: int,
    seed: int = 0,
) -> tuple[Float64Array, Float64Array]:
    """U float64[n, r] and singular values float64[r] of the rows less their mean, r <= dim.

    Directions at rounding level are left out. Signs are fixed as in `truncated_svd`.
    """
    n_rows, n_columns = matrix.shape
    mean = np.asarray(matrix.mean(axis=0), np.float64).reshape(1, -1)
    smaller_side = min(n_rows, n_columns)
    rank = min(dim, smaller_side)
    if n_rows * n_columns <= _DENSE or smaller_side <= 2 * rank:
        u, s, _ = np.linalg.svd(matrix.toarray() - mean, full_matrices=False)
    else:
        ones = aslinearoperator(np.ones((n_rows, 1)))
        means = ones @ aslinearoperator(mean)
        centred = aslinearoperator(matrix.astype(np.float64)) - means
        u, s, _ = largest_triplets(centred, rank, seed, lambda: matrix.toarray() - mean)
    order = np.argsort(-s, kind="stable")[:rank]
    order = order[s[order] > 1e-7 * s.max()]
    return u[:, order] * column_signs(u[:, order]), s[order]
