"""The tables of a torch module by name, and what can be written into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, UnknownNameError, article

if TYPE_CHECKING:
    from torch import nn

Table = Union[str, "nn.Module", "nn.Parameter"]
Tables = Table | Sequence[Table] | None
Padding = int | Sequence[int]


@dataclass(frozen=True)
class ModuleTable:
    """One table of a torch module."""

    name: str
    """Dotted name in the module."""
    parameter: nn.Parameter
    """The table itself."""
    layer: nn.Module | None
    """The layer whose `weight` the table is, if there is one."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.parameter.shape[0]

    def layer_setting(self, name: str, otherwise: Any = None) -> Any:
        """Return a setting of the layer; only layers like `nn.Embedding` have such settings."""
        return getattr(self.layer, name, otherwise)

    def check(self, dim: int, side: str) -> None:
        """Refuse a table that cannot hold vectors of `dim` entries."""
        from torch.nn.parameter import UninitializedParameter

        table = self.parameter
        if isinstance(table, UninitializedParameter) or table.is_meta:
            raise DataError(
                f"table {self.name!r} has no values yet: run or materialise the module first"
            )
        if table.dim() != 2:
            raise DataError(
                f"table {self.name!r} must be 2-D, its shape is {tuple(table.shape)}"
            )
        if not table.is_floating_point():
            raise DataError(
                f"table {self.name!r} holds {table.dtype}: it must be floating point"
            )
        if table.shape[1] != dim:
            raise DataError(
                f"table {self.name!r} has {table.shape[1]} columns but the {side} embeddings "
                f"have {dim}"
            )


def table_names(module: nn.Module, tables: Tables) -> list[str]:
    """Return the dotted names of tables, which may be given by name or as objects."""
    from torch import Tensor, nn

    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"module must be a torch.nn.Module, not {type(module).__name__}"
        )
    if tables is None:
        return []
    if isinstance(tables, str | nn.Module | Tensor) or not isinstance(tables, Iterable):
        tables = [tables]

    parts = [*module.named_modules(), *module.named_parameters()]
    names: list[str] = []
    for table in tables:
        if isinstance(table, str):
            candidates = [table]
        else:
            candidates = [name for name, part in parts if part is table]
        if not any(map(_plain, candidates)):
            raise ConfigError(
                f"a table of {type(module).__name__} must be named, or be one of its embeddings "
                f"or parameters, not {article(type(table).__name__)} from elsewhere"
            )
        names.append(_plain(candidates[-1]))
    return names


def _plain(name: str) -> str:
    """Return a dotted name without the parts that `torch.compile` puts in."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def find_table(module: nn.Module, name: str) -> ModuleTable:
    """Find the parameter behind a name, and the layer whose `weight` it is."""
    parameters = {
        _plain(key): parameter
        for key, parameter in module.named_parameters(remove_duplicate=False)
    }
    # A compiled module comes before the module inside it, whose plain name is the same.
    layers = {
        _plain(key): layer
        for key, layer in module.named_modules(remove_duplicate=False)
    }
    for key in (name, f"{name}.weight"):
        if key in parameters:
            path, _, attribute = key.rpartition(".")
            layer = layers[path] if attribute == "weight" else None
            return ModuleTable(name, parameters[key], layer)

    tables = [
        key.removesuffix(".weight")
        for key, parameter in parameters.items()
        if parameter.dim() == 2
    ]
    if name in layers:
        inside = [table for table in tables if table.startswith(f"{name}.")]
        raise ConfigError(
            f"{name!r} is a module without a table of its own; tables inside it: "
            f"{', '.join(inside) or 'none'}"
        )
    raise UnknownNameError(f"embedding table of {type(module).__name__}", name, tables)


def padding_rows(chosen: Padding | None, table: ModuleTable) -> list[int]:
    """Return the rows that are left as they are: `chosen`, or else those of the layer."""
    padding = table.layer_setting("padding_idx") if chosen is None else chosen
    if padding is None:
        return []
    n_rows = table.n_rows
    rows = [padding] if isinstance(padding, int | np.integer) else list(padding)
    for row in rows:
        if isinstance(row, bool) or not isinstance(row, int | np.integer):
            raise ConfigError(
                f"padding_idx must be a whole number or several, not {row!r}"
            )
        if not -n_rows <= row < n_rows:
            raise ConfigError(
                f"padding_idx {row} is outside table {table.name!r} of {n_rows} rows"
            )
    return sorted({int(row) % n_rows for row in rows})


def check_norms(table: ModuleTable, vectors: NDArray[np.float32]) -> None:
    """Refuse vectors that the layer would shorten at the first look-up."""
    limit = table.layer_setting("max_norm")
    if limit is None:
        return
    power = float(table.layer_setting("norm_type", 2.0))
    norms = np.linalg.norm(vectors, power, axis=1)
    longer = int(np.count_nonzero(norms > limit * (1 + 1e-5)))
    if longer:
        raise DataError(
            f"table {table.name!r} shortens every vector beyond max_norm={limit}: {longer} of ours "
            f"are longer and would not survive the first look-up; give a smaller scale"
        )
