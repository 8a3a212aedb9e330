"""A row of the user table for people who were not there when it was trained."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.data import Interactions, Sequences
from leporid.spectral import TablePlacement


class NewUserRows:
    """Places new people in a trained user table, float[n_users, D] on any device.

    Made ready when the first of them asks: part of what a model prepares for scoring, so it goes
    when the weights change.
    """

    def __init__(
        self, train: Interactions, table: Tensor | NDArray[np.float32], neighbours: int = 100
    ) -> None:
        self._train, self._neighbours = train, neighbours
        self._table = torch.as_tensor(table).detach()

    @cached_property
    def _placement(self) -> TablePlacement:
        table = self._table.float().cpu().numpy()
        return TablePlacement(self._train.csr(), table, self._neighbours)

    def place(self, histories: Sequences) -> NDArray[np.float32]:
        """float32[len(histories), D]; a history without any neighbour gets the average place."""
        first, last = histories.indptr[0], histories.indptr[-1]
        items = histories.items[first:last]
        rows = sparse.csr_array(
            (np.ones(len(items), np.float32), items, histories.indptr - first),
            shape=(len(histories), len(self._train.items)),
        )
        return self._placement.place(rows)

    def __call__(self, histories: Sequences) -> Tensor:
        """`place` on the device of the table, in its precision."""
        return torch.from_numpy(self.place(histories)).to(self._table)
