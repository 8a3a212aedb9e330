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

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.embeddings import principal_components
from leporid.errors import DataError
from leporid.ranking import chunk_rows, masked_top_k

CONTENT_DIM = 128
CONTENT_WEIGHT = 0.25
"""Of content beside the model, both in units of their spread."""
_USERS, _RANKS = 500, 10
"""Users, and ranks of their lists, on which `a` is fitted."""
_MAX_SHARE = 0.5
"""Of the ranks, at most this share goes to cold items, however many they are."""
_SCALES, _HALVINGS = (0.1, 5.0), 20
"""What `a` may be, and how often the range is halved."""
_PREFIX = "cold_items."
"""Of the saved arrays."""


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
        """Scores [m, n_items] with those of cold items adjusted; newest: int64[m, l]."""
        content = _mean_content(self.content, newest) @ self.content[self.items].T
        own = self.scale * scores[:, self.items] + self.weight * content + self.shift
        return scores.index_copy(1, self.items, own)

    def user_vectors(self, vectors: Tensor, newest: Tensor) -> Tensor:
        """[m, width + k + 1]: what products with `item_vectors` need to rank as `adjust` does."""
        wide = torch.cat(
            [vectors, _mean_content(self.content, newest).to(vectors)], dim=1
        )
        return torch.nn.functional.pad(wide, (0, 1), value=1.0)

    def item_vectors(self, vectors: Tensor) -> Tensor:
        """[n_items, width + k + 1]."""
        width, cold = vectors.shape[1], self.items
        wide = torch.nn.functional.pad(vectors, (0, self.content.shape[1] + 1))
        wide[cold, :width] *= self.scale
        wide[cold, width:-1] = self.weight[:, None] * self.content[cold]
        wide[cold, -1] = self.shift
        return wide

    def to(self, device: torch.device) -> Self:
        return type(self)(*(tensor.to(device) for tensor in vars(self).values()))

    def among(self, rows: NDArray[np.int64], n_items: int) -> Self:
        """The same where the item that was i is rows[i] of `n_items`."""
        row = torch.from_numpy(rows).to(self.items.device)
        content = self.content.new_zeros(n_items, self.content.shape[1])
        content[row] = self.content
        return type(self)(row[self.items], content, self.scale, self.weight, self.shift)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            _PREFIX + name: tensor.cpu().numpy() for name, tensor in vars(self).items()
        }

    @classmethod
    def taken_from(cls, arrays: dict[str, NDArray[Any]], n_items: int) -> Self | None:
        """Take out of `arrays` what `arrays()` gave; None where there is nothing."""
        if not any(key.startswith(_PREFIX) for key in arrays):
            return None
        parts = [arrays.pop(_PREFIX + name) for name in cls.__annotations__]
        count, width = parts[0].size, parts[1].size // max(n_items, 1)
        shapes = [(count,), (n_items, width), (1,), (count,), (count,)]
        kinds = [np.dtype(np.int64), *[np.dtype(np.float32)] * 4]
        expected = list(zip(shapes, kinds, strict=True))
        sound = [(part.shape, part.dtype) for part in parts] == expected
        if not sound or not ((parts[0] >= 0) & (parts[0] < n_items)).all():
            raise DataError(f"its cold items do not go with {n_items:,} items")
        return cls(*(torch.tensor(part) for part in parts))


def content_vectors(features: sparse.csr_array) -> NDArray[np.float32]:
    """float32[n, k]: principal components of the features as unit rows, zero without content."""
    known = np.diff(features.indptr) > 0
    directions, lengths = principal_components(features[known], CONTENT_DIM)
    rows = directions * lengths
    vectors = np.zeros((len(known), rows.shape[1]), np.float32)
    vectors[known] = rows / np.maximum(
        np.linalg.norm(rows, axis=1, keepdims=True), 1e-12
    )
    return vectors


@torch.no_grad()
def fit_cold_items(
    model: Any,
    items: NDArray[np.int64],
    content: NDArray[np.float32] | None = None,
    content_weight: NDArray[np.float64] | None = None,
    *,
    share: float,
) -> ColdItems:
    """The numbers for the cold `items` of a neural model, so that they get `share` of the ranks.

    content: float32[n_items, k]; content_weight: float[cold], from 0 to 1. Without both the scores
    are the model's own, on the scale of the others.
    """
    if content is None:
        content = np.zeros((model.known.n_items, 0), np.float32)
    if content_weight is None:
        content_weight = np.zeros(len(items))
    known = np.unique(model.known.user)
    users = known[np.unique(np.linspace(0, len(known) - 1, _USERS).astype(np.int64))]
    users, history = users.astype(np.int32), model.known.sequences()
    table, cold = (
        torch.from_numpy(array).to(model.device) for array in (content, items)
    )
    is_warm = np.ones(model.known.n_items, bool)
    is_warm[items] = False
    own, like, first, total = [], [], [], 0.0
    size = chunk_rows(model.known.n_items)
    for begin in range(0, len(users), size):
        some = users[begin : begin + size]
        scores, seen = model.score_tensor(some), history.take(some)
        own.append(scores[:, cold])
        like.append(_mean_content(table, model.newest(history, some)) @ table[cold].T)
        total += float(scores.double().sum() - own[-1].double().sum())
        shown = masked_top_k(scores.cpu().numpy(), _RANKS, seen=seen, allowed=is_warm)
        first.append(shown.scores)
    mean = total / (len(users) * max(int(is_warm.sum()), 1))
    scores, products = torch.cat(own), torch.cat(like)
    weight = (
        torch.from_numpy(content_weight).to(scores)
        * CONTENT_WEIGHT
        * scores.std(correction=0)
    )
    weight /= products.std(correction=0).clamp(min=1e-12)
    mixed = scores - mean + weight * (products - products.mean())
    seen_cold = torch.from_numpy(model.known.csr()[users][:, items].toarray() > 0)
    mixed = mixed.masked_fill(seen_cold.to(mixed.device), -torch.inf)
    best = mixed.topk(min(_RANKS, len(items)), dim=1).values
    share, rivals = min(share, _MAX_SHARE), np.concatenate(first) - np.float32(mean)
    scale = _scale_for(share, best.cpu().numpy(), rivals)
    surplus = _surplus(share, (scale * best).cpu().numpy(), rivals)
    shift = mean - surplus - scale * (mean + weight * products.mean())
    return ColdItems(
        cold, table, torch.tensor([scale]).to(weight), scale * weight, shift
    )


def _scale_for(
    share: float, cold: NDArray[np.float32], warm: NDArray[np.float32]
) -> float:
    """The factor at which the best cold scores [m, k] take `share` of the warm ones' ranks [m, 10].

    The i-th best cold item is shown once it is above the i-th last warm item.
    """
    rivals = warm[:, ::-1][:, : cold.shape[1]]
    low, high = np.log(_SCALES)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        taken = float((np.exp(middle) * cold > rivals).sum()) / warm.size
        low, high = (middle, high) if taken < share else (low, middle)
    return float(np.exp(low))


def _surplus(
    share: float, cold: NDArray[np.float32], warm: NDArray[np.float32]
) -> float:
    """How far the best cold scores lie too high for `share` where no scale is small enough."""
    rivals = warm[:, ::-1][:, : cold.shape[1]]
    contested = np.isfinite(cold) & np.isfinite(rivals)
    above = np.sort(cold[contested] - rivals[contested])[::-1]
    count = int(share * warm.size)
    return max(float(above[count]), 0.0) if count < len(above) else 0.0


def _mean_content(table: Tensor, newest: Tensor) -> Tensor:
    """float32[m, k]: the mean over the items of int64[m, l] that have content; -1 is no item."""
    rows = table[newest.clamp(min=0)] * (newest >= 0).unsqueeze(-1)
    return rows.sum(dim=1) / (rows != 0).any(dim=-1).sum(dim=1, keepdim=True).clamp(
        min=1
    )
