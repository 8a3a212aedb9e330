"""`dlr2`: Dual-Loss Residual Recommendation, the paper's own model (section 4).

The Feature Network turns a user's vector and the last l items into a state s. S(s, e_j) is the
distance of item j from the user's next item; G(s) is the vector of the next item. If S ranks, lists
come in two stages (`two_stages`).
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from leporid.data import Sequences, Split
from leporid.errors import warn
from leporid.models.context import FitContext
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.dlr2.config import DLR2Config
from leporid.models.neural.dlr2.network import DLR2Network
from leporid.models.neural.dlr2.recipes import GENERAL_BY_KIND, RECIPES
from leporid.models.neural.dlr2.two_stages import (
    Anchors,
    TwoStageRanking,
    mixed_scores,
)
from leporid.models.neural.layers import with_constant
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.softmax_loss import softmax_loss
from leporid.ranking import (
    Allowed,
    Indices,
    TopK,
    VectorsUnsupportedError,
    check_n,
    joined_lists,
)

_HARD_POOL = 8
"""Draws for each `hard` negative."""
_ANCHOR_USERS = 96
"""Users whose full scores the anchors are found from."""
CANDIDATES = 200
"""Items whose scores are computed rather than estimated."""
_WORTH_ANCHORS = 4 * _ANCHOR_USERS
"""Lists of fewer users come sooner from full scores."""
_STATES_AT_ONCE = 256
_USERS_AT_ONCE = 16
"""Users whose candidates are scored at a time: their hidden layers stay in a cache."""


class DLR2(NeuralRecommender):
    """Two losses, one state: see `DLR2Config` for every choice."""

    name = "dlr2"
    config_class = DLR2Config
    config: DLR2Config
    network_class = DLR2Network
    net: DLR2Network
    recipes = RECIPES
    general_by_kind = GENERAL_BY_KIND
    reads_history = True
    supports_cuda_graph = True
    _anchors: Anchors | None = None

    @property
    def network(self) -> DLR2Network:
        """The network of a fitted model."""
        return self.net

    @property
    def init_size(self) -> float:
        """One for the margins, which compare G's tanh with item vectors; a softmax wants less."""
        return 1.0 if self.config.objective == "margin" else super().init_size

    def sampling(self) -> Sampling:
        config = self.config
        pool = _HARD_POOL if config.negative_kind == "hard" else 1
        return Sampling(
            "windows",
            length=max(config.max_history, config.profile_items),
            negatives=config.negatives * pool,
            repeat=config.padding != "mask",
            circular=config.circular,
            shortest=config.max_history if config.padding == "none" else 1,
        )

    def new_rows(self, histories: Sequences) -> Tensor:
        """Return float32[len(histories), D]: rows of zeros, or means of similar users' rows."""
        kind = self.config.new_users
        if kind == "neighbours" or (kind == "auto" and self.config.user_dropout < 0.5):
            return super().new_rows(histories)
        return self.net.users.weight.new_zeros(len(histories), self.config.dim)

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        if self.config.objective == "margin" and self.config.margin == 0:
            warn(
                "margin=0 cannot teach S anything: a network that outputs 0 for every item "
                "has no loss (Eq. 10), and its ReLU reaches that at once; use margin=0.5",
                3,
            )
        if self.config.freeze_init:
            init = context.init
            is_random = init is None or init.items.provenance.get("method") == "random"
            steps = max(self.config.freeze_steps, 0) if is_random else -1
            self.config = self.config.replace(freeze_steps=steps)
        super()._fit(split, seed, context)

    def loss(self, batch: Batch) -> Tensor:
        """Return L_S + L_G, or one of them."""
        net = self.net
        config = self.config
        assert batch.history is not None
        s = net.state(net.users(batch.users), batch.history)
        trains_s = config.losses != "generative"
        trains_g = config.losses != "discriminative"
        g = None
        if trains_g or config.negative_kind == "hard":
            g = net.target(s)
        total = s.new_zeros((), dtype=torch.float32)
        if trains_g and g is not None and config.objective == "softmax":
            total = total + softmax_loss(
                g * net.log_temperature.exp(),
                net.items.weight,
                batch.positives,
                net.bias,
                config.label_smoothing,
            )
            if not trains_s:
                return total
        negatives = self._negatives(batch, g)
        items = torch.cat([batch.positives.unsqueeze(1), negatives], dim=1)
        candidates = net.items(items)
        if trains_s:
            total = total + self._discriminative_loss(s, candidates)
        if trains_g and g is not None and config.objective == "margin":
            total = total + hinge(g.float(), candidates, config.margin)
        return total

    def _discriminative_loss(self, s: Tensor, candidates: Tensor) -> Tensor:
        """Return L_S; candidates: [B, 1 + k, D], the positive first."""
        scored = self.net.discriminative(s, candidates).float()
        if self.config.objective == "margin":
            return square_square(scored, self.config)
        positive = torch.zeros(len(scored), dtype=torch.int64, device=scored.device)
        return functional.cross_entropy(scored, positive)

    @torch.no_grad()
    def _negatives(self, batch: Batch, g: Tensor | None) -> Tensor:
        """Return int64[B, negatives]; hard ones are those that G(s) ranks highest."""
        config = self.config
        drawn = batch.negatives
        if config.negative_kind == "uniform" or g is None:
            return drawn
        pool = self.net.items(drawn)
        g = g.float().unsqueeze(1)
        by_distance = config.objective == "margin"
        rank = -(pool - g).pow(2).mean(-1) if by_distance else (pool * g).sum(-1)
        hardest = rank.topk(config.negatives, dim=1).indices
        return drawn.gather(1, hardest)

    def prepare(self) -> Tensor:
        """Return float32[n_items, 256], the item half of S's first layer."""
        return self.net.discriminative.item_half(self.net.items.weight)

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        net = self.net
        branch = self.config.inference
        s = self._states(rows, recent)
        generated = None
        if branch != "discriminative":
            generated = net.generative_scores(net.target(s))
            if branch == "generative":
                return generated
        scored = net.discriminative.all_items(s, self.prepared())
        return mixed_scores(scored, generated, self.config)

    def weights_changed(self) -> None:
        super().weights_changed()
        self._anchors = None
        self.net.kept_size = None

    def anchors(self) -> Anchors:
        """Return the items whose scores determine those of all others."""
        if self._anchors is None:
            n_users = self.train.n_users
            places = np.linspace(0, n_users - 1, min(_ANCHOR_USERS, n_users))
            users = np.unique(places.astype(np.int32))
            index = torch.from_numpy(users.astype(np.int64)).to(self.device)
            with self._scoring():
                recent = self._recent(None, users)
                s = self._states(self.net.users(index), recent)
                scored = self.net.discriminative.all_items(s, self.prepared())
            self._anchors = Anchors.of(scored.float())
        return self._anchors

    def _states(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """Return s of all users, computed for some at a time."""
        assert rows is not None
        assert recent is not None
        row_parts = torch.split(rows, _STATES_AT_ONCE)
        recent_parts = torch.split(recent, _STATES_AT_ONCE)
        states = map(self.net.state, row_parts, recent_parts)
        return torch.cat(list(states))

    def _top_k(
        self,
        users: Indices,
        n: int,
        include_seen: bool | None,
        allowed: Allowed | None,
    ) -> TopK:
        if allowed is None and len(users) >= _WORTH_ANCHORS:
            excluded = self.known.excluded_items(self.shows(include_seen)).take(users)
            candidates = max(CANDIDATES, 2 * n)
            top = self.retrieve(
                users,
                n,
                candidates,
                excluded=excluded,
            )
            if top is not None:
                return top
        return super()._top_k(users, n, include_seen, allowed)

    def retrieve(
        self,
        users: Indices | None,
        n: int,
        candidates: int,
        *,
        histories: Sequences | None = None,
        excluded: Sequences,
    ) -> TopK | None:
        """Return the best `n` items; S of all but `candidates` is estimated from its anchors.

        None if G ranks alone, if something is added to the scores of the network, or if the
        candidates are all items.
        """
        check_n(n)
        if self.config.inference == "generative":
            return None
        if self.cold_items is not None or self.closed_form is not None:
            return None
        if not 0 < candidates < self.train.n_items:
            return None
        if histories is None:
            assert users is not None
            histories = self.known.sequences().take(users)
        places = np.arange(len(histories), dtype=np.int32)
        with self._scoring():
            rows = self.user_rows(histories, users)
            s = self._states(rows, self._recent(histories, places))
            return self.two_stages(s, n, candidates, excluded)

    def two_stages(
        self,
        s: Tensor,
        n: int,
        candidates: int,
        excluded: Sequences,
    ) -> TopK:
        """Compute `retrieve` for states s, some users at a time."""
        ranking = TwoStageRanking(
            config=self.config,
            network=self.net,
            item_halves=self.prepared(),
            anchors=self.anchors(),
        )
        parts = []
        for first in range(0, len(s), _USERS_AT_ONCE):
            part = np.arange(first, min(first + _USERS_AT_ONCE, len(s)))
            states = s[first : first + _USERS_AT_ONCE]
            parts.append(ranking.top_k(states, n, candidates, excluded.take(part)))
        return joined_lists(parts, n)

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """Return the vectors of users, whose products with `item_outputs` rank as G does.

        With a softmax they are G(s) times the temperature, and a 1 for the item's bias. With
        margins they are the user's part of the distance: G(s) times 2 / D, a 1, and minus the mean
        square of G(s).
        """
        self._check_dot_product()
        assert rows is not None
        assert recent is not None
        net = self.net
        g = net.target(net.state(rows, recent)).float()
        if self.config.objective == "softmax":
            return with_constant(g * net.log_temperature.exp())
        mean_square = g.square().mean(dim=1, keepdim=True)
        scaled = with_constant(g * (2 / self.config.dim))
        return torch.cat([scaled, -mean_square], dim=1)

    def item_outputs(self) -> Tensor:
        """Return e_j and its bias; with margins e_j, minus its mean square, and a 1."""
        self._check_dot_product()
        items = self.net.items.weight.float()
        if self.config.objective == "softmax":
            return torch.column_stack([items, self.net.bias])
        mean_square = items.square().mean(dim=1)
        return with_constant(torch.column_stack([items, -mean_square]))

    def _check_dot_product(self) -> None:
        """Refuse vectors if no product of vectors ranks as the model does."""
        config = self.config
        by_absolute_distance = (
            config.objective == "margin" and config.ranking_distance == "absolute"
        )
        if config.losses == "discriminative" or by_absolute_distance:
            raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """What products of the vectors rank: if S is read too, it ranks what G retrieves."""
        if self.config.inference != "generative":
            return "first stage"
        return super().vectors_rank


def square_square(scored: Tensor, config: DLR2Config) -> Tensor:
    """Return L_S (Eq. 10); scored [B, 1 + k]: S before its last ReLU, the positive first."""
    positive = scored[:, 0]
    negatives = scored[:, 1:]
    if config.last_relu:
        positive = positive.relu()
    if config.relu_on_negatives:
        negatives = negatives.relu()
    far = (config.margin - negatives).relu().square().mean(dim=1)
    return (positive.square() + far).mean()


def hinge(
    g: Tensor,
    candidates: Tensor,
    margin: float,
) -> Tensor:
    """Return L_G (Eq. 11) with the mean squared difference; g [B, D], candidates [B, 1 + k, D]."""
    difference = g.unsqueeze(1) - candidates
    distance = difference.square().mean(dim=-1)
    violation = distance[:, :1] - distance[:, 1:] + margin
    return violation.relu().mean()
