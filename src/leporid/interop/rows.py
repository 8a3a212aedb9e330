"""Which embedding belongs in which row of another library's table; `to_implicit`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from leporid.data import IdMap
from leporid.embeddings import InitialEmbeddings
from leporid.errors import ConfigError, DataError, UnknownIdError

RowIds = IdMap | Mapping[str, int] | Mapping[int, int] | Collection[str | int | None]
"""Which id lives in which row of a table: the row by id, or the ids by row."""


class _ExtraColumns(NamedTuple):
    """Constants that a model of `implicit` keeps behind the factors of each side."""

    users: tuple[float, ...]
    items: tuple[float, ...]


# implicit keeps its biases in extra columns: 1 on one side, the bias (initially 0) on the other.
_EXTRA_COLUMNS = {
    "AlternatingLeastSquares": _ExtraColumns(users=(), items=()),
    "BayesianPersonalizedRanking": _ExtraColumns(users=(1.0,), items=(0.0,)),
    "LogisticMatrixFactorization": _ExtraColumns(users=(1.0, 0.0), items=(0.0, 1.0)),
}


_ROW_LENGTHS = {"BayesianPersonalizedRanking": 0.3}
"""Mean length of the rows with which a model learns best, where it is not 1.

Products of longer rows drown the popularity that BPR learns first, and overfit sooner.
"""


class FactorModel(Protocol):
    """The attributes of implicit's models that `to_implicit` reads and sets."""

    factors: int
    dtype: DTypeLike
    user_factors: NDArray[np.floating]
    item_factors: NDArray[np.floating]


_Model = TypeVar("_Model", bound=FactorModel)


def match_rows(
    n_rows: int,
    padding: Sequence[int],
    n_vectors: int,
    ids: IdMap | None,
    id_map: RowIds | None,
    name: str,
    side: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows of the table (padding left out) and, for each, the row of the embeddings.

    `id_map` is None (same order), a mapping external id -> row, or the external ids by row.
    Without external ids of our own (`ids` None) a position in the embeddings is its id.
    """
    free = np.setdiff1d(np.arange(n_rows, dtype=np.int64), padding)
    kind = side[:-1]
    if id_map is None:
        if len(free) != n_vectors:
            besides = f" besides {len(padding)} padding" if padding else ""
            raise DataError(
                f"table {name!r} has {len(free)} rows{besides} but there are {n_vectors} {kind} "
                f"vectors: give padding_idx or id_map"
            )
        return free, np.arange(n_vectors, dtype=np.int64)

    id_by_row = _ids_by_row(id_map, n_rows, name)
    unnamed = [row for row in free.tolist() if row not in id_by_row]
    if unnamed:
        raise DataError(
            f"row {unnamed[0]} of table {name!r} has no {kind} id: give one, or padding_idx"
        )
    known = IdMap.range(n_vectors, kind) if ids is None else ids
    order, missing = known.split_known(id_by_row[row] for row in free.tolist())
    if missing:
        first = ", ".join(map(repr, missing[:3]))
        raise UnknownIdError(
            f"{len(missing)} {kind} ids of table {name!r} have no vector: {first}; keep their rows "
            f"with padding_idx, or embed more data"
        )
    return free, order.astype(np.int64)


def _ids_by_row(id_map: RowIds, n_rows: int, name: str) -> dict[int, object]:
    """Return the external id of each row that has one."""
    if isinstance(id_map, Mapping):
        return _inverted(id_map, n_rows, name)
    if isinstance(id_map, IdMap):
        listed = id_map.ids.to_pylist()
    else:
        # Arrays, series and tensors hold no numbers of Python, which are what ids are.
        listed = id_map.tolist() if hasattr(id_map, "tolist") else list(id_map)
    if len(listed) != n_rows:
        raise DataError(
            f"id_map names {len(listed)} rows but table {name!r} has {n_rows}: "
            f"give one id per row, None for padding"
        )
    return {
        row: external for row, external in enumerate(listed) if external is not None
    }


def _inverted(
    row_by_id: Mapping[str, int] | Mapping[int, int], n_rows: int, name: str
) -> dict[int, object]:
    """Return the external id of each row, where no two have the same row."""
    id_by_row: dict[int, object] = {}
    for external, row in row_by_id.items():
        if not isinstance(row, int | np.integer):
            raise ConfigError(
                f"id_map must map ids to rows, {external!r} is mapped to {row!r}"
            )
        if not 0 <= row < n_rows:
            raise DataError(
                f"id_map puts {external!r} into row {row}, {name!r} has {n_rows} rows"
            )
        other = id_by_row.setdefault(int(row), external)
        if other is not external:
            raise DataError(
                f"{name!r}: id_map puts both {other!r} and {external!r} into row {row}"
            )
    return id_by_row


def to_implicit(
    model: _Model,
    embeddings: InitialEmbeddings,
    *,
    id_map: Mapping[str, RowIds] | None = None,
    scale: float | Literal["auto"] = "auto",
    standardize: bool = True,
) -> _Model:
    """Set `user_factors` and `item_factors`, from which `model.fit` then trains.

    Row r of the factors is row r (column r) of the matrix given to `fit`: the order of
    `Interactions.csr()`. With another order, `id_map={'users': ids by row, 'items': ...}`.
    `scale="auto"` gives standardised rows a length of 0.3 on average in BPR, which learns less from
    longer ones, and of 1 in the other models; rows that are not standardised stay as they are.
    Returns the model.
    """
    kind = type(model).__name__
    module = type(model).__module__
    if kind not in _EXTRA_COLUMNS or not module.startswith("implicit.cpu"):
        raise ConfigError(
            f"{module}.{kind} cannot be initialised: use one of "
            f"implicit.cpu's {', '.join(_EXTRA_COLUMNS)}"
        )
    dim = embeddings.users.dim
    if model.factors != dim:
        raise ConfigError(
            f"{kind} has {model.factors} factors: "
            f"make it with factors={dim}, as the embeddings have"
        )
    if scale == "auto":
        scale = _ROW_LENGTHS.get(kind, 1.0) * dim**-0.5 if standardize else 1.0
    prepared = embeddings.standardized(scale) if standardize else embeddings
    factor = 1.0 if standardize else np.float32(scale)
    dtype = np.dtype(model.dtype)

    factors: list[NDArray[np.floating]] = []
    for (side, embedding, ids), extra in zip(
        prepared.sides(), _EXTRA_COLUMNS[kind], strict=True
    ):
        ids_by_row = (id_map or {}).get(side)
        n_rows = embedding.n if ids_by_row is None else len(ids_by_row)
        name = f"{side[:-1]}_factors"
        _, order = match_rows(n_rows, (), embedding.n, ids, ids_by_row, name, side)
        vectors = (embedding.vectors[order] * factor).astype(dtype)
        constants = np.tile(np.asarray(extra, dtype=dtype), (n_rows, 1))
        factors.append(np.ascontiguousarray(np.hstack([vectors, constants])))
    model.user_factors, model.item_factors = factors
    return model
