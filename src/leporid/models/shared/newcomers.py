"""`Newcomers`: how a grown model scores the items that its training has never seen.

A row that was never a target of training is on no scale that compares with the others. And what a
table says of an item does not fit into a row: a person's vector knows what people want next, not
which words their items share. So the score of a new item j for a person u is

    m + a (s_uj - m + c_j (<t_u, t_j> - t)),

s the score of the model and m its mean over old items; t_j the content of the item, t_u the mean
content of the person's newest items and t the mean of the products. c_j gives content a quarter of
the spread that the scores have, and falls to nothing with the interactions of the item. `a` gives
new items their share of the first ten places of people the model knows; where the smallest leaves
them more, all are lowered alike. Nothing is learnt from what these people wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.errors import DataError
from leporid.evaluation import chunk_rows, masked_top_k
from leporid.initializers import principal_components

if TYPE_CHECKING:
    from leporid.models.shared.neural import NeuralRecommender

_DIM = 128
"""Entries of a content vector."""
CONTENT_WEIGHT = 0.25
"""Of content beside the model, both in units of their spread."""
_PEOPLE, _PLACES = 500, 10
_MOST = 0.5
"""Of the places, at most this share goes to new items, however many they are."""
_SCALES, _HALVINGS = (0.1, 5.0), 20
"""What `a` may be, and how often the range is halved."""
_TINY = 1e-12
_PREFIX = "newcomers."


@dataclass(frozen=True)
class Newcomers:
    """The new items of a grown model and the numbers of the formula above."""

    items: Tensor
    """int64[new], ascending."""
    content: Tensor
    """float32[n_items, k]: unit rows, zero where nothing is known."""
    scale: Tensor
    """float32[1]: a."""
    weight: Tensor
    """float32[new]: a c_j."""
    shift: Tensor
    """float32[new]: what the means add."""

    def adjust(self, scores: Tensor, newest: Tensor) -> Tensor:
        """The model's scores [m, n_items] with those of new items as they should be.

        newest: int64[m, l], items of these people, -1 where there are none.
        """
        content = _mean_content(self.content, newest) @ self.content[self.items].T
        own = self.scale * scores[:, self.items] + self.weight * content + self.shift
        return scores.index_copy(1, self.items, own)

    def person_vectors(self, vectors: Tensor, newest: Tensor) -> Tensor:
        """[m, width + k + 1]: what products with `item_vectors` need to rank as `adjust` does."""
        wide = torch.cat([vectors, _mean_content(self.content, newest).to(vectors)], dim=1)
        return torch.nn.functional.pad(wide, (0, 1), value=1.0)

    def item_vectors(self, vectors: Tensor) -> Tensor:
        """[n_items, width + k + 1]."""
        width, new = vectors.shape[1], self.items
        wide = torch.nn.functional.pad(vectors, (0, self.content.shape[1] + 1))
        wide[new, :width] *= self.scale
        wide[new, width:-1] = self.weight[:, None] * self.content[new]
        wide[new, -1] = self.shift
        return wide

    def to(self, device: torch.device) -> Newcomers:
        """The same on another device."""
        return Newcomers(*(tensor.to(device) for tensor in vars(self).values()))

    def among(self, places: NDArray[np.int64], n_items: int) -> Newcomers:
        """The same where the item that was i is places[i] of `n_items`."""
        place = torch.from_numpy(places).to(self.items.device)
        content = self.content.new_zeros(n_items, self.content.shape[1])
        content[place] = self.content
        return Newcomers(place[self.items], content, self.scale, self.weight, self.shift)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved."""
        return {_PREFIX + name: tensor.cpu().numpy() for name, tensor in vars(self).items()}

    @classmethod
    def taken_from(cls, arrays: dict[str, NDArray[Any]], n_items: int) -> Newcomers | None:
        """Take out of `arrays` what `arrays()` gave; None where there is nothing."""
        names = [_PREFIX + name for name in cls.__annotations__]
        if not any(name in arrays for name in names):
            return None
        parts = [arrays.pop(name) for name in names]
        count, width = parts[0].size, parts[1].size // max(n_items, 1)
        shapes = [(count,), (n_items, width), (1,), (count,), (count,)]
        kinds = [np.dtype(np.int64), *[np.dtype(np.float32)] * 4]
        wanted = list(zip(shapes, kinds, strict=True))
        sound = [(part.shape, part.dtype) for part in parts] == wanted
        if not sound or not ((parts[0] >= 0) & (parts[0] < n_items)).all():
            raise DataError(f"its newcomers do not go with {n_items:,} items")
        return cls(*(torch.tensor(part) for part in parts))


def content_vectors(features: sparse.csr_array) -> NDArray[np.float32]:
    """float32[n, k]: principal components of the features as unit rows, zero without content."""
    known = np.diff(features.indptr) > 0
    directions, lengths = principal_components(features[known], _DIM)
    rows = directions * lengths
    vectors = np.zeros((len(known), rows.shape[1]), np.float32)
    vectors[known] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return vectors


@torch.no_grad()
def fit_newcomers(
    model: NeuralRecommender,
    items: NDArray[np.int64],
    content: NDArray[np.float32] | None = None,
    trust: NDArray[np.float64] | None = None,
    *,
    share: float,
) -> Newcomers:
    """The numbers for the new `items` of a grown model, so that they get `share` of the places.

    content: float32[n_items, k]; trust: float[new], what content counts for each of them, 0 to 1.
    Without both the scores are the model's own, on the scale of the others.
    """
    if content is None or trust is None:
        content, trust = np.zeros((model.known.n_items, 0), np.float32), np.zeros(len(items))
    known = np.unique(model.known.user)
    people = known[np.unique(np.linspace(0, len(known) - 1, _PEOPLE).astype(np.int64))]
    people, history = people.astype(np.int32), model.known.sequences()
    table, new = (torch.from_numpy(array).to(model.device) for array in (content, items))
    is_old = np.ones(model.known.n_items, bool)
    is_old[items] = False
    own, like, first, total = [], [], [], 0.0
    size = chunk_rows(model.known.n_items)
    for start in range(0, len(people), size):
        some = people[start : start + size]
        scores, seen = model.score_tensor(some), history.take(some)
        own.append(scores[:, new])
        like.append(_mean_content(table, model.newest(history, some)) @ table[new].T)
        total += float(scores.double().sum() - own[-1].double().sum())
        shown = masked_top_k(scores.cpu().numpy(), _PLACES, seen=seen, allowed=is_old)
        first.append(shown.scores)
    mean = total / (len(people) * max(int(is_old.sum()), 1))
    scores, products = torch.cat(own), torch.cat(like)
    weight = torch.from_numpy(trust).to(scores) * CONTENT_WEIGHT * scores.std(correction=0)
    weight /= products.std(correction=0).clamp(min=_TINY)
    mixed = scores - mean + weight * (products - products.mean())
    seen_new = torch.from_numpy(model.known.csr()[people][:, items].toarray() > 0)
    mixed = mixed.masked_fill(seen_new.to(mixed.device), -torch.inf)
    best = mixed.topk(min(_PLACES, len(items)), dim=1).values
    share, rivals = min(share, _MOST), np.concatenate(first) - np.float32(mean)
    scale = _scale_for(share, best.cpu().numpy(), rivals)
    surplus = _surplus(share, (scale * best).cpu().numpy(), rivals)
    shift = mean - surplus - scale * (mean + weight * products.mean())
    return Newcomers(new, table, torch.tensor([scale]).to(weight), scale * weight, shift)


def _scale_for(share: float, new: NDArray[np.float32], old: NDArray[np.float32]) -> float:
    """The factor on the best new scores [m, k] at which they take `share` of the old ones' places.

    The i-th best new item is shown once it is above the i-th last of the old items, float[m, 10].
    """
    rivals = old[:, ::-1][:, : new.shape[1]]
    low, high = np.log(_SCALES)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        taken = float((np.exp(middle) * new > rivals).sum()) / old.size
        low, high = (middle, high) if taken < share else (low, middle)
    return float(np.exp(low))


def _surplus(share: float, new: NDArray[np.float32], old: NDArray[np.float32]) -> float:
    """How far the best new scores lie too high for `share` where no scale is small enough."""
    rivals = old[:, ::-1][:, : new.shape[1]]
    contested = np.isfinite(new) & np.isfinite(rivals)
    above = np.sort(new[contested] - rivals[contested])[::-1]
    count = int(share * old.size)
    return max(float(above[count]), 0.0) if count < len(above) else 0.0


def _mean_content(table: Tensor, newest: Tensor) -> Tensor:
    """float32[m, k]: the mean over the items of int64[m, l] that have content; -1 is no item."""
    rows = table[newest.clamp(min=0)] * (newest >= 0).unsqueeze(-1)
    return rows.sum(dim=1) / (rows != 0).any(dim=-1).sum(dim=1, keepdim=True).clamp(min=1)
