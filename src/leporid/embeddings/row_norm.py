"""Lengths of the rows of spectral embeddings: unit rows, and items as sums of their users.

popularity: items are the sum of their users' unit vectors, each over the square root of the user's
interactions, divided by the item's interactions to a power; popular items are longer, and inner
products of users and items have a meaning. balanced: such sums without the square root,
Z (Z^T Z)^-1/4; with singular vectors as users that would be SVD.

`fold_in_users` then makes each user the mean of their items.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy import sparse

from leporid.embeddings.arrays import Float32Array
from leporid.embeddings.vectors import Embedding, InitialEmbeddings

RowNorm = Literal["as-is", "unit", "popularity", "balanced"]


def with_row_norm(
    embeddings: InitialEmbeddings,
    matrix: sparse.csr_array,
    row_norm: RowNorm,
    power: float,
) -> InitialEmbeddings:
    """Return `embeddings` with rows of other lengths, and entries of a root mean square of one.

    `matrix` is csr[n_users, n_items] of the interactions; item sums are divided by the item's
    interactions to `power`. With "as-is" nothing changes.
    """
    if row_norm == "as-is":
        return embeddings
    users = replace(embeddings.users, vectors=_unit_rows(embeddings.users.vectors))
    if row_norm == "unit":
        vectors = _unit_rows(embeddings.items.vectors)
        items = replace(embeddings.items, vectors=vectors)
    elif row_norm == "popularity":
        sums = item_sums(users.vectors, matrix, power, 0.5)
        items = Embedding(sums, None, embeddings.users.provenance)
    else:
        sums = half_whitened(item_sums(users.vectors, matrix, power, 0.0))
        items = Embedding(sums, None, embeddings.users.provenance)
    return replace(
        embeddings,
        users=with_size_one(users),
        items=with_size_one(items),
    )


def fold_in_users(
    embeddings: InitialEmbeddings,
    matrix: sparse.csr_array,
) -> InitialEmbeddings:
    """Return `embeddings` with each user as the mean of their items, and entries of size one.

    `matrix` is csr[n_users, n_items] of the interactions. Whatever the items are, inner products of
    users and items then have a meaning.
    """
    per_user = np.maximum(np.diff(matrix.indptr), 1)
    means = (matrix @ embeddings.items.vectors) / per_user[:, None]
    users = Embedding(
        means.astype(np.float32),
        None,
        embeddings.users.provenance,
    )
    return replace(
        embeddings,
        users=with_size_one(users),
        items=with_size_one(embeddings.items),
    )


def item_sums(
    users: Float32Array,
    matrix: sparse.csr_array,
    power: float,
    user_power: float,
) -> Float32Array:
    """float32[n_items, d]: D_i^-power X^T D_u^-user_power U for vectors U; zeros without users."""
    row_sizes = np.diff(matrix.indptr)
    column_sizes = np.bincount(matrix.indices, minlength=matrix.shape[1])
    per_user = np.maximum(row_sizes, 1)
    per_item = np.maximum(column_sizes, 1)
    weights = np.repeat(per_user**-user_power, row_sizes).astype(np.float32)
    weighted = sparse.csr_array(
        (weights, matrix.indices, matrix.indptr),
        shape=matrix.shape,
    )
    sums = (weighted.T @ users) / per_item[:, None] ** power
    return np.asarray(sums, dtype=np.float32)


def half_whitened(vectors: Float32Array) -> Float32Array:
    """Z (Z^T Z)^-1/4: singular values become their square roots; directions of none stay zero."""
    values, axes = np.linalg.eigh(vectors.astype(np.float64).T @ vectors)
    known = values > 1e-9 * max(values[-1], 0.0)
    scale = np.where(known, np.maximum(values, 1e-300) ** -0.25, 0.0)
    return np.asarray(vectors @ ((axes * scale) @ axes.T), dtype=np.float32)


def with_size_one(side: Embedding) -> Embedding:
    """Give the entries a root mean square of one, and mark the vectors as standardised.

    Models then only scale them: z-scored columns would have other row lengths.
    """
    return replace(
        side,
        vectors=side.vectors / np.float32(side.size or 1.0),
        provenance={**side.provenance, "standardized": True},
    )


def _unit_rows(vectors: Float32Array) -> Float32Array:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.divide(
        vectors,
        length,
        out=np.zeros_like(vectors),
        where=length > 0,
    )
    return np.asarray(scaled)
