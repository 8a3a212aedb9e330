"""`TrainingData`: the training part as tensors on the device that trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.data import Interactions


class Disliked(NamedTuple):
    """The items that users dislike, as a matrix in rows."""

    indptr: Tensor
    """int64[n_users + 1]: user u dislikes `items[indptr[u]:indptr[u + 1]]`."""
    items: Tensor
    """int64[m]."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The training part, wholly on one device. All indices are int64."""

    n_items: int
    user: Tensor
    """int64[n]: the user of every interaction, ascending."""
    item: Tensor
    """int64[n]: the item of every interaction, in time order within a user."""
    indptr: Tensor
    """int64[n_users + 1]: user u has rows `indptr[u]:indptr[u + 1]`."""
    sorted_item: Tensor
    """int64[n]: each user's items in ascending order (what the negative sampler searches)."""
    is_target: Tensor | None = None
    """bool[n]: which interactions are positives; None: all."""
    disliked: Disliked | None = None
    """What users dislike; None: nothing."""

    @classmethod
    def from_interactions(
        cls,
        train: Interactions,
        device: torch.device,
    ) -> TrainingData:
        """Copy interactions to a device."""
        disliked = None
        if train.disliked:
            rows = train.disliked.sequences()
            disliked = Disliked(
                int64_tensor(rows.indptr, device), int64_tensor(rows.items, device)
            )
        is_target = None
        if train.is_target is not None:
            is_target = torch.from_numpy(train.is_target.astype(np.bool_)).to(device)
        by_user_and_item = np.lexsort((train.item, train.user))
        return cls(
            n_items=train.n_items,
            user=int64_tensor(train.user, device),
            item=int64_tensor(train.item, device),
            indptr=int64_tensor(train.sequences().indptr, device),
            sorted_item=int64_tensor(train.item[by_user_and_item], device),
            is_target=is_target,
            disliked=disliked,
        )

    @property
    def device(self) -> torch.device:
        return self.item.device


def int64_tensor(array: NDArray[np.integer], device: torch.device) -> Tensor:
    """Return an array as a tensor of 64-bit integers on a device."""
    return torch.from_numpy(np.asarray(array, np.int64)).to(device)
