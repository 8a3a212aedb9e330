"""Two stages: S of a few items tells what S of the others is, and the best of them are scored.

S of all users and items is nearly a matrix of low rank. The scores of some users show which items
(the anchors) determine a row, and how the rest of it follows from them. After

    Yadav et al.: Efficient Nearest Neighbor Search for Cross-Encoder Models using Matrix
    Factorization. EMNLP 2022.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import torch
from scipy import linalg
from torch import Tensor

from leporid.data import Sequences
from leporid.evaluation import TopK, masked_top_k
from leporid.models.dlr2.config import DLR2Config
from leporid.models.dlr2.network import DLR2Network
from leporid.models.shared.lists import Allowed, Indices, check_n
from leporid.models.shared.neural_kinds import UserTableRecommender

ANCHORS = 32
USERS = 96
"""Users whose full scores the anchors are found from."""
CANDIDATES = 200
_WORTH_ANCHORS = 4 * USERS
"""Lists of fewer users come sooner from full scores."""
_STATES_AT_ONCE = 256
_USERS_AT_ONCE = 16
"""Users whose candidates are scored at a time: their hidden layers stay in a cache."""


class Anchors(NamedTuple):
    """Items whose scores determine those of all others, nearly."""

    items: Tensor
    """int64[a]"""
    mean: Tensor
    """float32[n_items]: mean score of each item."""
    weights: Tensor
    """float32[a, n_items]: what an anchor's distance from its mean adds to each item."""

    @classmethod
    def of(cls, scores: Tensor, count: int = ANCHORS) -> Anchors:
        """From the scores of some users, float[users, n_items]."""
        rows = scores.double().cpu().numpy()
        mean = rows.mean(axis=0)
        _, sizes, directions = linalg.svd(rows - mean, full_matrices=False)
        basis = (sizes[:, None] * directions)[:count]
        # Column pivoting takes the item that those taken so far say least about.
        _, order = linalg.qr(basis, mode="r", pivoting=True)
        items = np.sort(order[: len(basis)])
        weights = linalg.pinv(basis[:, items], rtol=1e-6) @ basis
        kept = torch.from_numpy(mean).float(), torch.from_numpy(weights).float()
        return cls(*(tensor.to(scores.device) for tensor in (torch.from_numpy(items), *kept)))

    def estimate(self, scores: Tensor) -> Tensor:
        """float32[m, n_items] from the scores of the anchors, float32[m, a]."""
        return torch.addmm(self.mean, scores - self.mean[self.items], self.weights)


class TwoStages(UserTableRecommender):
    """What DLR2 adds to a recommender where S ranks."""

    config: DLR2Config
    _anchors: Anchors | None = None

    @property
    def network(self) -> DLR2Network:
        return cast(DLR2Network, self.net)

    def weights_changed(self) -> None:
        super().weights_changed()
        self._anchors = None

    def anchors(self) -> Anchors:
        if self._anchors is None:
            n_users = self.train.n_users
            users = np.unique(np.linspace(0, n_users - 1, min(USERS, n_users)).astype(np.int32))
            index = torch.from_numpy(users.astype(np.int64)).to(self.device)
            with self._scoring():
                s = self._states(self.user_table()[index], self._recent(None, users))
                scored = self.network.discriminative.all_items(s, self.prepared())
            self._anchors = Anchors.of(scored.float())
        return self._anchors

    def _mixed(self, scored: Tensor, generated: Tensor | None) -> Tensor:
        """What S says, or with G's scores the mixture of both."""
        config = self.config
        # With margins S is a distance; its value before the last ReLU ranks without ties.
        scored = -scored if config.objective == "margin" else scored
        if generated is None:
            return scored
        return config.mixture * scored + (1 - config.mixture) * generated

    def _states(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        """s of all users, some at a time."""
        assert recent is not None
        parts = torch.split(rows, _STATES_AT_ONCE), torch.split(recent, _STATES_AT_ONCE)
        return torch.cat([self.network.state(*part) for part in zip(*parts, strict=True)])

    def _top_k(self, users: Indices, n: int, exclude_seen: bool, allowed: Allowed) -> TopK:
        if allowed is None and len(users) >= _WORTH_ANCHORS:
            known = self.known.sequences().take(users)
            hidden = known if exclude_seen else Sequences.from_rows([known.of(0)[:0]] * len(users))
            top = self.retrieve(users, n, max(CANDIDATES, 2 * n), hidden=hidden)
            if top is not None:
                return top
        return super()._top_k(users, n, exclude_seen, allowed)

    def retrieve(
        self,
        users: Indices | None,
        n: int,
        candidates: int,
        *,
        histories: Sequences | None = None,
        hidden: Sequences,
    ) -> TopK | None:
        by_s = self.config.inference != "generative" and self.cold_items is None
        if not by_s or not 0 < candidates < self.train.n_items:
            return None
        return self.two_stage(users, n, candidates, histories=histories, hidden=hidden)

    def two_stage(
        self,
        users: Indices | None,
        n: int = 10,
        candidates: int = CANDIDATES,
        *,
        histories: Sequences | None = None,
        hidden: Sequences | None = None,
    ) -> TopK:
        """The best `n` items: of all but `candidates`, S is only estimated from its anchors.

        Where the estimates of the candidates are so far off that an item left out may belong among
        the `n`, all items are scored. With `users=None` the `histories` are those of new users.
        `hidden` has one row per user: items not to retrieve, by default the history.
        """
        if histories is None:
            histories = self.known.sequences().take(cast(Indices, users))
        hidden = histories if hidden is None else hidden
        rows = np.arange(len(histories), dtype=np.int32)
        if self.cold_items is not None:  # S alone does not rank
            new = [histories.of(row) for row in range(len(histories))]
            scores = self.score_histories(new) if users is None else self.score(users)
            return masked_top_k(scores, n, seen=hidden)
        with self._scoring():
            s = self._states(self.user_rows(histories, users), self._recent(histories, rows))
            return self._two_stage(s, n, candidates, hidden)

    def _two_stage(self, s: Tensor, n: int, candidates: int, hidden: Sequences) -> TopK:
        check_n(n)
        items, values = [np.empty((0, n), np.int32)], [np.empty((0, n), np.float32)]
        for first in range(0, len(s), _USERS_AT_ONCE):
            part = np.arange(first, min(first + _USERS_AT_ONCE, len(s)))
            top = self._some_lists(s[part[0] : part[-1] + 1], n, candidates, hidden.take(part))
            items.append(top.items)
            values.append(top.scores)
        return TopK(np.concatenate(items), np.concatenate(values))

    def _some_lists(self, s: Tensor, n: int, candidates: int, hidden: Sequences) -> TopK:
        net, branch = self.network, self.config.inference
        generated = None
        if branch != "discriminative":
            generated = net.generative_scores(net.target(s)).float()
            if branch == "generative":
                return masked_top_k(generated.cpu().numpy(), n, seen=hidden)
        head, halves, anchors = net.discriminative, self.prepared(), self.anchors()
        scored = head.some_items(s, halves[anchors.items].unsqueeze(0)).float()
        estimates = self._mixed(anchors.estimate(scored), generated)
        count = min(candidates, self.train.n_items)
        kept = masked_top_k(estimates.cpu().numpy(), count, seen=hidden)
        # Equal scores go to the smaller index, as in a full ranking.
        index = torch.from_numpy(np.sort(kept.items, axis=1).astype(np.int64)).to(self.device)
        known, missing = index.clamp(min=0), index < 0
        scored = head.some_items(s, halves[known]).float()
        scores = self._mixed(scored, None if generated is None else generated.gather(1, known))
        off = (scores - estimates.gather(1, known)).masked_fill(missing, 0.0).abs().amax(dim=1)
        scores = scores.masked_fill(missing, -torch.inf)
        value, order = scores.sort(dim=1, descending=True, stable=True)
        items = index.gather(1, order)[:, :n].to(torch.int32).cpu().numpy()
        value = value[:, :n]
        short = ((0, 0), (0, n - items.shape[1]))
        top = TopK(
            np.pad(items, short, constant_values=-1),
            np.pad(value.cpu().numpy(), short, constant_values=-np.inf),
        )
        # An item that was left out has at most the last candidate's estimate.
        left_out = kept.scores[:, -1] + off.cpu().numpy() > value[:, -1].cpu().numpy()
        unsure = np.flatnonzero(left_out & (count < self.train.n_items))
        if n <= count and len(unsure):
            rows = torch.from_numpy(unsure).to(self.device)
            full = head.all_items(s[rows], halves).float()
            full = self._mixed(full, None if generated is None else generated[rows])
            again = masked_top_k(full.cpu().numpy(), n, seen=hidden.take(unsure))
            top.items[unsure], top.scores[unsure] = again.items, again.scores
        return top
