"""`NetworkScoring`: how a trained network scores users and items.

A model scores by dot products of `encode` and `item_outputs`, or by `scores`. A closed-form part
and cold items are added here.
"""

import abc
import contextlib
from collections.abc import Iterator, Sequence
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
)

import numpy as np
import torch
from torch import Tensor, nn

from leporid.data import Sequences
from leporid.embeddings import TableExtension
from leporid.models.base import Recommender
from leporid.models.neural.closed_form_part import ClosedFormPart
from leporid.models.neural.cold_items import ColdItems
from leporid.models.neural.sampler import Sampling, recent_items
from leporid.models.neural.settings import TrainingConfig, resolve_device
from leporid.ranking import Indices, Scores, VectorsUnsupportedError

_USERS_AT_ONCE = 256
_NEIGHBOURS = 100
"""Fitted users whose rows give a new user's row."""
_NEWEST = 50
"""Items that give a user's content if the model reads none."""


class NetworkScoring(Recommender):
    """The part of a neural model that is used once its network is trained."""

    config_class: ClassVar[type[TrainingConfig]]
    config: TrainingConfig
    module: nn.Module | None = None
    """The network, once it is built."""
    cold_items: ColdItems | None = None
    """How items that training has not seen are scored."""
    closed_form: ClosedFormPart | None = None
    """What is added to the scores of the network, if anything."""
    _prepared: Tensor | None = None
    _new_users: TableExtension | None = None

    @abc.abstractmethod
    def sampling(self) -> Sampling:
        """Return what a batch holds, and with it how much of a history `scores` reads."""

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """Return [m, n_items]: higher is better.

        The method is called in evaluation mode without gradients.

        rows: [m, width] of the user table; None where there is none. recent: int64[m, length], the
        newest items of each user, padded as in training (-1 throughout for a user without
        history); None for models of pairs.
        """
        return torch.mm(self.encode(rows, recent), self.item_outputs().T)

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """Return [m, width]: `user_vectors`, traceable; arguments as in `scores`."""
        raise VectorsUnsupportedError(self.name)

    def item_outputs(self) -> Tensor:
        """Return [n_items, width], what the vectors of `encode` are multiplied with."""
        raise VectorsUnsupportedError(self.name)

    def user_table(self) -> Tensor | None:
        """Return float32[n_users, width], by default the rows of the network's table `users`."""
        users = dict(self.net.named_children()).get("users")
        return users.weight if isinstance(users, nn.Embedding) else None

    def prepare(self) -> Tensor:
        """Compute what scoring shares between calls (all item vectors, say)."""
        raise NotImplementedError(f"{self.name} prepares nothing")

    def prepared(self) -> Tensor:
        """Return the result of `prepare`, which is kept until weights change."""
        if self._prepared is None:
            self._prepared = self.prepare()
        return self._prepared

    def weights_changed(self) -> None:
        """Forget what was computed from the weights."""
        self._prepared = None
        self._new_users = None

    @property
    def net(self) -> Any:
        """The network of a fitted model, an `nn.Module`; models declare the class of theirs."""
        return self._if_fitted(self.module)

    @property
    def device(self) -> torch.device:
        parameter: Tensor = next(self.net.parameters())
        return parameter.device

    @property
    def device_name(self) -> str:
        """Name of the processor or accelerator that the model computes on."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return str(self.device)

    def to(self, device: str | torch.device) -> Self:
        """Move the model to another device."""
        self.net.to(resolve_device(device))
        if self.cold_items is not None:
            self.cold_items = self.cold_items.to(self.device)
        self.weights_changed()
        return self

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        return self.score_tensor(users, history).cpu().numpy()

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        scores = self.score_tensor(None, Sequences.from_rows(histories))
        return scores.cpu().numpy()

    def score_tensor(
        self,
        users: Indices | None,
        history: Sequences | None = None,
    ) -> Tensor:
        """Return `score` as a float32 tensor on the model's device.

        With `users=None` it scores new users, one for each row of `history`.
        """
        if users is None:
            sequence_rows = np.arange(len(history or ()), dtype=np.int32)
        else:
            users = self._check_users(users)
            sequence_rows = users
        with self._scoring():
            rows = self.user_rows(history, users)
            recent = self._recent(history, sequence_rows)
            scores = self.scores(rows, recent).float()
            if self.closed_form is not None:
                known = self.known.sequences() if history is None else history
                scores = self.closed_form.add(scores, known.take(sequence_rows))
            if self.cold_items is None:
                return scores
            return self.cold_items.adjust(scores, self.newest(history, sequence_rows))

    def user_rows(
        self,
        histories: Sequences | None,
        users: Indices | None,
    ) -> Tensor | None:
        """Return [m, width] of the user table; with `users=None` rows for these histories."""
        table = self.user_table()
        if table is None:
            return None
        if users is None:
            assert histories is not None
            return self.new_rows(histories)
        index = torch.from_numpy(users.astype(np.int64))
        return table[index.to(self.device)]

    def new_rows(self, histories: Sequences) -> Tensor:
        """Return float32[len(histories), width] on the table's device: means of similar users."""
        table = self.user_table()
        assert table is not None
        if self._new_users is None:
            fitted = table.detach().float().cpu().numpy()
            self._new_users = TableExtension(self.train.csr(), fitted, _NEIGHBOURS)
        rows = self._new_users.extend(histories.csr(self.train.n_items))
        return torch.from_numpy(rows).to(table.detach())

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """What products of the vectors rank; a closed-form part ranks what they retrieve."""
        return "everything" if self.closed_form is None else "first stage"

    def item_vectors(self) -> Scores:
        with self._scoring():
            vectors = self.item_outputs().float()
            if self.cold_items is not None and self.vectors_rank == "everything":
                vectors = self.cold_items.item_vectors(vectors)
            return vectors.cpu().numpy()

    def user_vectors(
        self,
        histories: Sequences,
        users: Indices | None = None,
    ) -> Scores:
        parts = []
        with self._scoring():
            for first in range(0, len(histories), _USERS_AT_ONCE):
                part = np.arange(first, min(first + _USERS_AT_ONCE, len(histories)))
                part_histories = histories.take(part)
                places = np.arange(len(part), dtype=np.int32)
                part_users = None if users is None else users[part]
                rows = self.user_rows(part_histories, part_users)
                newest = None
                if self.cold_items is not None:
                    newest = self.newest(part_histories, places)
                recent = self._recent(part_histories, places)
                vectors = self.encode_users(rows, recent, newest)
                parts.append(vectors.float().cpu())
        return torch.cat(parts).numpy()

    def encode_users(
        self,
        rows: Tensor | None,
        recent: Tensor | None,
        newest: Tensor | None,
    ) -> Tensor:
        """Return `encode`, with what the scores of cold items need.

        newest: int64[m, l], -1 for none.
        """
        vectors = self.encode(rows, recent)
        if self.cold_items is None or newest is None:
            return vectors
        if self.vectors_rank != "everything":
            return vectors
        return self.cold_items.user_vectors(vectors.float(), newest)

    def newest(self, sequences: Sequences | None, users: Indices) -> Tensor:
        """Return int64[m, l] on the model's device, the newest items as far as `scores` reads.

        A model that reads none gets the newest 50.
        """
        return self._newest(sequences, users, self.sampling().length or _NEWEST)

    def _recent(self, sequences: Sequences | None, users: Indices) -> Tensor | None:
        """Return what `scores` reads of the newest items; None for models that read none."""
        length = self.sampling().length
        return self._newest(sequences, users, length) if length else None

    def _newest(
        self,
        sequences: Sequences | None,
        users: Indices,
        length: int,
    ) -> Tensor:
        """Return the newest `length` items of `sequences`, by default of all that is known."""
        sampling = self.sampling()
        if sequences is None:
            sequences = self.known.sequences()
        repeat = sampling.kind == "windows" and sampling.repeat
        return recent_items(sequences, users, length, repeat).to(self.device)

    @contextlib.contextmanager
    def _scoring(self) -> Iterator[None]:
        """Switch to evaluation mode without gradients; training mode comes back afterwards."""
        was_training = self.net.training
        if was_training:  # to walk through all modules takes as long as a small network
            self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            if was_training:
                self.net.train()
