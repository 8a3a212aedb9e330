"""Embedding tables: what a network is built from, and the initial size of its rows.

`init_scale="auto"` goes by size: training moves an entry by about the learning rate per step, so an
initialisation that is too large for the steps a rare item gets is never left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from leporid.data import TABLES, Interactions, ItemTable, item_features
from leporid.embeddings import Embedding, InitialEmbeddings
from leporid.errors import ConfigError
from leporid.models.neural.feature_sum import add_features, fold_features
from leporid.models.neural.settings import TrainingConfig
from leporid.models.neural.untrained_rows import UntrainedRows

_RANDOM_SCALE = 0.01
"""Without initial embeddings the tables are drawn from N(0, 0.01^2), as in the paper."""


class InitialTable(NamedTuple):
    """A table as it was made."""

    table: nn.Embedding
    vectors: Tensor
    """float32[n, d]: the rows that the table was given."""
    side: Literal["users", "items"]
    """The side that the rows stand for."""


@dataclass
class BuildContext:
    """What a network is built from."""

    train: Interactions
    dim: int
    init: InitialEmbeddings | None = None
    """Initial embeddings as they go into the tables: standardised and scaled already."""
    tables: list[InitialTable] = field(default_factory=list)
    """Every table made here."""
    untrained: list[UntrainedRows] = field(default_factory=list)
    """Rows that training must not move, by table."""
    isolated: dict[str, int] = field(default_factory=dict)
    """Number of rows without an initial embedding, which are drawn, by side."""
    shapes_only: bool = False
    """Whether only shapes are needed, on the device "meta"."""

    def user_table(self) -> nn.Embedding:
        """Make a trainable float32[n_users, D] table that holds the initial user embeddings."""
        initial = None if self.init is None else self.init.users
        return self._table("users", self.train.n_users, initial)

    def item_table(self) -> nn.Embedding:
        """Make a trainable float32[n_items, D] table that holds the initial item embeddings."""
        initial = None if self.init is None else self.init.items
        return self._table("items", self.train.n_items, initial)

    def _table(
        self,
        side: Literal["users", "items"],
        rows: int,
        initial: Embedding | None,
    ) -> nn.Embedding:
        if self.shapes_only:
            return nn.Embedding(rows, self.dim, _weight=torch.empty(rows, self.dim))
        if initial is None:
            vectors = self._draw(rows)
        elif initial.vectors.shape != (rows, self.dim):
            raise ConfigError(
                f"the initial embeddings have shape {list(initial.vectors.shape)}, the model needs "
                f"{[rows, self.dim]}: fit the initialiser on this training part with "
                f"dim={self.dim}"
            )
        else:
            isolated = torch.from_numpy(initial.isolated)
            vectors = torch.from_numpy(initial.vectors.astype(np.float32))
            if isolated.any():
                self.isolated[side] = int(isolated.sum())
                vectors[isolated] = self._draw(self.isolated[side])
        table = nn.Embedding(rows, self.dim, _weight=vectors)
        vectors = vectors.clone()
        self.tables.append(InitialTable(table, vectors, side))
        if initial is not None and initial.provenance.get("content"):
            touched = self.train.user if side == "users" else self.train.item
            has_content = ~torch.from_numpy(initial.isolated)
            trained = torch.from_numpy(np.bincount(touched, minlength=rows) > 0)
            if (has_content & trained).any() and (has_content & ~trained).any():
                self.untrained.append(
                    UntrainedRows(
                        table,
                        initial=vectors,
                        untrained=has_content & ~trained,
                        trained=has_content & trained,
                        side=side,
                    )
                )
        return table

    def _draw(self, rows: int) -> Tensor:
        """Return float32[rows, D]: small random numbers, of torch's generator."""
        return torch.randn(rows, self.dim) * _RANDOM_SCALE

    def add_features(
        self,
        config: TrainingConfig,
        tables: Mapping[str, ItemTable],
    ) -> None:
        """Add the embeddings of features to the rows of tables.

        Features come from the files of the settings, or from `tables` in memory instead of them.
        """
        if config.item_table:
            self._add_features("items", tables.get("items", config.item_table))
        if config.user_table:
            self._add_features("users", tables.get("users", config.user_table))

    def _add_features(
        self,
        side: Literal["users", "items"],
        source: ItemTable | str,
    ) -> None:
        embeddings = [made.table for made in self.tables if made.side == side]
        if not embeddings:
            raise ConfigError(f"the model has no table of {side}: leave {side}= out")
        ids = self.train.items if side == "items" else self.train.users
        features = item_features(ids, TABLES[side].load(source)).matrix
        for table in embeddings:
            add_features(table, features)

    def fold_features(self) -> None:
        """Make the sums that the network has read the rows of its tables."""
        for made in self.tables:
            fold_features(made.table)


class Movement(TypedDict):
    """How far training moved each table."""

    start_size: list[float]
    """Root mean square of the initial embeddings."""
    drift: list[float]
    """Length of the change relative to the initial embeddings."""


def movement(tables: Sequence[nn.Embedding], initial: Sequence[Tensor]) -> Movement:
    """Measure the size of the initial embeddings of each table, and how far it moved from them."""
    sizes = []
    drifts = []
    for table, before in zip(tables, initial, strict=True):
        change = table.weight.detach().float().cpu() - before
        size = before.square().mean().sqrt()
        drift = change.norm() / before.norm().clamp(min=1e-12)
        sizes.append(float(size))
        drifts.append(float(drift))
    return Movement(start_size=sizes, drift=drifts)
