"""`leporid.initialize`: initial embeddings into the tables of any torch module, all or none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from leporid.arguments import checks_arguments, described
from leporid.data import IdMap
from leporid.embeddings import Embedding, InitialEmbeddings, standardize, standardizes
from leporid.errors import (
    ConfigError,
    DataError,
    UnknownNameError,
    article,
    import_extra,
)
from leporid.interop.formats import read_embeddings
from leporid.interop.rows import match_rows

if TYPE_CHECKING:
    import torch
    from torch import nn

Table = Union[str, "nn.Module", "nn.Parameter"]
Tables = Table | Sequence[Table] | None
Scale = float | Literal["auto", "match"] | None


class _Plan(NamedTuple):
    """The rows int64[m] of one table and the vectors float32[m, d] to write into them."""

    name: str
    table: nn.Parameter
    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]


@checks_arguments()
def initialize(
    module: nn.Module,
    users: Tables = None,
    items: Tables = None,
    *,
    embeddings: InitialEmbeddings | Embedding | NDArray[Any] | str | Path,
    id_map: Any = None,
    padding_idx: int | Sequence[int] | Mapping[str, Any] | None = None,
    freeze: bool = False,
    scale: Scale = "auto",
    standardize: bool | None = None,
) -> dict[str, int]:
    """Copy initial embeddings into tables of `module`; returns the rows written, by table.

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
    names = {"users": _names(module, users), "items": _names(module, items)}
    if not any(names.values()):
        raise ConfigError("name at least one table: users=..., items=... or both")
    sources = _sources(embeddings, names)
    maps = _per_side(id_map, names, "id_map")
    pads = _per_side(padding_idx, names, "padding_idx")
    plans: list[_Plan] = []
    for side, tables in names.items():
        for name in tables:
            source, ids = sources[side]
            table, layer = _find(module, name)
            _check_table(table, name, source.dim, plans, side)
            padding = _padding(pads[side], layer, table.shape[0], name)
            rows, order = match_rows(
                table.shape[0], padding, source.n, ids, maps[side], name, side
            )
            vectors = _prepare(source, standardize, scale, table, name)[order]
            _check_norms(layer, vectors, name)
            plans.append(_Plan(name, table, rows, vectors))
    _write(plans, freeze)
    return {plan.name: len(plan.rows) for plan in plans}


def _write(plans: list[_Plan], freeze: bool) -> None:
    import torch

    for plan in plans:
        index = torch.from_numpy(plan.rows).to(plan.table.device)
        with torch.no_grad():
            values = torch.from_numpy(plan.vectors).to(
                plan.table.device, plan.table.dtype
            )
            plan.table[index] = values
        if freeze:
            plan.table.requires_grad_(False)


def _names(module: nn.Module, tables: Tables) -> list[str]:
    """Dotted names of the tables, which may be given as such or as objects."""
    from torch import Tensor, nn

    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"module must be a torch.nn.Module, not {type(module).__name__}"
        )
    if tables is None:
        return []
    parts = [*module.named_modules(), *module.named_parameters()]
    one = isinstance(tables, str | nn.Module | Tensor) or not isinstance(
        tables, Iterable
    )
    several: Iterable[Any] = [tables] if one else tables  # type: ignore[assignment]
    names: list[str] = []
    for table in several:
        own = (
            [table]
            if isinstance(table, str)
            else [n for n, part in parts if part is table]
        )
        if not any(map(_plain, own)):
            raise ConfigError(
                f"a table of {type(module).__name__} must be named, or be one of its embeddings "
                f"or parameters, not {article(type(table).__name__)} from elsewhere"
            )
        names.append(_plain(own[-1]))
    return names


def _plain(name: str) -> str:
    """A dotted name without the parts that `torch.compile` puts in."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _sources(
    embeddings: Any, names: Mapping[str, list[str]]
) -> dict[str, tuple[Embedding, IdMap | None]]:
    """The embedding and, where known, the ids of each side."""
    if isinstance(embeddings, str | Path):
        embeddings = read_embeddings(embeddings)
    if isinstance(embeddings, InitialEmbeddings):
        return {side: (embedding, ids) for side, embedding, ids in embeddings.sides()}
    if all(names.values()):
        raise ConfigError(
            "one matrix cannot fill both users and items: give InitialEmbeddings, "
            "or name one side per call"
        )
    if not isinstance(embeddings, Embedding):
        plain = (
            embeddings.detach().cpu() if hasattr(embeddings, "detach") else embeddings
        )
        array = np.asarray(plain)
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
            raise DataError(
                f"embeddings must be a matrix of floats, not {array.dtype} of shape {array.shape}"
            )
        embeddings = Embedding(np.ascontiguousarray(array, dtype=np.float32))
    return dict.fromkeys(("users", "items"), (embeddings, None))


def _per_side(value: Any, names: Mapping[str, list[str]], what: str) -> dict[str, Any]:
    """The same setting for both sides, or one each when it is a mapping of the two words."""
    if isinstance(value, Mapping) and value and set(value) <= {"users", "items"}:
        return {"users": value.get("users"), "items": value.get("items")}
    if what == "id_map" and value is not None and all(names.values()):
        raise ConfigError(
            "users and items have different ids: id_map={'users': ..., 'items': ...}"
        )
    return {"users": value, "items": value}


def _find(module: nn.Module, name: str) -> tuple[nn.Parameter, nn.Module | None]:
    """The parameter behind a name, and the layer whose `weight` it is."""
    named = module.named_parameters(remove_duplicate=False)
    parameters = {_plain(key): parameter for key, parameter in named}
    # A compiled module comes before the module inside it, whose plain name is the same.
    holders = {
        _plain(k): held for k, held in module.named_modules(remove_duplicate=False)
    }
    for key in (name, f"{name}.weight"):
        if key in parameters:
            path, _, last = key.rpartition(".")
            return parameters[key], holders[path] if last == "weight" else None
    tables = [
        key.removesuffix(".weight") for key, p in parameters.items() if p.dim() == 2
    ]
    if name in holders:
        inside = [table for table in tables if table.startswith(f"{name}.")]
        raise ConfigError(
            f"{name!r} is a module without a table of its own; tables inside it: "
            f"{', '.join(inside) or 'none'}"
        )
    raise UnknownNameError(f"embedding table of {type(module).__name__}", name, tables)


def _check_table(
    table: torch.Tensor, name: str, dim: int, plans: Sequence[_Plan], side: str
) -> None:
    from torch.nn.parameter import UninitializedParameter

    if isinstance(table, UninitializedParameter) or table.is_meta:
        raise DataError(
            f"table {name!r} has no values yet: run or materialise the module first"
        )
    if table.dim() != 2:
        raise DataError(
            f"table {name!r} must be 2-D, its shape is {tuple(table.shape)}"
        )
    if not table.is_floating_point():
        raise DataError(
            f"table {name!r} holds {table.dtype}: it must be floating point"
        )
    if table.shape[1] != dim:
        raise DataError(
            f"table {name!r} has {table.shape[1]} columns but the {side} embeddings have {dim}"
        )
    for plan in plans:
        if plan.table is table:
            raise ConfigError(
                f"tables {plan.name!r} and {name!r} are the same parameter"
            )


def _padding(
    chosen: Any, holder: nn.Module | None, n_rows: int, name: str
) -> list[int]:
    padding = getattr(holder, "padding_idx", None) if chosen is None else chosen
    if padding is None:
        return []
    listed = [padding] if isinstance(padding, int | np.integer) else list(padding)
    for row in listed:
        if isinstance(row, bool) or not isinstance(row, int | np.integer):
            raise ConfigError(
                f"padding_idx must be a whole number or several, not {row!r}"
            )
        if not -n_rows <= row < n_rows:
            raise ConfigError(
                f"padding_idx {row} is outside table {name!r} of {n_rows} rows"
            )
    return sorted({int(row) % n_rows for row in listed})


def _factor(scale: Scale, table: torch.Tensor, size: float) -> float:
    """What vectors with root mean square `size` are multiplied by."""
    if scale is None:
        return 1.0
    if scale == "match":
        return float(table.detach().float().std())
    if scale == "auto":
        own = float(table.detach().float().square().mean().sqrt())
        longest = 1 / math.sqrt(table.shape[1])
        return min(own or longest, longest) / (size or 1.0)
    is_number = isinstance(scale, int | float | np.integer | np.floating)
    if not is_number or not np.isfinite(scale) or scale <= 0:
        raise ConfigError(
            f"scale must be a positive number, 'auto' or 'match', not {scale!r}"
        )
    return float(scale)


def _prepare(
    source: Embedding, zscore: bool | None, scale: Scale, table: torch.Tensor, name: str
) -> NDArray[np.float32]:
    if not np.all(np.isfinite(source.vectors)):
        bad = int(np.count_nonzero(~np.isfinite(source.vectors).all(axis=1)))
        raise DataError(
            f"{bad} vectors for table {name!r} have NaN or infinite entries"
        )
    about = source.provenance
    if zscore is None:
        ready = about.get("standardized")
        zscore = not ready and standardizes(about.get("method"), otherwise=False)
    vectors = standardize(source.vectors) if zscore else source.vectors
    if (
        scale == "auto"
        and not zscore
        and ("scale" in about or "standardized" not in about)
    ):
        scale = None
    factor = _factor(scale, table, Embedding(vectors).size)
    return (
        standardize(source.vectors, factor) if zscore else vectors * np.float32(factor)
    )


def _check_norms(
    holder: nn.Module | None, vectors: NDArray[np.float32], name: str
) -> None:
    limit = getattr(holder, "max_norm", None)
    if limit is None:
        return
    power = float(getattr(holder, "norm_type", 2.0))
    longer = int(
        np.count_nonzero(np.linalg.norm(vectors, power, axis=1) > limit * (1 + 1e-5))
    )
    if longer:
        raise DataError(
            f"table {name!r} shortens every vector beyond max_norm={limit}: {longer} of ours are "
            f"longer and would not survive the first look-up; give a smaller scale"
        )
