"""`content`: where the items' descriptions put them, and each user at the mean of their items.

The features of `leporid.data` less their mean are about U S V^T; an item's vector is a row of U
(whitened: all directions alike) or of U S.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from leporid.data import Interactions, ItemFeatures, item_features
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.initializers.one_space import item_means
from leporid.initializers.svd import column_signs, largest_triplets, padded
from leporid.progress import ProgressLike
from leporid.spectral import Embedding

_DENSE = 5_000_000
"""Entries up to which the dense decomposition is taken."""


@dataclass(frozen=True, kw_only=True)
class ContentConfig(InitializerConfig):
    """Settings of `Content`."""

    items: str = ""
    """The file about the items: a table by item id, or vectors of your own by id."""
    columns: tuple[str, ...] = ()
    """Columns to read, `title` or `year:categories` (text, categories, number, vector); all, with
    their kinds guessed, where none is named."""
    whiten: bool = True
    """Give every direction the same spread; False leaves them as long as they are."""

    def validate(self) -> None:
        """Refuse settings without a file."""
        check_item_file("content", self.items)


class Content(Initializer):
    """Principal components of words, categories, numbers or vectors of the items."""

    name = "content"
    config_class = ContentConfig
    config: ContentConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        features = read_features(self, train)
        progress.start("content", 1)
        vectors = np.zeros((train.n_items, self.config.dim), np.float32)
        known = features.known
        scores, singular = principal_components(
            features.matrix[known], self.config.dim, self.config.seed
        )
        progress.advance()
        vectors[known] = padded(
            scores if self.config.whiten else scores * singular, self.config.dim
        )
        about = self.provenance(train.digest) | content_report(features)
        # Columns that differ in length on purpose are not to be z-scored.
        about |= {} if self.config.whiten else {"standardized": True}
        items = Embedding(vectors, None, about)
        if not self.config.whiten:
            items = Embedding(vectors / np.float32(items.size or 1.0), None, about)
        return InitialEmbeddings(item_means(items, train.csr(), about), items)

    def provenance(self, digest: str) -> dict[str, Any]:
        """The file belongs to what the vectors come from."""
        return {**super().provenance(digest), "content": content_digest(self.config.items)}


def check_item_file(initializer: str, items: str) -> None:
    """Refuse settings that name no file about the items."""
    if not items:
        raise ConfigError(
            f"{initializer} needs a file about the items: items='items.parquet' (on the command "
            f"line --init-set items=items.parquet for train, --set for embed)"
        )


def read_features(initializer: Any, train: Interactions) -> ItemFeatures:
    """The features of the items in the file an initialiser names."""
    config = initializer.config
    return item_features(train.items, config.items, columns=config.columns)


def content_report(features: ItemFeatures) -> dict[str, Any]:
    """What the provenance keeps of the features."""
    return {"columns": dict(features.kinds), "left_out": features.left_out}


def content_digest(source: str) -> str:
    """A hash of the file, and of the ids beside a `.npy`; the name itself for a data set's."""
    path = Path(source).expanduser()
    files = [f for f in (path, path.parent / f"{path.stem}.ids.npy") if f.is_file()]
    contents = b"".join(file.read_bytes() for file in files) if files else source.encode()
    return hashlib.sha256(contents).hexdigest()[:16]


def principal_components(
    matrix: sparse.csr_array, dim: int, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """U float64[n, r] and singular values float64[r] of the rows less their mean, r <= dim.

    Directions at rounding level are left out. Signs are fixed as in `svd`.
    """
    mean = np.asarray(matrix.mean(axis=0), np.float64).reshape(1, -1)
    small, rank = min(matrix.shape), min(dim, min(matrix.shape))
    if matrix.shape[0] * matrix.shape[1] <= _DENSE or small <= 2 * rank:
        u, s, _ = np.linalg.svd(matrix.toarray() - mean, full_matrices=False)
    else:
        ones = aslinearoperator(np.ones((matrix.shape[0], 1)))
        centred = aslinearoperator(matrix.astype(np.float64)) - ones @ aslinearoperator(mean)
        u, s, _ = largest_triplets(centred, rank, seed, lambda: matrix.toarray() - mean)
    order = np.argsort(-s, kind="stable")[:rank]
    order = order[s[order] > 1e-7 * s.max()]
    return u[:, order] * column_signs(u[:, order]), s[order]
