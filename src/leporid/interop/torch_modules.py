"""`leporid.initialize`: starting vectors into the embedding tables of any torch module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap
from leporid.errors import ConfigError, DataError, MissingExtraError, UnknownNameError
from leporid.initializers import InitialEmbeddings, standardizes
from leporid.interop.formats import read_embeddings
from leporid.interop.rows import match_rows
from leporid.spectral import Embedding, standardize

if TYPE_CHECKING:
    import torch
    from torch import nn

Names = str | Sequence[str] | None
Scale = float | Literal["match"] | None


class _Plan(NamedTuple):
    """A table, int64[m] of its rows, and the float32[m, d] that will be written into them."""

    name: str
    table: nn.Parameter
    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]


def initialize(
    module: nn.Module,
    users: Names = None,
    items: Names = None,
    *,
    embeddings: InitialEmbeddings | Embedding | NDArray[Any] | str | Path,
    id_map: Any = None,
    padding_idx: int | Sequence[int] | Mapping[str, Any] | None = None,
    freeze: bool = False,
    scale: Scale = None,
    standardize: bool | None = None,
) -> dict[str, int]:
    """Copy starting vectors into tables of `module`; returns the rows written, by table.

    Everything is checked first: a call fills every table it names, or an error changes nothing.

    Parameters
    ----------
    module : torch.nn.Module
        Anything with embedding tables. Call after construction, and after the module's own
        `reset_parameters` where that is called again; vectors are copied in place, so an
        optimiser that knows the parameters already keeps working.
    users, items : name, list of names, or None
        `nn.Embedding`, `nn.EmbeddingBag` or 2-D parameters, by their dotted names (with or
        without `.weight`). Several names all receive the same vectors (NeuMF has two per side).
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
        Also stop training the tables (`requires_grad = False`).
    scale : float, 'match' or None
        Factor after standardisation; None is 1. 'match' gives the vectors the spread (standard
        deviation) the table has now. Dot-product models want a factor far below 1.
    standardize : bool or None
        Z-score each column. None does what the method asks for: yes for vectors of our
        initialisers except `random`, no for plain matrices.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("leporid.initialize", "torch") from None

    names = {"users": _names(users), "items": _names(items)}
    if not any(names.values()):
        raise ConfigError("name at least one table: users=..., items=... or both")
    both = all(names.values())
    sources, pads, maps = _sources(embeddings, both), _per_side(padding_idx), _per_side(id_map)
    if both and id_map is not None and maps["users"] is maps["items"] is id_map:
        raise ConfigError("users and items have different ids: id_map={'users': ..., 'items': ...}")
    plans: list[_Plan] = []
    for side, tables in names.items():
        for name in tables:
            source, ids = sources[side]
            table, holder = _find(module, name)
            _check_table(table, name, source.dim, plans, side)
            padding = _padding(pads[side], holder, table.shape[0], name)
            rows, order = match_rows(table.shape[0], padding, source.n, ids, maps[side], name, side)
            vectors = _prepare(source, standardize, scale, table, name)[order]
            _check_norms(holder, vectors, name)
            plans.append(_Plan(name, table, rows, vectors))
    with torch.no_grad():
        for plan in plans:
            values = torch.from_numpy(plan.vectors).to(plan.table.device, plan.table.dtype)
            plan.table[torch.from_numpy(plan.rows).to(plan.table.device)] = values
            if freeze:
                plan.table.requires_grad_(False)
    return {plan.name: len(plan.rows) for plan in plans}


def _names(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def _sources(embeddings: Any, both: bool) -> dict[str, tuple[Embedding, IdMap | None]]:
    """The embedding and, where known, the ids of each side."""
    if isinstance(embeddings, str | Path):
        embeddings = read_embeddings(embeddings)
    if isinstance(embeddings, InitialEmbeddings):
        return {side: (embedding, ids) for side, embedding, ids in embeddings.sides()}
    if both:
        raise ConfigError("one matrix cannot fill both users and items: name one side per call")
    if not isinstance(embeddings, Embedding):
        array = np.asarray(
            embeddings.detach().cpu() if hasattr(embeddings, "detach") else embeddings
        )
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
            raise DataError(
                f"embeddings must be a matrix of floats, not {array.dtype} of shape {array.shape}"
            )
        embeddings = Embedding(np.ascontiguousarray(array, dtype=np.float32))
    return dict.fromkeys(("users", "items"), (embeddings, None))


def _per_side(value: Any) -> dict[str, Any]:
    """The same setting for both sides, or one each when it is a mapping of the two words."""
    if isinstance(value, Mapping) and value and set(value) <= {"users", "items"}:
        return {"users": None, "items": None, **value}
    return {"users": value, "items": value}


def _find(module: nn.Module, name: str) -> tuple[nn.Parameter, nn.Module | None]:
    """The parameter behind a name, and the module that holds it when it was named by that."""
    from torch import nn

    parameters = dict(module.named_parameters(remove_duplicate=False))
    if name in parameters:
        path, _, last = name.rpartition(".")
        return parameters[name], module.get_submodule(path) if last == "weight" else None
    if f"{name}.weight" in parameters:
        return parameters[f"{name}.weight"], module.get_submodule(name)
    tables = [key.removesuffix(".weight") for key, p in parameters.items() if p.dim() == 2]
    if isinstance(getattr(module, name, None), nn.Module):
        inside = ", ".join(table for table in tables if table.startswith(f"{name}.")) or "none"
        raise ConfigError(f"{name!r} is a module without a table; tables inside it: {inside}")
    raise UnknownNameError(f"embedding table of {type(module).__name__}", name, tables)


def _check_table(table: torch.Tensor, name: str, dim: int, plans: list[_Plan], side: str) -> None:
    from torch.nn.parameter import UninitializedParameter

    if isinstance(table, UninitializedParameter) or table.is_meta:
        raise DataError(f"table {name!r} has no values yet: run or materialise the module first")
    if table.dim() != 2:
        raise DataError(f"table {name!r} must be 2-D, its shape is {tuple(table.shape)}")
    if not table.is_floating_point():
        raise DataError(f"table {name!r} holds {table.dtype}: it must be floating point")
    if table.shape[1] != dim:
        raise DataError(
            f"table {name!r} has {table.shape[1]} columns but the {side} embeddings have {dim}"
        )
    for plan in plans:
        if plan.table is table:
            raise ConfigError(f"tables {plan.name!r} and {name!r} are the same parameter")


def _padding(chosen: Any, holder: nn.Module | None, n_rows: int, name: str) -> list[int]:
    wanted = getattr(holder, "padding_idx", None) if chosen is None else chosen
    if wanted is None:
        return []
    listed = [wanted] if isinstance(wanted, int | np.integer) else list(wanted)
    for row in listed:
        if not -n_rows <= row < n_rows:
            raise ConfigError(f"padding_idx {row} is outside table {name!r} of {n_rows} rows")
    return sorted({int(row) % n_rows for row in listed})


def _prepare(
    source: Embedding, wanted: bool | None, scale: Scale, table: torch.Tensor, name: str
) -> NDArray[np.float32]:
    factor = 1.0 if scale is None else scale
    if factor == "match":
        factor = float(table.detach().float().std())
    elif isinstance(factor, str) or not np.isfinite(factor) or factor <= 0:
        raise ConfigError(f"scale must be a positive number or 'match', not {scale!r}")
    if bad := int(np.count_nonzero(~np.isfinite(source.vectors).all(axis=1))):
        raise DataError(f"{bad} vectors for table {name!r} have NaN or infinite entries")
    if wanted is None:
        ready = source.provenance.get("standardized")
        wanted = not ready and standardizes(source.provenance.get("method"), otherwise=False)
    if wanted:
        return standardize(source.vectors, factor)
    return np.asarray(source.vectors * np.float32(factor), dtype=np.float32)


def _check_norms(holder: nn.Module | None, vectors: NDArray[np.float32], name: str) -> None:
    limit = getattr(holder, "max_norm", None)
    if limit is None:
        return
    norms = np.linalg.norm(vectors, float(getattr(holder, "norm_type", 2.0)), axis=1)
    if longer := int(np.count_nonzero(norms > limit * (1 + 1e-5))):
        raise DataError(
            f"{longer} vectors are longer than max_norm={limit} of table {name!r}, which would "
            f"shorten them at the first look-up; give a smaller scale"
        )
