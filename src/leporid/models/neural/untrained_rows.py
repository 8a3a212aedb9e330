"""Rows of embedding tables that never occur in training: frozen, then placed among neighbours.

A row that does not occur in the training part would only be pushed away as a negative. If its
initial embedding comes from content, it is held there during training, and afterwards gets the mean
direction of its nearest neighbours that were trained.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from leporid.embeddings import nearest_by_content

_NEIGHBOURS = 30
"""Trained rows that determine an untrained one."""


@dataclass(frozen=True)
class UntrainedRows:
    """Rows of a table that keep their initial embeddings while the others are trained."""

    table: nn.Embedding
    initial: Tensor
    """float[n, d]: the table before training."""
    untrained: Tensor
    """bool[n]: rows with an initial embedding that do not occur in the training part."""
    trained: Tensor
    """bool[n]: rows with an initial embedding that occur in the training part."""
    side: Literal["users", "items"]
    """The side that the rows of the table stand for."""

    @torch.no_grad()
    def restore(self) -> None:
        """Undo what an optimiser step did to the untrained rows."""
        weight = next(self.table.parameters())  # without what features add
        restored = torch.where(self.untrained[:, None], self.initial, weight)
        weight.copy_(restored)

    def to(self, device: torch.device) -> Self:
        """Return the same rows for a table on another device."""
        return type(self)(
            table=self.table,
            initial=self.initial.to(device),
            untrained=self.untrained.to(device),
            trained=self.trained.to(device),
            side=self.side,
        )

    @torch.no_grad()
    def follow_trained_rows(self) -> None:
        """Give the untrained rows, after training, the mean of the nearest trained ones."""
        trained = self.trained.cpu().numpy()
        untrained = np.flatnonzero(self.untrained.cpu().numpy())
        initial = self.initial.float().cpu().numpy()
        length = np.linalg.norm(initial, axis=1, keepdims=True)
        directions = sparse.csr_array(initial / np.maximum(length, 1e-30))
        nearest = nearest_by_content(
            directions,
            untrained,
            _NEIGHBOURS,
            interactions=np.zeros(len(initial), np.int64),
            among=trained,
        )
        weight = self.table.weight
        trained_rows = weight.float().cpu().numpy()[trained]
        rows = neighbour_rows(trained_rows, nearest[:, trained])
        weight[self.untrained] = torch.from_numpy(rows).to(weight)


def neighbour_rows(
    table: NDArray[np.float32],
    edges: sparse.csr_array,
    length: float | None = 1.0,
) -> NDArray[np.float32]:
    """Return float32[m, d], the mean of each row's neighbours by weights csr[m, n].

    `length` is the length of the new rows in units of the median length of the table's rows; None
    is half way (geometrically) between that and the mean's own. A row without neighbours is the
    mean of all.
    """
    total = np.asarray(edges.sum(axis=1)).reshape(-1, 1)
    has_neighbours = total > 0
    weighted = edges @ table / np.where(has_neighbours, total, 1)
    mean = np.where(has_neighbours, weighted, table.mean(axis=0))
    if table.shape[1] > 1:
        mean_length = np.linalg.norm(mean, axis=1, keepdims=True)
        usual_length = np.median(np.linalg.norm(table, axis=1))
        scale = usual_length / np.maximum(mean_length, 1e-30)
        scale = np.sqrt(scale) if length is None else scale * length
        mean = mean * np.where(has_neighbours & (mean_length > 0), scale, 1)
    return np.ascontiguousarray(mean, dtype=np.float32)
