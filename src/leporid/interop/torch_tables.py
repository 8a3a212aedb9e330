"""What `leporid.initialize` does beyond copying: bounds on rows, new rows among trained ones."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn.utils import parametrize

from leporid.initializers import nearest_by_content
from leporid.models import neighbour_rows

_NEIGHBOURS = 5
"""Trained rows whose mean a new row is."""
_FREE = 1e30
"""The limit of rows without a bound."""


class BoundedRows(nn.Module):
    """initial float[n, d] and limit float[n, 1]: rows farther away are read at the edge."""

    start: Tensor
    limit: Tensor

    def __init__(self, initial: Tensor, limit: Tensor) -> None:
        super().__init__()
        self.register_buffer("start", initial)  # its name in saved state dicts
        self.register_buffer("limit", limit)

    def forward(self, weight: Tensor) -> Tensor:
        """Rows within their ball keep every bit."""
        delta = weight - self.start
        length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
        edge = self.start + delta * (self.limit / torch.maximum(length, self.limit))
        return torch.where(length > self.limit, edge, weight)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Values that are assigned are the trainable ones."""
        return weight


def bound_rows(owner: nn.Module, name: str, rows: NDArray[np.int64], max_delta: float) -> None:
    """Bound these rows of `owner.name` to `max_delta` times their root mean square norm."""
    table: Tensor = getattr(owner, name).detach()
    index = torch.from_numpy(rows).to(table.device)
    limit = torch.full((len(table), 1), _FREE, dtype=table.dtype, device=table.device)
    limit[index] = max_delta * table[index].float().square().sum(dim=1).mean().sqrt().to(table)
    parametrize.register_parametrization(owner, name, BoundedRows(table.clone(), limit))


def rows_among_trained(
    vectors: NDArray[np.float32],
    known: NDArray[np.bool_],
    trained: NDArray[np.float32],
) -> NDArray[np.float32]:
    """float32[new, d]: for each row not `known`, the mean of the trained rows nearest to it."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    same, new = np.zeros(len(vectors), np.int64), np.flatnonzero(~known)
    near = nearest_by_content(sparse.csr_array(unit), new, _NEIGHBOURS, same, known)
    return neighbour_rows(trained, near[:, known], None)
