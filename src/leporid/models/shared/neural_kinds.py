"""Two kinds of neural models, which a model may combine: those that rank by dot products, and those
with a row per user.
"""

from __future__ import annotations

import abc
from typing import cast

import numpy as np
import torch
from torch import Tensor

from leporid.data import Sequences
from leporid.models.shared.lists import Indices, Scores
from leporid.models.shared.neural import NeuralRecommender
from leporid.models.shared.sparse import history_rows
from leporid.spectral import TableExtension

_USERS_AT_ONCE = 256
_NEIGHBOURS = 100
"""Fitted users whose rows give a new user's row."""


class DotProduct(NeuralRecommender):
    """What such a model says of its vectors; indexes and databases outside then rank as it does."""

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """[m, width]: `user_vectors`, traceable; rows: [m, D] of the user table."""
        return cast(Tensor, rows)

    @abc.abstractmethod
    def item_outputs(self) -> Tensor:
        """[n_items, width]: `item_vectors`."""

    def user_rows(self, histories: Sequences, users: Indices | None) -> Tensor | None:
        """[m, D]: what `encode` reads of the user table; None where there is no such table."""
        return None

    def item_vectors(self) -> Scores:
        with self._scoring():
            vectors = self.item_outputs().float()
            if self.cold_items is not None and self.vectors_rank == "everything":
                vectors = self.cold_items.item_vectors(vectors)
            return cast(Scores, vectors.cpu().numpy())

    def user_vectors(self, histories: Sequences, users: Indices | None = None) -> Scores:
        parts = []
        with self._scoring():
            for first in range(0, len(histories), _USERS_AT_ONCE):
                part = np.arange(first, min(first + _USERS_AT_ONCE, len(histories)))
                some, rows_here = histories.take(part), np.arange(len(part), dtype=np.int32)
                rows = self.user_rows(some, None if users is None else users[part])
                recent = self._recent(some, rows_here)
                newest = None if self.cold_items is None else self.newest(some, rows_here)
                parts.append(self.encode_users(rows, recent, newest).float().cpu())
        return cast(Scores, torch.cat(parts).numpy())

    def encode_users(
        self, rows: Tensor | None, recent: Tensor | None, newest: Tensor | None
    ) -> Tensor:
        """`encode`, with what the scores of cold items need; newest: int64[m, l], -1 for none."""
        vectors = self.encode(rows, recent)
        if self.cold_items is None or newest is None or self.vectors_rank != "everything":
            return vectors
        return self.cold_items.user_vectors(vectors.float(), newest)


def with_constant(vectors: Tensor) -> Tensor:
    """A column of ones after the vectors: the last entry of an item's vector is then its bias."""
    return torch.nn.functional.pad(vectors, (0, 1), value=1.0)


class UserTableRecommender(NeuralRecommender):
    """A model that has a row per user (and perhaps reads recent items)."""

    _new_users: TableExtension | None = None

    def user_table(self) -> Tensor:
        """float32[n_users, width]: the row of each user; by default the network's `users`."""
        return cast(Tensor, self.net.users.weight)

    @abc.abstractmethod
    def row_scores(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        """[m, n_items]: scores of every item; rows: [m, width]; recent as in `scores`."""

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        return self.row_scores(self.user_table()[users], recent)

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        return self.row_scores(self.new_rows(histories), recent)

    def new_rows(self, histories: Sequences) -> Tensor:
        """float32[len(histories), width] on the table's device: means of similar fitted users."""
        table = self.user_table().detach()
        if self._new_users is None:
            fitted = table.float().cpu().numpy()
            self._new_users = TableExtension(self.train.csr(), fitted, _NEIGHBOURS)
        rows = self._new_users.extend(history_rows(histories, self.train.n_items))
        return torch.from_numpy(rows).to(table)

    def user_rows(self, histories: Sequences, users: Indices | None) -> Tensor:
        if users is None:
            return self.new_rows(histories)
        return self.user_table()[torch.from_numpy(users.astype(np.int64)).to(self.device)]

    def weights_changed(self) -> None:
        super().weights_changed()
        self._new_users = None
