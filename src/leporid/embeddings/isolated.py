"""Isolated rows: users and items of which nothing is known, and the one rule for them.

A row is isolated if its user or item has no interactions (and, where the method reads content, no
content), or if the method finds no neighbours for it. The vector of an isolated row is exactly
zero, and only isolated rows are zero: so every part of the library recognises them by
`Embedding.isolated`. An initialiser clears them (`with_empty_rows`), scaling keeps them zero
(`cleared`), and a model that begins with them draws small random numbers, a vector of its own
for each row (`models/neural/tables.py`).
"""

from dataclasses import replace

import numpy as np

from leporid.embeddings.arrays import BoolArray, Float32Array
from leporid.embeddings.vectors import Embedding

_ROUNDING = 1e-9
"""Rows this much shorter than the longest one are rounding errors of zero."""


def with_empty_rows(side: Embedding, known: BoolArray) -> Embedding:
    """Clear the rows that are not `known`, and count the rows of zeros in the provenance.

    Solvers leave rounding errors there that depend on the processor.
    """
    length = np.abs(side.vectors).max(axis=1, initial=0)
    empty = ~known | (length <= _ROUNDING * length.max(initial=0))
    return replace(
        side,
        vectors=cleared(side.vectors, empty),
        provenance={**side.provenance, "isolated": int(empty.sum())},
    )


def cleared(
    vectors: Float32Array,
    isolated: BoolArray,
) -> Float32Array:
    """float32[n, d]: the vectors, with zeros in the rows that bool[n] `isolated` marks."""
    return np.where(isolated[:, None], np.float32(0), vectors)
