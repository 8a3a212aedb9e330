"""`NegativeSampler`: uniform draws among the items a user has not."""

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.foundation import kernel
from leporid.models.neural.training_data import TrainingData

Ints: TypeAlias = NDArray[np.int64]


class NegativeSampler:
    """Draws items a user has not, uniformly, by one binary search among the user's positives."""

    def __init__(self, data: TrainingData) -> None:
        user = data.user
        sorted_item = data.sorted_item
        is_repeated = torch.zeros_like(sorted_item, dtype=torch.bool)
        is_repeated[1:] = (sorted_item.diff() == 0) & (user.diff() == 0)
        zero = sorted_item.new_zeros(1)
        # A repeated event counts once.
        distinct = torch.cat([zero, (~is_repeated).cumsum(0)])
        distinct_before = distinct[data.indptr]
        taken_before = distinct[:-1] - distinct_before[user] - is_repeated.long()
        self._skipped = torch.cat([taken_before + 1, zero])
        """int64[n + 1]: a user's positives up to and with each of them."""
        self._stride = data.n_items + 1
        self._keys = user * self._stride + sorted_item - taken_before
        self._indptr = data.indptr
        self.free = data.n_items - distinct_before.diff()
        """int64[n_users]: items the user has not."""

    def sample(
        self,
        users: Tensor,
        count: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Return int64[len(users), count] with replacement; -1 for users who have every item."""
        # 2**62 values folded into at most n_items: the bias of the remainder is below 2**-30.
        draw = torch.randint(
            2**62,
            (len(users), count),
            generator=generator,
            device=users.device,
        )
        if users.device.type == "cpu":
            return self.items_on_cpu(users, draw)
        return self.items(users, draw)

    def items(self, users: Tensor, draw: Tensor) -> Tensor:
        """Return the free item of each draw; -1 if none is free."""
        free = self.free[users][:, None]
        rank = draw % free.clamp(min=1)
        # Positives with at most r free items before them lie before the r-th free item.
        query = users[:, None] * self._stride + rank
        after = torch.searchsorted(self._keys, query, right=True)
        last = (after - 1).clamp(min=0)
        has_positives_before = after > self._indptr[users][:, None]
        skipped = torch.where(has_positives_before, self._skipped[last], 0)
        return torch.where(free > 0, rank + skipped, -1)

    def items_on_cpu(self, users: Tensor, draw: Tensor) -> Tensor:
        """Return `items` by one compiled pass, which searches among the user's positives only."""
        items = _free_items(
            self._stride,
            users.contiguous().numpy(),
            draw.numpy(),
            self.free.numpy(),
            self._indptr.numpy(),
            self._keys.numpy(),
            self._skipped.numpy(),
        )
        return torch.from_numpy(items)


@kernel
def _free_items(
    stride: int,
    users: Ints,
    draw: Ints,
    free: Ints,
    indptr: Ints,
    keys: Ints,
    skipped: Ints,
) -> Ints:
    items = np.full_like(draw, -1)
    for row, user in enumerate(users):
        if free[user] > 0:
            first = indptr[user]
            user_keys = keys[first : indptr[user + 1]]
            for column in range(draw.shape[1]):
                rank = draw[row, column] % free[user]
                query = user * stride + rank
                before = np.searchsorted(user_keys, query, side="right")
                items[row, column] = rank
                if before > 0:
                    items[row, column] += skipped[first + before - 1]
    return items
