"""Three kinds of neural models, which a model may combine: those that rank by dot products, those
with a row per user, and those with a graph network that is trained by BPR.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from leporid.config import setting
from leporid.data import Sequences
from leporid.models.shared.lists import Indices, Scores
from leporid.models.shared.losses import row_penalty, table_bpr_loss
from leporid.models.shared.neural import NeuralRecommender
from leporid.models.shared.sparse import history_rows
from leporid.spectral import TableExtension
from leporid.training import Batch, Sampling, TrainingConfig

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


@dataclass(frozen=True, kw_only=True)
class GraphConfig(TrainingConfig):
    """Settings of every graph model."""

    batch_size: int = setting(2048, at_least=1)
    steps: int = setting(3000, at_least=1)
    lr: float = setting(5e-3, above=0)
    regularization: float = setting(1e-4, at_least=0)
    """lambda, on the layer-0 vectors of the batch."""


class GraphRecommender(UserTableRecommender, DotProduct):
    """Trained by BPR on the final vectors of users, then items, that the network returns."""

    config: GraphConfig
    recordable: ClassVar[bool] = True

    def sampling(self) -> Sampling:
        return Sampling("pairs", negatives=1)

    def loss(self, batch: Batch) -> Tensor:
        """BPR on the final vectors, L2 on those of layer 0, and what a model adds."""
        net, first = self.net, self.train.n_users
        vectors = net()
        items = batch.positives + first, batch.negatives + first
        loss = table_bpr_loss(vectors, vectors, batch.users, *items)
        if self.config.regularization:
            rows = torch.cat([batch.positives, batch.negatives.reshape(-1)])
            penalty = row_penalty(net.users.weight, batch.users, len(batch))
            penalty = penalty + row_penalty(net.items.weight, rows, len(batch))
            loss = loss + self.config.regularization * penalty
        extra = self.vector_loss(vectors)
        return loss if extra is None else loss + extra

    def vector_loss(self, vectors: Tensor) -> Tensor | None:
        """A further term on the final vectors of users, then items."""
        return None

    def prepare(self) -> tuple[Tensor, Tensor]:
        """Final vectors of all users, and of all items."""
        vectors = self.net()
        return vectors[: self.train.n_users], vectors[self.train.n_users :]

    def user_table(self) -> Tensor:
        return cast(Tensor, self.prepared()[0])

    def row_scores(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        return torch.mm(rows, self.prepared()[1].T)

    def item_outputs(self) -> Tensor:
        return cast(Tensor, self.prepared()[1])
