"""What models with a user table share: known users have a row, new people get one.

`UserTableRecommender` scores from a person's row; `GraphRecommender` (LightGCN, NGCF, DGCF) has
the rows of a graph network and is trained by BPR.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.config import setting
from leporid.data import Interactions, Sequences
from leporid.models.shared.base import Indices
from leporid.models.shared.dot_product import DotProduct
from leporid.models.shared.neural import NeuralRecommender
from leporid.models.shared.ranking_loss import node_bpr_loss, row_penalty
from leporid.spectral import TableExtension
from leporid.training import Batch, Sampling, TrainingConfig


class NewUserRows:
    """Places people never seen in a trained user table, float32[n_users, D]."""

    def __init__(
        self, train: Interactions, table: NDArray[np.float32], neighbours: int = 100
    ) -> None:
        self._placement = TableExtension(train.csr(), table, neighbours)
        self._n_items = train.n_items

    def place(self, histories: Sequences) -> NDArray[np.float32]:
        """float32[len(histories), D]; a history without any neighbour gets the average place."""
        first, last = histories.indptr[[0, -1]]
        items = histories.items[first:last]
        ones, shape = np.ones(len(items), np.float32), (len(histories), self._n_items)
        rows = sparse.csr_array((ones, items, histories.indptr - first), shape=shape)
        return self._placement.extend(rows)


class UserTableRecommender(NeuralRecommender):
    """A model that knows a person by a row of numbers (and perhaps by recent items)."""

    _new_users: NewUserRows | None = None

    @property
    def neighbours(self) -> int:
        """Fitted users that place a new person's row."""
        return 100

    def user_table(self) -> Tensor:
        """float32[n_users, width]: the row of each user; by default the network's `users`."""
        return cast(Tensor, self.net.users.weight)

    @abc.abstractmethod
    def row_scores(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        """[m, n_items]: scores of every item; rows: [m, width]; recent as in `scores`."""

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """`row_scores` of known users."""
        return self.row_scores(self.user_table()[users], recent)

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """`row_scores` of new people, whose rows are placed by similar fitted users."""
        return self.row_scores(self.new_rows(histories), recent)

    def new_rows(self, histories: Sequences) -> Tensor:
        """float32[len(histories), width] on the table's device."""
        table = self.user_table().detach()
        if self._new_users is None:
            rows = table.float().cpu().numpy()
            self._new_users = NewUserRows(self.train, rows, self.neighbours)
        return torch.from_numpy(self._new_users.place(histories)).to(table)

    def person_rows(self, histories: Sequences, users: Indices | None) -> Tensor:
        """The rows of known users, or placed ones."""
        if users is None:
            return self.new_rows(histories)
        return self.user_table()[torch.from_numpy(users.astype(np.int64)).to(self.device)]

    def weights_changed(self) -> None:
        """Forget what was derived from the weights."""
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
    """Vectors of all nodes, then dot products and BPR.

    The network is called without arguments and returns the final vectors of users, then items.
    """

    config: GraphConfig
    recordable: ClassVar[bool] = True

    def sampling(self) -> Sampling:
        """(u, i, j): an item the user has and one the user has not."""
        return Sampling("pairs", negatives=1)

    def loss(self, batch: Batch) -> Tensor:
        """BPR on the final vectors, L2 on those of layer 0, and what a model adds."""
        net, first = self.net, self.train.n_users
        vectors = net()
        loss = node_bpr_loss(vectors, batch.users, batch.positives + first, batch.negatives + first)
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
        """The final vectors."""
        return cast(Tensor, self.prepared()[0])

    def row_scores(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        """y_ui = <e_u, e_i> for every item."""
        return torch.mm(rows, self.prepared()[1].T)

    def item_outputs(self) -> Tensor:
        """e_i."""
        return cast(Tensor, self.prepared()[1])
