"""Two-stage lists of DLR2: the scores of S are estimated first, and computed for the best items.

S of all users and items is nearly a matrix of low rank: the scores of some users show which items
(the anchors) determine a row, and how the other entries follow from them. The best of these
estimates get their score. After

    Yadav et al.: Efficient Nearest Neighbor Search for Cross-Encoder Models using Matrix
    Factorization. EMNLP 2022.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg
from torch import Tensor

from leporid.data import Sequences
from leporid.models.neural.dlr2.config import DLR2Config
from leporid.models.neural.dlr2.network import DLR2Network
from leporid.ranking import TopK, masked_top_k

_ANCHORS = 32


class Anchors(NamedTuple):
    """Items whose scores determine those of all others, nearly."""

    items: Tensor
    """int64[a]"""
    mean: Tensor
    """float32[n_items]: mean score of each item."""
    weights: Tensor
    """float32[a, n_items]: what an anchor's distance from its mean adds to each item."""

    @classmethod
    def of(cls, scores: Tensor, count: int = _ANCHORS) -> Self:
        """Find the anchors from the scores of some users, float[users, n_items]."""
        rows = scores.double().cpu().numpy()
        mean = rows.mean(axis=0)
        _, sizes, directions = linalg.svd(rows - mean, full_matrices=False)
        basis = (sizes[:, None] * directions)[:count]
        # Column pivoting takes the item that those taken so far say least about.
        _, order = linalg.qr(basis, mode="r", pivoting=True)
        items = np.sort(order[: len(basis)])
        weights = linalg.pinv(basis[:, items], rtol=1e-6) @ basis
        return cls(
            items=torch.from_numpy(items).to(scores.device),
            mean=torch.from_numpy(mean).float().to(scores.device),
            weights=torch.from_numpy(weights).float().to(scores.device),
        )

    def estimate(self, scores: Tensor) -> Tensor:
        """Estimate float32[m, n_items] from the scores of the anchors, float32[m, a]."""
        distance = scores - self.mean[self.items]
        return torch.addmm(self.mean, distance, self.weights)


def mixed_scores(
    scored: Tensor,
    generated: Tensor | None,
    config: DLR2Config,
) -> Tensor:
    """Return what S ranks by, or its mixture with the scores of G if these are given."""
    # With margins S is a distance; its value before the last ReLU ranks without ties.
    scored = -scored if config.objective == "margin" else scored
    if generated is None:
        return scored
    return config.mixture * scored + (1 - config.mixture) * generated


@dataclass(frozen=True)
class TwoStageRanking:
    """Ranks items by S (or a mixture with G), which is computed for the candidates alone."""

    config: DLR2Config
    network: DLR2Network
    item_halves: Tensor
    """float32[n_items, 256]: the item half of S's first layer."""
    anchors: Anchors

    def top_k(
        self,
        s: Tensor,
        n: int,
        candidates: int,
        excluded: Sequences,
    ) -> TopK:
        """Return the best `n` items for each state, best first.

        If the estimates of the candidates are so far off that an item left out may belong among
        the `n`, all items are scored.
        """
        generated = self._generated(s)
        estimates = self._estimates(s, generated)
        best = masked_top_k(estimates.cpu().numpy(), candidates, seen=excluded)
        # Equal scores go to the smaller index, as in a full ranking.
        by_index = np.sort(best.items, axis=1)
        index = torch.from_numpy(by_index.astype(np.int64)).to(s.device)
        is_missing = index < 0
        item = index.clamp(min=0)
        scores = self._scores(s, item, generated)
        errors = scores - estimates.gather(1, item)
        largest_error = errors.masked_fill(is_missing, 0.0).abs().amax(dim=1)
        scores = scores.masked_fill(is_missing, -torch.inf)
        ranked, order = scores.sort(dim=1, descending=True, stable=True)
        top = _padded(index.gather(1, order), ranked, n)

        # An item that was left out has at most the last candidate's estimate.
        highest_left_out = best.scores[:, -1] + largest_error.cpu().numpy()
        last_score = ranked[:, :n][:, -1].cpu().numpy()
        unsure = np.flatnonzero(highest_left_out > last_score)
        if n <= candidates and len(unsure):
            full = self._full_ranking(
                s,
                n,
                excluded,
                unsure,
                generated,
            )
            top.items[unsure] = full.items
            top.scores[unsure] = full.scores
        return top

    def _generated(self, s: Tensor) -> Tensor | None:
        """Return the scores of G if the mixture needs them."""
        if self.config.inference != "mixture":
            return None
        return self.network.generative_scores(self.network.target(s)).float()

    def _estimates(self, s: Tensor, generated: Tensor | None) -> Tensor:
        anchor_halves = self.item_halves[self.anchors.items].unsqueeze(0)
        scored = self.network.discriminative.some_items(s, anchor_halves).float()
        return mixed_scores(self.anchors.estimate(scored), generated, self.config)

    def _scores(
        self,
        s: Tensor,
        items: Tensor,
        generated: Tensor | None,
    ) -> Tensor:
        """Return the scores of some items for each state, int64[m, k] -> float32[m, k]."""
        halves = self.item_halves[items]
        scored = self.network.discriminative.some_items(s, halves).float()
        if generated is not None:
            generated = generated.gather(1, items)
        return mixed_scores(scored, generated, self.config)

    def _full_ranking(
        self,
        s: Tensor,
        n: int,
        excluded: Sequences,
        states: NDArray[np.int64],
        generated: Tensor | None,
    ) -> TopK:
        """Score all items for some of the states."""
        rows = torch.from_numpy(states).to(s.device)
        scored = self.network.discriminative.all_items(s[rows], self.item_halves)
        if generated is not None:
            generated = generated[rows]
        scores = mixed_scores(scored.float(), generated, self.config)
        return masked_top_k(scores.cpu().numpy(), n, seen=excluded.take(states))


def _padded(
    items: Tensor,
    scores: Tensor,
    n: int,
) -> TopK:
    """Return the first `n` columns as lists; -1 and -inf where there are fewer."""
    items = items[:, :n].to(torch.int32)
    scores = scores[:, :n]
    missing = ((0, 0), (0, n - items.shape[1]))
    return TopK(
        np.pad(items.cpu().numpy(), missing, constant_values=-1),
        np.pad(scores.cpu().numpy(), missing, constant_values=-np.inf),
    )
