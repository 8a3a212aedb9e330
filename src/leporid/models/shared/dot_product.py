"""`DotProduct`: neural models that rank by the product of a person's vector with an item's."""

from __future__ import annotations

import abc
from typing import cast

import numpy as np
import torch
from torch import Tensor

from leporid.data import Sequences
from leporid.models.shared.base import Indices, Scores
from leporid.models.shared.neural import NeuralRecommender

_PEOPLE_AT_ONCE = 256


class DotProduct(NeuralRecommender):
    """What such a model says of its vectors; indexes and databases outside then rank as it does."""

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """[m, width]: `person_vectors`, by default the rows themselves.

        rows: [m, D] of the user table, if the model has one. It must be traceable: nothing in it
        may depend on how many people there are.
        """
        return cast(Tensor, rows)

    @abc.abstractmethod
    def item_outputs(self) -> Tensor:
        """[n_items, width]: `item_vectors`."""

    def person_rows(self, histories: Sequences, users: Indices | None) -> Tensor | None:
        """[m, D]: what `encode` reads of the user table; None where there is no such table."""
        return None

    def item_vectors(self) -> Scores:
        """float32[n_items, width] on the CPU."""
        with self._scoring():
            vectors = self.item_outputs().float()
            if self.newcomers is not None and self.vectors_rank == "everything":
                vectors = self.newcomers.item_vectors(vectors)
            return cast(Scores, vectors.cpu().numpy())

    def person_vectors(self, histories: Sequences, users: Indices | None = None) -> Scores:
        """float32[len(histories), width] on the CPU."""
        parts = []
        with self._scoring():
            for start in range(0, len(histories), _PEOPLE_AT_ONCE):
                place = np.arange(start, min(start + _PEOPLE_AT_ONCE, len(histories)))
                some, people = histories.take(place), np.arange(len(place), dtype=np.int32)
                rows = self.person_rows(some, None if users is None else users[place])
                recent = self._recent(some, people)
                newest = None if self.newcomers is None else self.newest(some, people)
                parts.append(self.encode_people(rows, recent, newest).float().cpu())
        return cast(Scores, torch.cat(parts).numpy())

    def encode_people(
        self, rows: Tensor | None, recent: Tensor | None, newest: Tensor | None
    ) -> Tensor:
        """`encode`, with what the scores of new items need; newest: int64[m, l], -1 for none."""
        vectors = self.encode(rows, recent)
        if self.newcomers is None or newest is None or self.vectors_rank != "everything":
            return vectors
        return self.newcomers.person_vectors(vectors.float(), newest)


def with_constant(vectors: Tensor) -> Tensor:
    """A column of ones after the vectors: the last entry of an item's vector is then its bias."""
    return torch.nn.functional.pad(vectors, (0, 1), value=1.0)
