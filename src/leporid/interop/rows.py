"""Which embedding belongs in which row of another library's table; `to_implicit`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap
from leporid.embeddings import InitialEmbeddings
from leporid.errors import ConfigError, DataError, UnknownIdError

# implicit keeps its biases in extra columns: 1 on one side, the bias (initially 0) on the other.
_EXTRA_COLUMNS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "AlternatingLeastSquares": ((), ()),
    "BayesianPersonalizedRanking": ((1.0,), (0.0,)),
    "LogisticMatrixFactorization": ((1.0, 0.0), (0.0, 1.0)),
}


def match_rows(
    n_rows: int,
    padding: Sequence[int],
    n_vectors: int,
    ids: IdMap | None,
    id_map: Any,
    name: str,
    side: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the table (padding left out) and, for each, the row of the embeddings.

    `id_map` is None (same order), a mapping external id -> row, or the external ids by row.
    Without external ids of our own (`ids` None) a position in the embeddings is its id.
    """
    free = np.setdiff1d(np.arange(n_rows, dtype=np.int64), padding)
    kind = side[:-1]
    if id_map is None:
        if len(free) != n_vectors:
            rest = f" besides {len(padding)} padding" if padding else ""
            raise DataError(
                f"table {name!r} has {len(free)} rows{rest} but there are {n_vectors} {kind} "
                f"vectors: give padding_idx or id_map"
            )
        return free, np.arange(n_vectors, dtype=np.int64)
    by_row = _ids_by_row(id_map, n_rows, name)
    known = IdMap.range(n_vectors, kind) if ids is None else ids
    if len(blank := [row for row in free.tolist() if row not in by_row]):
        text = f"row {blank[0]} of table {name!r} has no {kind} id: give one, or padding_idx"
        raise DataError(text)
    order, missing = known.split_known(by_row[row] for row in free.tolist())
    if missing:
        first = ", ".join(map(repr, missing[:3]))
        raise UnknownIdError(
            f"{len(missing)} {kind} ids of table {name!r} have no vector: {first}; keep their rows "
            f"with padding_idx, or embed more data"
        )
    return free, order.astype(np.int64)


def _ids_by_row(id_map: Any, n_rows: int, name: str) -> dict[int, Any]:
    if isinstance(id_map, IdMap):
        id_map = id_map.ids.to_pylist()
    if not isinstance(id_map, Mapping):
        listed = id_map.tolist() if hasattr(id_map, "tolist") else list(id_map)
        if len(listed) != n_rows:
            count = f"id_map names {len(listed)} rows but table {name!r} has {n_rows}"
            raise DataError(f"{count}: give one id per row, None for padding")
        return {
            row: external for row, external in enumerate(listed) if external is not None
        }
    by_row: dict[int, Any] = {}
    for external, row in id_map.items():
        if not isinstance(row, int | np.integer):
            raise ConfigError(
                f"id_map must map ids to rows, {external!r} is mapped to {row!r}"
            )
        if not 0 <= row < n_rows:
            raise DataError(
                f"id_map puts {external!r} into row {row}, {name!r} has {n_rows} rows"
            )
        other = by_row.setdefault(int(row), external)
        if other is not external:
            raise DataError(
                f"{name!r}: id_map puts both {other!r} and {external!r} into row {row}"
            )
    return by_row


def to_implicit(
    model: Any,
    embeddings: InitialEmbeddings,
    *,
    id_map: Mapping[str, Any] | None = None,
    scale: float | Literal["auto"] = "auto",
    standardize: bool = True,
) -> Any:
    """Set `user_factors` and `item_factors`, from which `model.fit` then trains.

    Row r of the factors is row r (column r) of the matrix given to `fit`: the order of
    `Interactions.csr()`. With another order, `id_map={'users': ids by row, 'items': ...}`.
    `scale="auto"` gives standardised rows a length of 1 on average, and leaves others as they are:
    implicit's BPR does not learn from longer ones. Returns the model.
    """
    kind = type(model).__name__
    if kind not in _EXTRA_COLUMNS or not type(model).__module__.startswith(
        "implicit.cpu"
    ):
        raise ConfigError(
            f"{type(model).__module__}.{kind} cannot be initialised: use one of "
            f"implicit.cpu's {', '.join(_EXTRA_COLUMNS)}"
        )
    if model.factors != embeddings.users.dim:
        needed = f"make it with factors={embeddings.users.dim}, as the embeddings have"
        raise ConfigError(f"{kind} has {model.factors} factors: {needed}")
    dtype = np.dtype(getattr(model, "dtype", np.float32))
    if scale == "auto":
        scale = embeddings.users.dim**-0.5 if standardize else 1.0
    prepared = embeddings.standardized(scale) if standardize else embeddings
    factors = []
    for (side, embedding, ids), extra in zip(
        prepared.sides(), _EXTRA_COLUMNS[kind], strict=True
    ):
        by_row = (id_map or {}).get(side)
        n_rows = embedding.n if by_row is None else len(by_row)
        _, order = match_rows(
            n_rows, (), embedding.n, ids, by_row, f"{side[:-1]}_factors", side
        )
        vectors = embedding.vectors[order] * (1.0 if standardize else np.float32(scale))
        constants = np.tile(np.asarray(extra, dtype=dtype), (n_rows, 1))
        factors.append(
            np.ascontiguousarray(np.hstack([vectors.astype(dtype), constants]))
        )
    model.user_factors, model.item_factors = factors
    return model
