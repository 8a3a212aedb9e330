"""Interactions as tensors on the device that trains: windows of histories, and negative items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.data import Interactions, Sequences
from leporid.kernel import kernel

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The training part, wholly on one device. All indices are int64."""

    n_users: int
    n_items: int
    user: Tensor
    """int64[n]: the user of every interaction, ascending."""
    item: Tensor
    """int64[n]: the item of every interaction, in time order within a user."""
    indptr: Tensor
    """int64[n_users + 1]: user u has rows `indptr[u]:indptr[u + 1]`."""
    sorted_item: Tensor
    """int64[n]: each user's items in ascending order (what the negative sampler searches)."""

    @classmethod
    def from_interactions(cls, train: Interactions, device: torch.device) -> TrainingData:
        by_item = train.item[np.lexsort((train.item, train.user))]
        arrays = (train.user, train.item, train.sequences().indptr, by_item)
        tensors = (torch.from_numpy(np.asarray(a, dtype=np.int64)).to(device) for a in arrays)
        return cls(train.n_users, train.n_items, *tensors)

    @property
    def device(self) -> torch.device:
        return self.item.device


def windows(item: Tensor, start: Tensor, end: Tensor, length: int, repeat: bool = True) -> Tensor:
    """int64[m, length]: the last items of `item[start:end]`, oldest first, for m ranges at once.

    A shorter range repeats its first item in front (`repeat`) or is filled with -1.
    """
    offset = torch.arange(-length, 0, device=item.device)
    position = end[:, None] + offset
    items = item[position.clamp(min=0).maximum(start[:, None]).clamp(max=max(len(item) - 1, 0))]
    missing = position < start[:, None]
    if repeat:
        missing = (start == end)[:, None].expand_as(position)
    return items.masked_fill(missing, -1)


def circular_windows(item: Tensor, start: Tensor, end: Tensor, row: Tensor, length: int) -> Tensor:
    """As `windows` up to `row`, where `start:end` is a circle; `row` itself is never read."""
    offset = torch.arange(-length, 0, device=item.device)
    count = (end - start)[:, None]
    items = item[start[:, None] + ((row - start)[:, None] + offset) % count]
    return items.masked_fill(-offset >= count, -1)


def recent_items(
    sequences: Sequences, users: NDArray[np.int32], length: int, repeat: bool = True
) -> Tensor:
    """int64[len(users), length] on the CPU: the newest items of some users, oldest first."""
    if len(sequences.items) == 0:
        return torch.full((len(users), length), -1)
    arrays = (users, sequences.indptr, sequences.items)
    rows, indptr, item = (torch.from_numpy(np.asarray(a, dtype=np.int64)) for a in arrays)
    return windows(item, indptr[rows], indptr[rows + 1], length, repeat)


class NegativeSampler:
    """Draws items a user has not, uniformly.

    A number r is drawn among the user's free items and mapped back by counting the positives that
    lie before the r-th of them: one binary search over all users' positives at once.
    """

    def __init__(self, data: TrainingData) -> None:
        again = torch.zeros_like(data.item, dtype=torch.bool)  # a repeated event counts once
        again[1:] = (data.sorted_item.diff() == 0) & (data.user.diff() == 0)
        running = torch.cat([data.item.new_zeros(1), (~again).cumsum(0)])
        first = running[data.indptr]
        taken_before = running[:-1] - first[data.user] - again.long()
        self._skipped = torch.cat([taken_before + 1, data.item.new_zeros(1)])
        """int64[n + 1]: a user's positives up to and with each of them."""
        self._stride = data.n_items + 1
        self._keys = data.user * self._stride + data.sorted_item - taken_before
        self._indptr = data.indptr
        self._free = data.n_items - first.diff()
        """int64[n_users]: items the user has not."""

    def has_negatives(self) -> Tensor:
        return self._free > 0

    def sample(self, users: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """int64[len(users), count]: negatives with replacement; -1 for who has every item."""
        # 2**62 values folded into at most n_items: the bias of the remainder is below 2**-30.
        draw = torch.randint(2**62, (len(users), count), generator=generator, device=users.device)
        on_cpu = users.device.type == "cpu"
        return self.items_on_cpu(users, draw) if on_cpu else self.items(users, draw)

    def items(self, users: Tensor, draw: Tensor) -> Tensor:
        """The free item of each draw; -1 where none is free."""
        free = self._free[users][:, None]
        left = draw % free.clamp(min=1)
        # Positives with at most r free items before them lie before the r-th free item.
        query = users[:, None] * self._stride + left
        after = torch.searchsorted(self._keys, query, right=True)
        last = (after - 1).clamp(min=0)
        some = after > self._indptr[users][:, None]
        skipped = torch.where(some, self._skipped[last], 0)
        return torch.where(free > 0, left + skipped, -1)

    def items_on_cpu(self, users: Tensor, draw: Tensor) -> Tensor:
        """The same numbers in one compiled pass, searching among the user's positives only."""
        tensors = (users.contiguous(), draw, self._free, self._indptr, self._keys, self._skipped)
        return torch.from_numpy(_map_back(self._stride, *(t.numpy() for t in tensors)))


@kernel
def _map_back(
    stride: int, users: Ints, draw: Ints, free: Ints, indptr: Ints, keys: Ints, skipped: Ints
) -> Ints:
    positions = np.full_like(draw, -1)
    for row, user in enumerate(users):
        if free[user] > 0:
            first, own = indptr[user], keys[indptr[user] : indptr[user + 1]]
            for column in range(draw.shape[1]):
                left = draw[row, column] % free[user]
                before = np.searchsorted(own, user * stride + left, side="right")
                positions[row, column] = left + (skipped[first + before - 1] if before > 0 else 0)
    return positions
