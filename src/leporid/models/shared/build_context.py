"""`BuildContext`: what a network is built from, and the tables that hold its initial vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from leporid.data import Interactions
from leporid.errors import ConfigError, DataError, LeporidError
from leporid.initializers import InitialEmbeddings
from leporid.models.shared.row_limits import RowLimits, row_limit
from leporid.spectral import Embedding

_RANDOM_SCALE = 0.01
"""Without initial vectors the tables are drawn from N(0, 0.01^2), as in the paper."""


@dataclass
class BuildContext:
    """What a network is built from."""

    train: Interactions
    """The training part: graph models derive their adjacency from it."""
    dim: int
    """D."""
    init: InitialEmbeddings | None = None
    """The starting vectors as they go into the tables (standardised and scaled already)."""
    tables: list[tuple[nn.Embedding, Tensor]] = field(default_factory=list)
    """Every table made here, with the vectors it was given."""
    max_delta: float | None = None
    """How far training may move a row, in units of the length of the initial rows; None: freely."""
    limits: list[RowLimits] = field(default_factory=list)
    """Of the tables whose rows may not move freely."""
    isolated: dict[str, int] = field(default_factory=dict)
    """Rows of each side without an initial vector, which start from small random numbers."""
    sketch: bool = False
    """Whether only shapes are asked for, on the device "meta", where tensors take no memory."""

    def user_table(self) -> nn.Embedding:
        """A trainable float32[n_users, D] table that holds the initial user vectors."""
        return self._table("users", self.train.n_users, self.init.users if self.init else None)

    def item_table(self) -> nn.Embedding:
        """A trainable float32[n_items, D] table that holds the initial item vectors."""
        return self._table("items", self.train.n_items, self.init.items if self.init else None)

    def _table(self, side: str, rows: int, start: Embedding | None) -> nn.Embedding:
        if self.sketch:
            return nn.Embedding(rows, self.dim, _weight=torch.empty(rows, self.dim))
        vectors = (
            torch.randn(rows, self.dim) * _RANDOM_SCALE
            if start is None
            else torch.from_numpy(np.array(start.vectors, dtype=np.float32))
        )
        if tuple(vectors.shape) != (rows, self.dim):
            raise ConfigError(
                f"the initial vectors have shape {list(vectors.shape)}, the model needs "
                f"{[rows, self.dim]}: fit the initialiser on this training part with "
                f"dim={self.dim}"
            )
        if start is not None and (empty := torch.from_numpy(start.isolated)).any():
            self.isolated[side] = int(empty.sum())
            vectors[empty] = torch.randn(self.isolated[side], self.dim) * _RANDOM_SCALE
        table = nn.Embedding(rows, self.dim, _weight=vectors)
        self.tables.append((table, vectors.clone()))
        if start is not None:
            touched = self.train.user if side == "users" else self.train.item
            trained = torch.from_numpy(np.bincount(touched, minlength=rows) > 0)
            if (limit := row_limit(start, self.max_delta, trained)) is not None:
                trained &= ~torch.from_numpy(start.isolated)
                self.limits.append(RowLimits(table, vectors.clone(), limit, trained, side))
        return table


class _NothingDrawn(TorchFunctionMode):
    """Leaves out random numbers: "meta" tensors have no room for them, yet torch prepares a lot."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def sketched(
    build: Callable[[BuildContext], nn.Module], train: Interactions, dim: int
) -> nn.Module | None:
    """The network without memory for its weights; None where `build` looks into them."""
    try:
        with torch.device("meta"), _NothingDrawn():
            return build(BuildContext(train, dim, sketch=True))
    except RuntimeError:
        return None
    except LeporidError:
        raise
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"its settings do not give a network: {reason}") from None
