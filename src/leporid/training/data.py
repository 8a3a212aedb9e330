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

_RESOLUTION = 1000
"""Integer weight of the rarest item; popularity weights are rounded to this precision."""


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
        """Copy a training part to `device`."""
        by_item = train.item[np.lexsort((train.item, train.user))]
        arrays = (train.user, train.item, train.sequences().indptr, by_item)
        tensors = (torch.from_numpy(np.asarray(a, dtype=np.int64)).to(device) for a in arrays)
        return cls(train.n_users, train.n_items, *tensors)

    @property
    def device(self) -> torch.device:
        return self.item.device


def windows(item: Tensor, start: Tensor, end: Tensor, length: int, repeat: bool = True) -> Tensor:
    """The last `length` of `item[start:end]`, oldest first, for many ranges at once.

    start, end: int64[m]. Returns int64[m, length]. A shorter range repeats its first item in
    front (`repeat`) or is filled with -1; an empty range is all -1.
    """
    offset = torch.arange(-length, 0, device=item.device)
    position = end[:, None] + offset
    items = item[position.clamp(min=0).maximum(start[:, None]).clamp(max=max(len(item) - 1, 0))]
    missing = position < start[:, None]
    if repeat:
        missing = (start == end)[:, None].expand_as(position)
    return items.masked_fill(missing, -1)


def circular_windows(item: Tensor, start: Tensor, end: Tensor, row: Tensor, length: int) -> Tensor:
    """As `windows` up to `row`, where the range `start:end` is a circle: after its first item comes
    its last. `row` itself is never read; a range with fewer others is filled with -1.
    """
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
    """Draws items a user has not, uniformly or in proportion to popularity ** power.

    Items lie on a line, each as long as its (integer) weight. The user's positives are cut out,
    one number r is drawn on what is left, and r is mapped back by counting the positives that
    lie before it: one binary search over all users' positives at once. Integers keep it exact.
    """

    def __init__(self, data: TrainingData, power: float = 0.0) -> None:
        weight = torch.ones(data.n_items, dtype=torch.int64, device=data.device)
        if power != 0:
            popularity = torch.bincount(data.item, minlength=data.n_items).clamp(min=1)
            relative = popularity.to(torch.float64) ** power
            weight = (relative / relative.min() * _RESOLUTION).round().to(torch.int64)
        self._uniform = power == 0
        self._ends = weight.cumsum(0)
        """int64[n_items]: where each item ends on the line."""
        self._total = int(self._ends[-1])
        own = weight[data.sorted_item]
        again = torch.zeros_like(own, dtype=torch.bool)  # a repeated event has no weight of its own
        again[1:] = (data.sorted_item.diff() == 0) & (data.user.diff() == 0)
        taken = own.masked_fill(again, 0)
        running = torch.cat([taken.new_zeros(1), taken.cumsum(0)])
        first = running[data.indptr]
        taken_before = running[:-1] - first[data.user] - (own - taken)
        free_before = (self._ends - weight)[data.sorted_item] - taken_before
        self._skipped = torch.cat([taken_before + own, taken.new_zeros(1)])
        """int64[n + 1]: length of a user's positives up to and with each of them."""
        self._keys = data.user * (self._total + 1) + free_before
        self._indptr = data.indptr
        self._free = self._total - first.diff()
        """int64[n_users]: length of the line left for each user; 0 for who has every item."""

    def has_negatives(self) -> Tensor:
        """bool[n_users]: False for a user who has every item."""
        return self._free > 0

    def sample(self, users: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """int64[len(users), count]: negatives of each user, with replacement.

        A user who has every item has none and gets -1.
        """
        # 2**62 values folded into at most n_items: the bias of the remainder is below 2**-30.
        draw = torch.randint(2**62, (len(users), count), generator=generator, device=users.device)
        on_cpu = users.device.type == "cpu"
        item = self.positions_on_cpu(users, draw) if on_cpu else self.positions(users, draw)
        if self._uniform:
            return item
        return torch.where(item < 0, -1, torch.searchsorted(self._ends, item, right=True))

    def sample_all(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """int64[shape]: any items, positives or not, with replacement."""
        device = self._ends.device
        drawn = torch.randint(self._total, shape, generator=generator, device=device)
        return drawn if self._uniform else torch.searchsorted(self._ends, drawn, right=True)

    def positions(self, users: Tensor, draw: Tensor) -> Tensor:
        """Where each draw lies on the whole line; -1 where nothing is left of it."""
        free = self._free[users][:, None]
        left = draw % free.clamp(min=1)
        # Positives with a free length of at most r before them lie before the r-th free position.
        query = users[:, None] * (self._total + 1) + left
        after = torch.searchsorted(self._keys, query, right=True)
        last = (after - 1).clamp(min=0)
        some = after > self._indptr[users][:, None]
        skipped = torch.where(some, self._skipped[last], 0)
        return torch.where(free > 0, left + skipped, -1)

    def positions_on_cpu(self, users: Tensor, draw: Tensor) -> Tensor:
        """The same numbers in one compiled pass, searching among the user's positives only."""
        tensors = (users.contiguous(), draw, self._free, self._indptr, self._keys, self._skipped)
        return torch.from_numpy(_map_back(self._total + 1, *(t.numpy() for t in tensors)))


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
