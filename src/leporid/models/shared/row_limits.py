"""How far training may move the rows of a table from their initial vectors.

`freeze="bounded"` keeps every row within a ball around its start: a frozen start plus a trainable
difference of limited length. A row nobody in the training part touches has nothing to learn from
but being pushed away as a negative. Where its start comes from content it stays there meanwhile,
and then follows the rows it started nearest to: it gets the direction of their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from leporid.initializers import nearest_by_content
from leporid.spectral import Embedding

_NEIGHBOURS = 30
"""Rows that one which was never trained follows."""


@dataclass(frozen=True)
class RowLimits:
    """A table, its start float[n, d] and the largest distance from it, float[n, 1]."""

    table: nn.Embedding
    start: Tensor
    limit: Tensor
    trained: Tensor
    """bool[n]: rows with an initial vector that occur in the training part."""
    side: str
    """Whose rows: "users" or "items"."""

    @torch.no_grad()
    def enforce(self) -> None:
        """Move rows that are too far back to the edge of their ball; others keep every bit."""
        delta = self.table.weight - self.start
        length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
        edge = self.start + delta * (self.limit / length.clamp(min=1e-30))
        self.table.weight.copy_(torch.where(length > self.limit, edge, self.table.weight))

    def to(self, device: torch.device) -> RowLimits:
        """The same on the device of the network."""
        start, limit, trained = (t.to(device) for t in (self.start, self.limit, self.trained))
        return RowLimits(self.table, start, limit, trained, self.side)

    @property
    def held(self) -> NDArray[np.bool_]:
        """bool[n]: rows that training leaves where they are; none where it moves no row at all."""
        return ((self.limit == 0).ravel() & self.trained.any()).cpu().numpy()

    @torch.no_grad()
    def settle(self) -> None:
        """After training: rows that were held follow the nearest rows that were not."""
        held, trained = self.held, self.trained.cpu().numpy()
        if not held.any():
            return
        start = self.start.float().cpu().numpy()
        unit = start / np.maximum(np.linalg.norm(start, axis=1, keepdims=True), 1e-30)
        same = np.zeros(len(start), np.int64)
        near = nearest_by_content(
            sparse.csr_array(unit), np.flatnonzero(held), _NEIGHBOURS, same, trained
        )
        weight = self.table.weight
        rows = neighbour_rows(weight.float().cpu().numpy()[trained], near[:, trained])
        weight[torch.from_numpy(held).to(weight.device)] = torch.from_numpy(rows).to(weight)


def neighbour_rows(
    table: NDArray[np.float32], edges: sparse.csr_array, length: float | None = 1.0
) -> NDArray[np.float32]:
    """float32[m, d]: the mean of each row's neighbours by weights csr[m, n], of a usual length.

    `length` is in units of the median length of the table's rows; None is half way (geometrically)
    between that and the mean's own, which is the shorter the less the neighbours agree. A column
    of single numbers is averaged as it is. Without neighbours a row is the mean of all.
    """
    total = np.asarray(edges.sum(axis=1)).reshape(-1, 1)
    mean = np.where(total > 0, edges @ table / np.where(total > 0, total, 1), table.mean(axis=0))
    if table.shape[1] > 1:
        own = np.linalg.norm(mean, axis=1, keepdims=True)
        usual = np.median(np.linalg.norm(table, axis=1))
        scale = usual / np.maximum(own, 1e-30)
        scale = np.sqrt(scale) if length is None else scale * length
        mean = mean * np.where((total > 0) & (own > 0), scale, 1)
    return np.ascontiguousarray(mean, dtype=np.float32)


def row_limit(start: Embedding, max_delta: float | None, trained: Tensor) -> Tensor | None:
    """float[n, 1], in units of the entries; None where no row has a limit.

    `max_delta` is in units of the root mean square length of the initial rows. `trained` bool[n]
    says which rows occur in the training part. Rows without an initial vector have no limit.
    """
    length = start.size * start.dim**0.5
    limit = torch.full((start.n, 1), torch.inf if max_delta is None else max_delta * length)
    if start.provenance.get("content"):
        limit[~trained] = 0
    limit[torch.from_numpy(start.isolated)] = torch.inf
    return limit if limit.isfinite().any() else None
