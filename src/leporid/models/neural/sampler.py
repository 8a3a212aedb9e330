"""Batches as a pure function of (seed, step), made on the device that trains.

Interactions are tensors on that device: windows of histories, and negative items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.data import Sequences
from leporid.errors import DataError
from leporid.models.neural.negatives import NegativeSampler
from leporid.models.neural.settings import generator
from leporid.models.neural.training_data import Disliked, TrainingData, int64_tensor

DISLIKED_SHARE = 0.1
"""Share of the negatives of a user with disliked items that are drawn among these. It is
small, since these are no longer drawn among all other items; chosen without a record."""


@dataclass(frozen=True)
class Sampling:
    """What a model wants to see in a batch."""

    kind: Literal["pairs", "windows", "sequences"]
    """`pairs`: every training interaction. `windows`: every interaction from a user's second
    on, with the items before it. `sequences`: one example per user, the whole sequence. Where
    target events are marked, they alone are positives."""
    length: int = 0
    """Items of history in windows and sequences."""
    targets: int = 1
    """Windows: this many consecutive items are to be predicted."""
    negatives: int = 1
    """Negative items for each example (for each position in sequences); 0 for none."""
    repeat: bool = True
    """Windows: a history shorter than `length` repeats its first item in front; else -1."""
    shortest: int = 1
    """Windows: items of history that an example needs."""
    circular: bool = False
    """Windows: every interaction is an example that reads the items after it too, in a circle."""


@dataclass(frozen=True)
class Batch:
    """B examples, all int64 on one device."""

    users: Tensor
    """[B]."""
    positives: Tensor
    """[B]; [B, targets] if the model asked for several; [B, length] in sequences (-1: none)."""
    negatives: Tensor
    """[B, k]; [B, length, k] in sequences; k may be 0."""
    history: Tensor | None = None
    """[B, length], oldest first, padded in front; None for pairs."""

    def __len__(self) -> int:
        return len(self.users)

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """Return a batch with every tensor changed."""
        return Batch(*(change(tensor) for tensor in self.tensors()))

    def tensors(self) -> list[Tensor]:
        """Return the tensors, without a history that is None."""
        tensors = [self.users, self.positives, self.negatives]
        if self.history is not None:
            tensors.append(self.history)
        return tensors


class Sampler:
    """`batch(step)` depends on the seed and the step only, so a resumed run sees the same data."""

    def __init__(
        self,
        data: TrainingData,
        sampling: Sampling,
        batch_size: int,
        seed: int,
    ) -> None:
        self.data = data
        self.sampling = sampling
        self.seed = seed
        self._negatives = NegativeSampler(data)
        self._targets = data.item
        self._target_end: Tensor | None = None
        """int64[n + 1]: where the last target event before each row ends."""
        if data.is_target is not None and sampling.kind == "sequences":
            self._targets = data.item.where(data.is_target, -1)
            n_rows = len(data.item)
            ends = torch.arange(1, n_rows + 1, device=data.device)
            target_ends = ends.where(data.is_target, 0).cummax(0).values
            self._target_end = torch.cat([target_ends.new_zeros(1), target_ends])
        self._examples = self._usable_examples()
        self.n_examples = len(self._examples)
        if not self.n_examples:
            raise DataError(
                f"no example to train on: {sampling.kind} need users with "
                f"{1 + sampling.shortest * (sampling.kind != 'pairs')} or more items in training, "
                f"and with an item left that is no positive; of target events, where there are any"
            )
        self.batch_size = min(batch_size, self.n_examples)
        self.steps_per_epoch = self.n_examples // self.batch_size
        self._epoch = -1
        self._order = self._examples

    def batch(self, step: int) -> Batch:
        """Return the examples of a step."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = self._shuffled(epoch)
            self._epoch = epoch
        first = position * self.batch_size
        examples = self._order[first : first + self.batch_size]
        source = generator(self.data.device, self.seed, "step", step)
        if self.sampling.kind == "sequences":
            return self._sequences(examples, source)
        return self._rows(examples, source)

    def _shuffled(self, epoch: int) -> Tensor:
        """Return all examples in the order of an epoch."""
        device = self.data.device
        source = generator(device, self.seed, "epoch", epoch)
        order = torch.randperm(self.n_examples, generator=source, device=device)
        return self._examples[order]

    def _usable_examples(self) -> Tensor:
        """Return rows of the training data (pairs, windows) or users (sequences), int64."""
        data = self.data
        sampling = self.sampling
        count = data.indptr.diff()
        usable = count >= (1 if sampling.kind == "pairs" else 2)
        if sampling.negatives:
            usable &= self._negatives.free > 0
        if sampling.kind == "sequences":
            if self._target_end is not None:  # a target from the second item on
                last_target_end = self._target_end[data.indptr[1:]]
                usable &= last_target_end > data.indptr[:-1] + 1
            return usable.nonzero().squeeze(1)
        keep = usable[data.user]
        if data.is_target is not None:
            keep &= data.is_target
        if sampling.kind == "windows" and not sampling.circular:
            row = torch.arange(len(data.user), device=data.device)
            position = row - data.indptr[data.user]
            last = (count - sampling.targets).clamp(min=1)[data.user]
            keep &= (position >= sampling.shortest) & (position <= last)
        return keep.nonzero().squeeze(1)

    def _rows(self, row: Tensor, source: torch.Generator) -> Batch:
        """Return the batch of some interactions, with the histories before them in windows."""
        data = self.data
        users = data.user[row]
        history = None
        positives = data.item[row]
        if self.sampling.kind == "windows":
            history = self._windows_before(row, users)
            if self.sampling.targets > 1:
                positives = self._next_targets(row, users)
        negatives = self._negatives.sample(users, self.sampling.negatives, source)
        if data.disliked is not None:
            negatives = with_disliked(negatives, data.disliked, users, source)
        return Batch(users, positives, negatives, history)

    def _windows_before(self, row: Tensor, users: Tensor) -> Tensor:
        """Return int64[B, length], the items before (in a circle: around) each interaction."""
        data = self.data
        sampling = self.sampling
        start = data.indptr[users]
        if sampling.circular:
            end = data.indptr[users + 1]
            return circular_windows(
                data.item,
                start,
                end,
                row,
                sampling.length,
            )
        return windows(
            data.item,
            start,
            row,
            sampling.length,
            sampling.repeat,
        )

    def _next_targets(self, row: Tensor, users: Tensor) -> Tensor:
        """Return int64[B, targets], the items of each interaction and of those after it."""
        data = self.data
        offset = torch.arange(self.sampling.targets, device=row.device)
        # A user with too few items for all targets repeats the last one.
        last = data.indptr[users + 1][:, None] - 1
        ahead = (row[:, None] + offset).minimum(last)
        targets = data.item[ahead]
        if data.is_target is None:
            return targets
        # An event that is no target repeats the first one.
        return torch.where(data.is_target[ahead], targets, targets[:, :1])

    def _sequences(self, users: Tensor, source: torch.Generator) -> Batch:
        """Return the batch of some users with their sequences."""
        data = self.data
        length = self.sampling.length
        start = data.indptr[users]
        last_end = data.indptr[users + 1]
        # A sequence that is too long gives a random stretch.
        slack = (last_end - start - length - 1).clamp(min=0)
        share = torch.rand(len(users), generator=source, device=users.device)
        skipped = (share * (slack + 1)).to(torch.int64).minimum(slack)
        end = last_end - skipped
        if self._target_end is not None:  # the newest item is a target
            target_end = self._target_end[end]
            last_target_end = self._target_end[last_end]
            end = torch.where(target_end > start + 1, target_end, last_target_end)
        history = windows(
            data.item,
            start,
            end - 1,
            length,
            repeat=False,
        )
        positives = windows(
            self._targets,
            start + 1,
            end,
            length,
            repeat=False,
        )
        count = self.sampling.negatives
        negatives = self._negatives.sample(users, length * count, source)
        negatives = negatives.view(len(users), length, count)
        return Batch(users, positives, negatives, history)


def with_disliked(
    negatives: Tensor,
    disliked: Disliked,
    users: Tensor,
    source: torch.Generator,
) -> Tensor:
    """Return negatives of which `DISLIKED_SHARE` are drawn among what the users dislike."""
    count = disliked.indptr.diff()[users][:, None]
    shape = (2, *negatives.shape)
    chance, share = torch.rand(shape, generator=source, device=users.device)
    first = disliked.indptr[users][:, None]
    position = first + (share * count).long()
    position = position.clamp(max=len(disliked.items) - 1)
    replaced = (count > 0) & (chance < DISLIKED_SHARE)
    return torch.where(replaced, disliked.items[position], negatives)


def windows(
    item: Tensor,
    start: Tensor,
    end: Tensor,
    length: int,
    repeat: bool = True,
) -> Tensor:
    """Return int64[m, length], the last items of `item[start:end]` for m ranges, oldest first.

    A shorter range repeats its first item in front (`repeat`) or is filled with -1.
    """
    offset = torch.arange(-length, 0, device=item.device)
    position = end[:, None] + offset
    missing = position < start[:, None]
    inside = position.clamp(min=0).maximum(start[:, None])
    last = max(len(item) - 1, 0)
    items = item[inside.clamp(max=last)]
    if repeat:
        missing = (start == end)[:, None].expand_as(position)
    return items.masked_fill(missing, -1)


def circular_windows(
    item: Tensor,
    start: Tensor,
    end: Tensor,
    row: Tensor,
    length: int,
) -> Tensor:
    """Return `windows` up to `row`, where `start:end` is a circle; `row` itself is never read."""
    offset = torch.arange(-length, 0, device=item.device)
    count = (end - start)[:, None]
    position = (row - start)[:, None] + offset
    items = item[start[:, None] + position % count]
    return items.masked_fill(-offset >= count, -1)


def recent_items(
    sequences: Sequences,
    users: NDArray[np.int32],
    length: int,
    repeat: bool = True,
) -> Tensor:
    """Return int64[len(users), length] on the CPU: users' newest items, oldest first."""
    if len(sequences.items) == 0:
        return torch.full((len(users), length), -1)
    cpu = torch.device("cpu")
    rows = int64_tensor(users, cpu)
    indptr = int64_tensor(sequences.indptr, cpu)
    item = int64_tensor(sequences.items, cpu)
    return windows(
        item,
        indptr[rows],
        indptr[rows + 1],
        length,
        repeat,
    )
