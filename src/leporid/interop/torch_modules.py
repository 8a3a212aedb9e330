"""`leporid.initialize`: initial embeddings into the tables of any torch module, all or none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap
from leporid.embeddings import Embedding, InitialEmbeddings, standardize, standardizes
from leporid.errors import ConfigError, DataError, import_extra
from leporid.foundation import checks_arguments, described
from leporid.interop.formats import read_embeddings
from leporid.interop.rows import match_rows
from leporid.interop.torch_tables import (
    ModuleTable,
    Padding,
    Tables,
    check_norms,
    find_table,
    padding_rows,
    table_names,
)

if TYPE_CHECKING:
    import torch
    from torch import nn

    from leporid.interop.rows import RowIds

Scale = float | Literal["auto", "match"] | None


class _Assignment(NamedTuple):
    """The rows of one table and the vectors to write into them."""

    target: ModuleTable
    """Table to write into."""
    rows: NDArray[np.int64]
    """int64[m]: rows of the table."""
    vectors: NDArray[np.float32]
    """float32[m, d]: a vector for each of these rows."""


class _Source(NamedTuple):
    """The vectors of one side and, where known, their ids."""

    embedding: Embedding
    """Vectors, not scaled."""
    ids: IdMap | None
    """External ids of the rows; None where only positions are known."""


@checks_arguments()
def initialize(  # noqa: PLR0913 (options are spelled out)
    module: nn.Module,
    users: Tables = None,
    items: Tables = None,
    *,
    embeddings: InitialEmbeddings | Embedding | NDArray[np.floating] | str | Path,
    id_map: RowIds | Mapping[str, RowIds] | None = None,
    padding_idx: Padding | Mapping[str, Padding | None] | None = None,
    freeze: bool = False,
    scale: Scale = "auto",
    standardize: bool | None = None,
) -> dict[str, int]:
    """Copy initial embeddings into tables of `module`; return the number of rows written by table.

    Parameters
    ----------
    module : torch.nn.Module
        Anything with embedding tables, compiled (`torch.compile`) or not. Call after
        construction, and after the module's own `reset_parameters` where that is called again.
        Vectors are copied in place: an optimiser that knows the parameters keeps working.
    users, items : name, table, list of these, or None
        `nn.Embedding`, `nn.EmbeddingBag` or 2-D parameters of the module: the objects, or their
        dotted names (with or without `.weight`). Several all receive the same vectors (NeuMF has
        two per side).
    embeddings : InitialEmbeddings, a file or folder of them, or one Embedding or matrix
        A single Embedding or matrix needs exactly one of `users` and `items`.
    id_map : None, or which id lives in which row of the table
        None: row r of the table is row r of the embeddings, padding rows left out. Else a
        mapping external id -> row, or the external ids by row (None in padding rows); for two
        sides, a mapping with the keys 'users' and 'items'.
    padding_idx : row or rows that are left as they are
        A mapping with the keys 'users' and 'items' where they differ. The `padding_idx` of an
        `nn.Embedding` is respected without being named.
    freeze : bool
        True also stops training the tables (`requires_grad = False`).
    scale : 'auto', float, 'match' or None
        'auto': standardised vectors get the root mean square the table has now, but rows no
        longer than 1 on average; other vectors are copied as they are. A number multiplies after
        standardisation; None is 1. 'match': the table's spread (standard deviation), any size.
    standardize : bool or None
        Z-score each column. None does what the method asks for: yes for vectors of our
        initialisers except `random`, no for plain matrices.

    Raises
    ------
    LeporidError
        A wrong name, shape, dtype or missing id, named in the message. Nothing was written.
    """
    import_extra("torch", "leporid.initialize", "torch")
    if not isinstance(freeze, bool):
        raise ConfigError(f"freeze must be True or False, not {freeze!r}")
    if standardize not in (None, True, False):
        raise ConfigError(
            f"standardize must be True, False or None, not {described(standardize)}"
        )
    names = {
        "users": table_names(module, users),
        "items": table_names(module, items),
    }
    if not any(names.values()):
        raise ConfigError("name at least one table: users=..., items=... or both")
    is_one_sided = not all(names.values())
    sources = _sources(embeddings, is_one_sided)
    if not is_one_sided and id_map is not None and not _names_sides(id_map):
        raise ConfigError(
            "users and items have different ids: id_map={'users': ..., 'items': ...}"
        )

    # Nothing is written before everything is checked: all tables are filled, or none.
    assignments: list[_Assignment] = []
    for side, names_of_side in names.items():
        source = sources[side]
        for name in names_of_side:
            target = find_table(module, name)
            target.check(source.embedding.dim, side)
            _check_distinct(target, assignments)
            padding = padding_rows(_of_side(padding_idx, side), target)
            rows, order = match_rows(
                n_rows=target.n_rows,
                padding=padding,
                n_vectors=source.embedding.n,
                ids=source.ids,
                id_map=_of_side(id_map, side),
                name=name,
                side=side,
            )
            prepared = _prepare(source.embedding, standardize, scale, target)
            vectors = prepared[order]
            check_norms(target, vectors)
            assignments.append(_Assignment(target, rows, vectors))
    for assignment in assignments:
        _write(assignment, freeze)
    return {assignment.target.name: len(assignment.rows) for assignment in assignments}


def _write(assignment: _Assignment, freeze: bool) -> None:
    """Copy the vectors into the table."""
    import torch

    table = assignment.target.parameter
    index = torch.from_numpy(assignment.rows).to(table.device)
    with torch.no_grad():
        table[index] = torch.from_numpy(assignment.vectors).to(
            table.device, table.dtype
        )
    if freeze:
        table.requires_grad_(False)


def _check_distinct(target: ModuleTable, assignments: Sequence[_Assignment]) -> None:
    """Refuse a parameter that vectors are written into already."""
    for assignment in assignments:
        if assignment.target.parameter is target.parameter:
            raise ConfigError(
                f"tables {assignment.target.name!r} and {target.name!r} are the same parameter"
            )


def _sources(
    embeddings: InitialEmbeddings | Embedding | NDArray[np.floating] | str | Path,
    is_one_sided: bool,
) -> dict[str, _Source]:
    """Return the vectors and, where known, the ids of each side."""
    from torch import Tensor

    if isinstance(embeddings, str | Path):
        embeddings = read_embeddings(embeddings)
    if isinstance(embeddings, InitialEmbeddings):
        return {
            side: _Source(embedding, ids) for side, embedding, ids in embeddings.sides()
        }
    if not is_one_sided:
        raise ConfigError(
            "one matrix cannot fill both users and items: give InitialEmbeddings, "
            "or name one side per call"
        )
    if isinstance(embeddings, Tensor):
        embeddings = embeddings.detach().cpu().numpy()
    if not isinstance(embeddings, Embedding):
        matrix = np.asarray(embeddings)
        if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
            raise DataError(
                f"embeddings must be a matrix of floats, not {matrix.dtype} "
                f"of shape {matrix.shape}"
            )
        embeddings = Embedding(np.ascontiguousarray(matrix, dtype=np.float32))
    return dict.fromkeys(("users", "items"), _Source(embeddings, None))


def _names_sides(value: object) -> bool:
    """Whether a setting is a mapping with the keys 'users' and 'items', or one of them."""
    if not isinstance(value, Mapping) or not value:
        return False
    return set(value) <= {"users", "items"}


def _of_side(value: Any, side: str) -> Any:
    """Return the setting of one side, which may be the same for both."""
    return value.get(side) if _names_sides(value) else value


def _factor(scale: Scale, table: torch.Tensor, size: float) -> float:
    """Return what vectors with root mean square `size` are multiplied by."""
    if scale is None:
        return 1.0
    if scale == "match":
        return float(table.detach().float().std())
    if scale == "auto":
        table_size = float(table.detach().float().square().mean().sqrt())
        unit_length = 1 / math.sqrt(table.shape[1])
        return min(table_size or unit_length, unit_length) / (size or 1.0)
    is_number = isinstance(scale, int | float | np.integer | np.floating)
    if not is_number or not np.isfinite(scale) or scale <= 0:
        raise ConfigError(
            f"scale must be a positive number, 'auto' or 'match', not {scale!r}"
        )
    return float(scale)


def _prepare(
    source: Embedding, zscore: bool | None, scale: Scale, target: ModuleTable
) -> NDArray[np.float32]:
    """Return the vectors standardised and scaled for a table."""
    if not np.all(np.isfinite(source.vectors)):
        bad = int(np.count_nonzero(~np.isfinite(source.vectors).all(axis=1)))
        raise DataError(
            f"{bad} vectors for table {target.name!r} have NaN or infinite entries"
        )
    provenance = source.provenance
    if zscore is None:
        is_standardized = provenance.get("standardized")
        method = provenance.get("method")
        zscore = not is_standardized and standardizes(method, otherwise=False)
    if zscore:
        size = Embedding(standardize(source.vectors)).size
        return standardize(source.vectors, _factor(scale, target.parameter, size))
    is_plain = "standardized" not in provenance
    if scale == "auto" and (is_plain or "scale" in provenance):
        scale = None
    factor = _factor(scale, target.parameter, source.size)
    return source.vectors * np.float32(factor)
