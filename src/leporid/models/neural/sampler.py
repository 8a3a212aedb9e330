"""Batches as a pure function of (seed, step), made on the device that trains.

Interactions are tensors on that device: windows of histories, and negative items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leporid.data import Interactions, Sequences
from leporid.errors import DataError
from leporid.kernel import kernel
from leporid.models.neural.settings import generator

DISLIKED_SHARE = 0.1
"""Share of the negatives of a user with disliked items that are drawn among these. It is
small, since these are no longer drawn among all other items; chosen without a record."""
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Sampling:
    """What a model wants to see in a batch."""

    kind: Literal["pairs", "windows", "sequences"]
    """`pairs`: every training interaction. `windows`: every interaction from a user's second
    on, with the items before it. `sequences`: one example per user, the whole sequence. Where
    there is a goal, its events alone are positives."""
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
        return Batch(*(change(tensor) for tensor in self.tensors()))

    def tensors(self) -> list[Tensor]:
        """The tensors, without a history that is None."""
        always = [self.users, self.positives, self.negatives]
        return always if self.history is None else [*always, self.history]


class Sampler:
    """`batch(step)` depends on the seed and the step only, so a resumed run sees the same data."""

    def __init__(
        self, data: TrainingData, sampling: Sampling, batch_size: int, seed: int
    ) -> None:
        self.data, self.sampling, self.seed = data, sampling, seed
        self._negatives = NegativeSampler(data)
        self._targets, self._goal_end = data.item, None
        if data.goal is not None and sampling.kind == "sequences":
            self._targets = data.item.where(data.goal, -1)
            row = torch.arange(1, len(data.item) + 1, device=data.device).where(
                data.goal, 0
            )
            self._goal_end = torch.cat([row.new_zeros(1), row.cummax(0).values])
            """int64[n + 1]: where the last goal event before each row ends."""
        self._examples = self._usable_examples()
        self.n_examples = len(self._examples)
        if not self.n_examples:
            raise DataError(
                f"no example to train on: {sampling.kind} need users with "
                f"{1 + sampling.shortest * (sampling.kind != 'pairs')} or more items in training, "
                f"and with an item left that is no positive; of a goal, where there is one"
            )
        self.batch_size = min(batch_size, self.n_examples)
        self.steps_per_epoch = self.n_examples // self.batch_size
        self._epoch, self._order = -1, self._examples

    def batch(self, step: int) -> Batch:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            source = generator(self.data.device, self.seed, "epoch", epoch)
            shuffled = torch.randperm(
                self.n_examples, generator=source, device=self.data.device
            )
            self._order, self._epoch = self._examples[shuffled], epoch
        chosen = self._order[position * self.batch_size :][: self.batch_size]
        draws = generator(self.data.device, self.seed, "step", step)
        examples = self._sequences if self.sampling.kind == "sequences" else self._rows
        return examples(chosen, draws)

    def _usable_examples(self) -> Tensor:
        """int64[n_examples]: rows of the training data (pairs, windows) or users (sequences)."""
        data, sampling = self.data, self.sampling
        count = data.indptr.diff()
        usable = count >= (1 if sampling.kind == "pairs" else 2)
        if sampling.negatives:
            usable &= self._negatives.free > 0
        if sampling.kind == "sequences":
            if self._goal_end is not None:  # a target from the second item on
                usable &= self._goal_end[data.indptr[1:]] > data.indptr[:-1] + 1
            return usable.nonzero().squeeze(1)
        keep = usable[data.user]
        if data.goal is not None:
            keep &= data.goal
        if sampling.kind == "windows" and not sampling.circular:
            position = (
                torch.arange(len(data.user), device=data.device)
                - data.indptr[data.user]
            )
            last = (count - sampling.targets).clamp(min=1)[data.user]
            keep &= (position >= sampling.shortest) & (position <= last)
        return keep.nonzero().squeeze(1)

    def _rows(self, row: Tensor, source: torch.Generator) -> Batch:
        data, sampling = self.data, self.sampling
        users, history = data.user[row], None
        if sampling.kind == "windows":
            start, end = data.indptr[users], data.indptr[users + 1]
            history = (
                circular_windows(data.item, start, end, row, sampling.length)
                if sampling.circular
                else windows(data.item, start, row, sampling.length, sampling.repeat)
            )
        positives = data.item[row]
        if sampling.kind == "windows" and sampling.targets > 1:
            ahead = row[:, None] + torch.arange(sampling.targets, device=row.device)
            # A user with too few items for all targets repeats the last one.
            ahead = ahead.minimum(data.indptr[users + 1][:, None] - 1)
            positives = data.item[ahead]
            if (
                data.goal is not None
            ):  # an event that is no target repeats the first one
                positives = torch.where(data.goal[ahead], positives, positives[:, :1])
        negatives = self._negatives.sample(users, sampling.negatives, source)
        if data.disliked is not None:
            negatives = self._with_disliked(*data.disliked, users, negatives, source)
        return Batch(users, positives, negatives, history)

    @staticmethod
    def _with_disliked(
        indptr: Tensor,
        items: Tensor,
        users: Tensor,
        negatives: Tensor,
        source: torch.Generator,
    ) -> Tensor:
        """The negatives, with `DISLIKED_SHARE` of them drawn among what the user dislikes."""
        count = indptr.diff()[users][:, None]
        shape = (2, *negatives.shape)
        chance, share = torch.rand(shape, generator=source, device=users.device)
        position = (indptr[users][:, None] + (share * count).long()).clamp(
            max=len(items) - 1
        )
        return torch.where(
            (count > 0) & (chance < DISLIKED_SHARE), items[position], negatives
        )

    def _sequences(self, users: Tensor, source: torch.Generator) -> Batch:
        data, length = self.data, self.sampling.length
        start, end = data.indptr[users], data.indptr[users + 1]
        # Of a sequence that is too long, a random stretch.
        slack = (end - start - length - 1).clamp(min=0)
        share = torch.rand(len(users), generator=source, device=users.device)
        last, end = end, end - (share * (slack + 1)).to(torch.int64).minimum(slack)
        if self._goal_end is not None:  # the newest item is a target
            before, last = self._goal_end[end], self._goal_end[last]
            end = torch.where(before > start + 1, before, last)
        history = windows(data.item, start, end - 1, length, repeat=False)
        positives = windows(self._targets, start + 1, end, length, repeat=False)
        count = self.sampling.negatives
        drawn = self._negatives.sample(users, length * count, source).view(
            len(users), length, count
        )
        return Batch(users, positives, drawn, history)


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
    goal: Tensor | None = None
    """bool[n]: which interactions are positives; None: all."""
    disliked: tuple[Tensor, Tensor] | None = None
    """int64[n_users + 1], int64[m]: indptr and items of what users dislike; None: nothing."""

    @classmethod
    def from_interactions(
        cls, train: Interactions, device: torch.device
    ) -> TrainingData:
        by_item = train.item[np.lexsort((train.item, train.user))]

        def tensor(array: NDArray[Any], dtype: Any = np.int64) -> Tensor:
            return torch.from_numpy(np.asarray(array, dtype=dtype)).to(device)

        rows = tensor(train.user), tensor(train.item), tensor(train.sequences().indptr)
        goal = None if train.goal is None else tensor(train.goal, np.bool_)
        disliked = None
        if train.disliked:
            negative = train.disliked.sequences()
            disliked = tensor(negative.indptr), tensor(negative.items)
        return cls(train.n_items, *rows, tensor(by_item), goal, disliked)

    @property
    def device(self) -> torch.device:
        return self.item.device


def windows(
    item: Tensor, start: Tensor, end: Tensor, length: int, repeat: bool = True
) -> Tensor:
    """int64[m, length]: the last items of `item[start:end]`, oldest first, for m ranges at once.

    A shorter range repeats its first item in front (`repeat`) or is filled with -1.
    """
    offset = torch.arange(-length, 0, device=item.device)
    position = end[:, None] + offset
    items = item[
        position.clamp(min=0).maximum(start[:, None]).clamp(max=max(len(item) - 1, 0))
    ]
    missing = position < start[:, None]
    if repeat:
        missing = (start == end)[:, None].expand_as(position)
    return items.masked_fill(missing, -1)


def circular_windows(
    item: Tensor, start: Tensor, end: Tensor, row: Tensor, length: int
) -> Tensor:
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
    rows, indptr, item = (
        torch.from_numpy(np.asarray(a, dtype=np.int64)) for a in arrays
    )
    return windows(item, indptr[rows], indptr[rows + 1], length, repeat)


class NegativeSampler:
    """Draws items a user has not, uniformly, by one binary search among the user's positives."""

    def __init__(self, data: TrainingData) -> None:
        again = torch.zeros_like(
            data.item, dtype=torch.bool
        )  # a repeated event counts once
        again[1:] = (data.sorted_item.diff() == 0) & (data.user.diff() == 0)
        running = torch.cat([data.item.new_zeros(1), (~again).cumsum(0)])
        first = running[data.indptr]
        taken_before = running[:-1] - first[data.user] - again.long()
        self._skipped = torch.cat([taken_before + 1, data.item.new_zeros(1)])
        """int64[n + 1]: a user's positives up to and with each of them."""
        self._stride = data.n_items + 1
        self._keys = data.user * self._stride + data.sorted_item - taken_before
        self._indptr = data.indptr
        self.free = data.n_items - first.diff()
        """int64[n_users]: items the user has not."""

    def sample(self, users: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """int64[len(users), count]: negatives with replacement; -1 for who has every item."""
        # 2**62 values folded into at most n_items: the bias of the remainder is below 2**-30.
        draw = torch.randint(
            2**62, (len(users), count), generator=generator, device=users.device
        )
        on_cpu = users.device.type == "cpu"
        return self.items_on_cpu(users, draw) if on_cpu else self.items(users, draw)

    def items(self, users: Tensor, draw: Tensor) -> Tensor:
        """The free item of each draw; -1 where none is free."""
        free = self.free[users][:, None]
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
        tensors = (
            users.contiguous(),
            draw,
            self.free,
            self._indptr,
            self._keys,
            self._skipped,
        )
        return torch.from_numpy(_map_back(self._stride, *(t.numpy() for t in tensors)))


@kernel
def _map_back(
    stride: int,
    users: Ints,
    draw: Ints,
    free: Ints,
    indptr: Ints,
    keys: Ints,
    skipped: Ints,
) -> Ints:
    positions = np.full_like(draw, -1)
    for row, user in enumerate(users):
        if free[user] > 0:
            first, own = indptr[user], keys[indptr[user] : indptr[user + 1]]
            for column in range(draw.shape[1]):
                left = draw[row, column] % free[user]
                before = np.searchsorted(own, user * stride + left, side="right")
                positions[row, column] = left + (
                    skipped[first + before - 1] if before > 0 else 0
                )
    return positions
