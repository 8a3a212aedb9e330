"""Cold items: how a model scores items that its training has not seen.

A row that was never a target of training is on no scale that compares with the others. So the score
of a cold item j for a user u is

    m + a (s_uj - m + c_j (<t_u, t_j> - t)),

s the score of the model and m its mean over warm items; t_j the content of the item, t_u the mean
content of the user's newest items and t the mean of the products. c_j gives content a quarter of
the spread that the scores have, and falls to zero with the interactions of the item. `a` gives
cold items their share of the first ten ranks of known users; where the smallest leaves them more,
all are lowered alike. No held-out target is read.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from leporid.data import Interactions, Sequences
from leporid.embeddings import principal_components
from leporid.errors import DataError
from leporid.foundation import chunk_rows
from leporid.models.fitted_arrays import Arrays
from leporid.models.neural.layers import with_constant
from leporid.ranking import Indices, masked_top_k

CONTENT_DIM = 128
CONTENT_WEIGHT = 0.25
"""Weight of content beside the model, both in units of their spread."""
_USERS = 500
"""Users on whose lists `a` is fitted."""
_RANKS = 10
"""Ranks of their lists on which `a` is fitted."""
_MAX_SHARE = 0.5
"""Largest share of the ranks that goes to cold items, however many they are."""
_SCALES = (0.1, 5.0)
"""Range of `a`."""
_HALVINGS = 20
"""Number of times the range of `a` is halved."""
_PREFIX = "cold_items."
"""Beginning of the names of the saved arrays."""


class UserScorer(Protocol):
    """A model that scores users, as in `NeuralRecommender`."""

    @property
    def known(self) -> Interactions: ...

    @property
    def device(self) -> torch.device: ...

    def score_tensor(
        self,
        users: Indices | None,
        history: Sequences | None = None,
    ) -> Tensor: ...

    def newest(self, sequences: Sequences | None, users: Indices) -> Tensor: ...


@dataclass(frozen=True)
class ColdItems:
    """The cold items of a model and the numbers of the formula above."""

    items: Tensor
    """int64[cold], ascending."""
    content: Tensor
    """float32[n_items, k]: unit rows, zero where nothing is known."""
    scale: Tensor
    """float32[1]: a."""
    weight: Tensor
    """float32[cold]: a c_j."""
    shift: Tensor
    """float32[cold]: what the means add."""

    def adjust(self, scores: Tensor, newest: Tensor) -> Tensor:
        """Adjust the scores [m, n_items] of cold items; newest: int64[m, l]."""
        user_content = _mean_content(self.content, newest)
        similarity = user_content @ self.content[self.items].T
        adjusted = (
            self.scale * scores[:, self.items] + self.weight * similarity + self.shift
        )
        return scores.index_copy(1, self.items, adjusted)

    def user_vectors(self, vectors: Tensor, newest: Tensor) -> Tensor:
        """Return [m, width + k + 1]: products with `item_vectors` rank as `adjust` does."""
        user_content = _mean_content(self.content, newest).to(vectors)
        return with_constant(torch.cat([vectors, user_content], dim=1))

    def item_vectors(self, vectors: Tensor) -> Tensor:
        """Return [n_items, width + k + 1], the vectors with the content of cold items."""
        width = vectors.shape[1]
        cold = self.items
        added = self.content.shape[1] + 1
        extended = functional.pad(vectors, (0, added))
        extended[cold, :width] *= self.scale
        extended[cold, width:-1] = self.weight[:, None] * self.content[cold]
        extended[cold, -1] = self.shift
        return extended

    def to(self, device: torch.device) -> Self:
        """Return the same numbers on another device."""
        tensors = self._tensors().values()
        return type(self)(*(tensor.to(device) for tensor in tensors))

    def among(self, rows: NDArray[np.int64], n_items: int) -> Self:
        """Renumber: item i becomes item rows[i] of `n_items`."""
        row = torch.from_numpy(rows).to(self.items.device)
        content = self.content.new_zeros(n_items, self.content.shape[1])
        content[row] = self.content
        return type(self)(
            row[self.items],
            content,
            self.scale,
            self.weight,
            self.shift,
        )

    def arrays(self) -> Arrays:
        """Return what a saved model keeps."""
        return {
            _PREFIX + name: tensor.cpu().numpy()
            for name, tensor in self._tensors().items()
        }

    def _tensors(self) -> dict[str, Tensor]:
        return vars(self)

    @classmethod
    def taken_from(cls, arrays: Arrays, n_items: int) -> Self | None:
        """Take out of `arrays` what `arrays()` gave; None if there is nothing."""
        if not any(key.startswith(_PREFIX) for key in arrays):
            return None
        stored = [arrays.pop(_PREFIX + field.name) for field in fields(cls)]
        items, content = stored[:2]
        n_cold = items.size
        width = content.size // max(n_items, 1)
        shapes = [(n_cold,), (n_items, width), (1,), (n_cold,), (n_cold,)]
        fits = [array.shape for array in stored] == shapes
        fits &= items.dtype == np.int64
        fits &= all(array.dtype == np.float32 for array in stored[1:])
        if not fits or not ((items >= 0) & (items < n_items)).all():
            raise DataError(f"its cold items do not go with {n_items:,} items")
        return cls(*(torch.tensor(array) for array in stored))


def content_vectors(features: sparse.csr_array) -> NDArray[np.float32]:
    """Return the principal components of the features, float32[n, k].

    Rows have length one; those without content are zero.
    """
    has_content = np.diff(features.indptr) > 0
    directions, lengths = principal_components(features[has_content], CONTENT_DIM)
    components = directions * lengths
    row_length = np.linalg.norm(components, axis=1, keepdims=True)
    shape = (len(has_content), components.shape[1])
    vectors = np.zeros(shape, np.float32)
    vectors[has_content] = components / np.maximum(row_length, 1e-12)
    return vectors


class _Sample(NamedTuple):
    """What a model says of a sample of users."""

    users: Indices
    cold_scores: Tensor
    """[m, cold]: scores of the cold items."""
    similarity: Tensor
    """[m, cold]: products of the contents of users and cold items."""
    warm_mean: float
    """Mean score of the warm items."""
    warm_best: NDArray[np.float32]
    """[m, 10]: scores of the first ranks among warm items."""


@torch.no_grad()
def fit_cold_items(
    model: UserScorer,
    items: NDArray[np.int64],
    content: NDArray[np.float32] | None = None,
    content_weight: NDArray[np.float64] | None = None,
    *,
    share: float,
) -> ColdItems:
    """Fit the numbers for the cold `items` of a model, so that they get `share` of the ranks.

    content: float32[n_items, k]; content_weight: float[cold], from 0 to 1. Without both the scores
    are the model's own, on the scale of the others.
    """
    known = model.known
    if content is None:
        content = np.zeros((known.n_items, 0), np.float32)
    if content_weight is None:
        content_weight = np.zeros(len(items))
    table = torch.from_numpy(content).to(model.device)
    cold = torch.from_numpy(items).to(model.device)
    sample = _score_sample(model, items, cold, table)
    mean = sample.warm_mean
    scores = sample.cold_scores
    similarity = sample.similarity

    weight = torch.from_numpy(content_weight).to(scores)
    weight = weight * CONTENT_WEIGHT * scores.std(correction=0)
    weight /= similarity.std(correction=0).clamp(min=1e-12)
    mixed = scores - mean + weight * (similarity - similarity.mean())
    interactions = known.csr()[sample.users][:, items]
    seen = torch.from_numpy(interactions.toarray() > 0).to(mixed.device)
    mixed = mixed.masked_fill(seen, -torch.inf)

    best = mixed.topk(min(_RANKS, len(items)), dim=1).values
    rivals = sample.warm_best - np.float32(mean)
    share = min(share, _MAX_SHARE)
    scale = _scale_for(share, best.cpu().numpy(), rivals)
    surplus = _surplus(share, (scale * best).cpu().numpy(), rivals)
    return ColdItems(
        items=cold,
        content=table,
        scale=torch.tensor([scale]).to(weight),
        weight=scale * weight,
        shift=mean - surplus - scale * (mean + weight * similarity.mean()),
    )


def _score_sample(
    model: UserScorer,
    items: NDArray[np.int64],
    cold: Tensor,
    content: Tensor,
) -> _Sample:
    """Score a sample of known users, some at a time; `cold` holds `items` on the device."""
    known = model.known
    everyone = np.unique(known.user)
    places = np.linspace(0, len(everyone) - 1, _USERS).astype(np.int64)
    users = everyone[np.unique(places)].astype(np.int32)
    histories = known.sequences()
    is_warm = np.ones(known.n_items, bool)
    is_warm[items] = False
    cold_scores = []
    similarity = []
    warm_best = []
    warm_total = 0.0
    size = chunk_rows(known.n_items)
    for begin in range(0, len(users), size):
        part = users[begin : begin + size]
        scores = model.score_tensor(part)
        cold_part = scores[:, cold]
        user_content = _mean_content(content, model.newest(histories, part))
        cold_scores.append(cold_part)
        similarity.append(user_content @ content[cold].T)
        warm_sum = scores.double().sum() - cold_part.double().sum()
        warm_total += float(warm_sum)
        best = masked_top_k(
            scores.cpu().numpy(),
            _RANKS,
            seen=histories.take(part),
            allowed=is_warm,
        )
        warm_best.append(best.scores)
    n_warm = max(int(is_warm.sum()), 1)
    return _Sample(
        users=users,
        cold_scores=torch.cat(cold_scores),
        similarity=torch.cat(similarity),
        warm_mean=warm_total / (len(users) * n_warm),
        warm_best=np.concatenate(warm_best),
    )


def _scale_for(
    share: float,
    cold: NDArray[np.float32],
    warm: NDArray[np.float32],
) -> float:
    """Return the factor at which cold items take `share` of the ranks of the warm ones.

    cold: [m, k], the best scores of cold items; warm: [m, 10], those of warm items. The i-th best
    cold item is shown once it is above the i-th last warm item.
    """
    rivals = warm[:, ::-1][:, : cold.shape[1]]
    low, high = np.log(_SCALES)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_shown = np.exp(middle) * cold > rivals
        if float(is_shown.sum()) / warm.size < share:
            low = middle
        else:
            high = middle
    return float(np.exp(low))


def _surplus(
    share: float,
    cold: NDArray[np.float32],
    warm: NDArray[np.float32],
) -> float:
    """Return how far the best cold scores lie too high for `share` if no scale is small enough."""
    rivals = warm[:, ::-1][:, : cold.shape[1]]
    contested = np.isfinite(cold) & np.isfinite(rivals)
    lead = np.sort(cold[contested] - rivals[contested])[::-1]
    count = int(share * warm.size)
    if count >= len(lead):
        return 0.0
    return max(float(lead[count]), 0.0)


def _mean_content(table: Tensor, newest: Tensor) -> Tensor:
    """Return float32[m, k], the mean over the items of int64[m, l] that have content.

    -1 is no item.
    """
    is_item = (newest >= 0).unsqueeze(-1)
    rows = table[newest.clamp(min=0)] * is_item
    has_content = (rows != 0).any(dim=-1)
    count = has_content.sum(dim=1, keepdim=True)
    return rows.sum(dim=1) / count.clamp(min=1)
