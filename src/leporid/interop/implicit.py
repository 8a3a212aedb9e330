"""Starting vectors into the models of `implicit` (CPU): BPR, ALS and logistic MF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from leporid.errors import ConfigError
from leporid.initializers import InitialEmbeddings
from leporid.interop.rows import match_rows

# implicit keeps its biases in extra columns: 1 on one side, the bias (0 at the start) on the other.
_EXTRA_COLUMNS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "AlternatingLeastSquares": ((), ()),
    "BayesianPersonalizedRanking": ((1.0,), (0.0,)),
    "LogisticMatrixFactorization": ((1.0, 0.0), (0.0, 1.0)),
}


def to_implicit(
    model: Any,
    embeddings: InitialEmbeddings,
    *,
    id_map: Mapping[str, Any] | None = None,
    scale: float = 1.0,
    standardize: bool = True,
) -> Any:
    """Set `user_factors` and `item_factors` so that `model.fit` starts from our vectors.

    Row r of the factors is row r (column r) of the matrix given to `fit`: the order of
    `Interactions.csr()`. With another order, `id_map={'users': ids by row, 'items': ...}`.
    Returns the model.
    """
    kind = type(model).__name__
    if kind not in _EXTRA_COLUMNS or not type(model).__module__.startswith("implicit.cpu"):
        raise ConfigError(
            f"{type(model).__module__}.{kind} cannot start from our vectors: use one of "
            f"implicit.cpu's {', '.join(_EXTRA_COLUMNS)}"
        )
    if model.factors != embeddings.users.dim:
        wanted = f"make it with factors={embeddings.users.dim}, as the embeddings have"
        raise ConfigError(f"{kind} has {model.factors} factors: {wanted}")
    dtype = np.dtype(getattr(model, "dtype", np.float32))
    prepared = embeddings.standardized(scale) if standardize else embeddings
    factors = []
    for (side, embedding, ids), extra in zip(prepared.sides(), _EXTRA_COLUMNS[kind], strict=True):
        by_row = (id_map or {}).get(side)
        n_rows = embedding.n if by_row is None else len(by_row)
        _, order = match_rows(n_rows, (), embedding.n, ids, by_row, f"{side[:-1]}_factors", side)
        vectors = embedding.vectors[order] * (1.0 if standardize else np.float32(scale))
        constants = np.tile(np.asarray(extra, dtype=dtype), (n_rows, 1))
        factors.append(np.ascontiguousarray(np.hstack([vectors.astype(dtype), constants])))
    model.user_factors, model.item_factors = factors
    return model
