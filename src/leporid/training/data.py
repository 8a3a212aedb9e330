"""Interactions as tensors on the device that trains, and the windows cut from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.data import Interactions, Sequences


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
