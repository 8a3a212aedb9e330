"""`NearestBlock`: what both searches on a GPU find for a block of rows."""

from typing import NamedTuple

import torch


class NearestBlock(NamedTuple):
    """The k best neighbours of the rows from `first` to `stop`."""

    first: int
    stop: int
    row: torch.Tensor
    """The row of each edge, counted from `first`."""
    column: torch.Tensor
    """The neighbour of each edge."""
    weight: torch.Tensor
    """The similarity of each edge."""
    least: torch.Tensor
    """float32[stop - first]: the k-th similarity of each row, 0 where fewer are positive."""
    last: torch.Tensor
    """int64[stop - first]: the k-th neighbour of each row, -1 where fewer are positive."""
