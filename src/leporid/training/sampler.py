"""Batches as a pure function of (seed, step), made on the device that trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from leporid.errors import DataError
from leporid.training.data import NegativeSampler, TrainingData, circular_windows, windows
from leporid.training.device import generator


@dataclass(frozen=True)
class Sampling:
    """What a model wants to see in a batch."""

    kind: Literal["pairs", "windows", "sequences"]
    """`pairs`: every training interaction. `windows`: every interaction from a user's second
    on, with the items before it. `sequences`: one example per user, the whole sequence."""
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
    """Windows: every interaction is an example, and the items after it stand before the first, as
    they may where a log has no order. A short history is filled with -1."""


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
    """[B, length], oldest first. Windows repeat a short history's first item in front,
    sequences fill with -1 on the left. None for pairs."""

    def __len__(self) -> int:
        return len(self.users)

    def shard(self, rank: int, world: int) -> Batch:
        """Every `world`-th example from `rank` on: the part of one process."""
        return self.map(lambda tensor: tensor[rank::world])

    def map(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return Batch(*(change(tensor) for tensor in self.tensors()))

    def tensors(self) -> list[Tensor]:
        """The tensors, without a history that is None."""
        always = [self.users, self.positives, self.negatives]
        return always if self.history is None else [*always, self.history]


class Sampler:
    """`batch(step)` depends on the seed and the step only, so a resumed run sees the same data.

    An epoch is one permutation of the examples; what does not fill a batch at its end is left out.
    """

    def __init__(self, data: TrainingData, sampling: Sampling, batch_size: int, seed: int) -> None:
        self.data, self.sampling, self.seed = data, sampling, seed
        self._negatives = NegativeSampler(data)
        self._examples = self._usable_examples()
        self.n_examples = len(self._examples)
        if not self.n_examples:
            raise DataError(
                f"no example to train on: {sampling.kind} need users with "
                f"{1 + sampling.shortest * (sampling.kind != 'pairs')} or more items in training, "
                f"and with an item left that is no positive"
            )
        self.batch_size = min(batch_size, self.n_examples)
        self.steps_per_epoch = self.n_examples // self.batch_size
        self._epoch, self._order = -1, self._examples

    def batch(self, step: int) -> Batch:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            source = generator(self.data.device, self.seed, "epoch", epoch)
            shuffled = torch.randperm(self.n_examples, generator=source, device=self.data.device)
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
            usable &= self._negatives.has_negatives()
        if sampling.kind == "sequences":
            return usable.nonzero().squeeze(1)
        keep = usable[data.user]
        if sampling.kind == "windows" and not sampling.circular:
            position = torch.arange(len(data.user), device=data.device) - data.indptr[data.user]
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
            positives = data.item[ahead.minimum(data.indptr[users + 1][:, None] - 1)]
        negatives = self._negatives.sample(users, sampling.negatives, source)
        return Batch(users, positives, negatives, history)

    def _sequences(self, users: Tensor, source: torch.Generator) -> Batch:
        data, length = self.data, self.sampling.length
        start, end = data.indptr[users], data.indptr[users + 1]
        # Of a sequence that is too long, a random stretch.
        slack = (end - start - length - 1).clamp(min=0)
        share = torch.rand(len(users), generator=source, device=users.device)
        end = end - (share * (slack + 1)).to(torch.int64).minimum(slack)
        history = windows(data.item, start, end - 1, length, repeat=False)
        positives = windows(data.item, start + 1, end, length, repeat=False)
        count = self.sampling.negatives
        drawn = self._negatives.sample(users, length * count, source).view(
            len(users), length, count
        )
        return Batch(users, positives, drawn, history)
