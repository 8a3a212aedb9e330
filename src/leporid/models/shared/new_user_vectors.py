"""`NewUserRows` for a table on any device, made when the first new person asks."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from leporid.data.interactions import Interactions, Sequences
from leporid.models.shared.new_users import NewUserRows

__all__ = ["NewUserVectors"]

_NEIGHBOURS = 100
"""Similar users a new row is made of."""


class NewUserVectors:
    """Part of what a model prepares for scoring, so it goes when the weights change."""

    def __init__(self, train: Interactions, table: Tensor) -> None:
        self._train, self._table = train, table.detach()

    @cached_property
    def _rows(self) -> NewUserRows:
        return NewUserRows(self._train, self._table.float().cpu().numpy(), _NEIGHBOURS)

    def __call__(self, histories: Sequences) -> Tensor:
        """float32[len(histories), D] on the table's device."""
        return torch.from_numpy(self._rows.place(histories)).to(self._table)
