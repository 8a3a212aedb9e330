"""`dlr2`: Dual-Loss Residual Recommendation, the paper's own model (section 4).

The Feature Network turns a user's vector and the last l items into a state s. S(s, e_j) is the
distance of item j from the user's next item; G(s) is the vector of the next item.

Where S ranks, lists come in two stages. S of all users and items is nearly a matrix of low rank:
the scores of some users show which items (the anchors) determine a row, and how the rest of it
follows from them. The best of these estimates get their score. After

    Yadav et al.: Efficient Nearest Neighbor Search for Cross-Encoder Models using Matrix
    Factorization. EMNLP 2022.
"""

from typing import ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import torch
from scipy import linalg
from torch import Tensor
from torch.nn import functional

from leporid.data import Sequences, Split
from leporid.errors import warn
from leporid.models.context import FitContext
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.dlr2.network import DLR2Config, DLR2Network
from leporid.models.neural.dlr2.recipes import GENERAL_BY_KIND, RECIPES
from leporid.models.neural.layers import softmax_loss, with_constant
from leporid.models.neural.sampler import Batch, Sampling
from leporid.ranking import (
    Allowed,
    Indices,
    TopK,
    VectorsUnsupportedError,
    check_n,
    joined_lists,
    masked_top_k,
)

_HARD_POOL = 8
"""Draws for each `hard` negative."""
_ANCHORS = 32
_ANCHOR_USERS = 96
"""Users whose full scores the anchors are found from."""
CANDIDATES = 200
_WORTH_ANCHORS = 4 * _ANCHOR_USERS
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
    def of(cls, scores: Tensor, count: int = _ANCHORS) -> Self:
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
        return cls(
            *(tensor.to(scores.device) for tensor in (torch.from_numpy(items), *kept))
        )

    def estimate(self, scores: Tensor) -> Tensor:
        """float32[m, n_items] from the scores of the anchors, float32[m, a]."""
        return torch.addmm(self.mean, scores - self.mean[self.items], self.weights)


class DLR2(NeuralRecommender):
    """Two losses, one state: see `DLR2Config` for every choice."""

    name = "dlr2"
    config_class = DLR2Config
    config: DLR2Config
    network_class = DLR2Network
    recipes = RECIPES
    general_by_kind = GENERAL_BY_KIND
    reads_history = True
    recordable: ClassVar[bool] = True
    _anchors: Anchors | None = None

    @property
    def network(self) -> DLR2Network:
        return cast(DLR2Network, self.net)

    @property
    def init_size(self) -> float:
        """One for the margins, which compare G's tanh with item vectors; a softmax wants less."""
        return 1.0 if self.config.objective == "margin" else super().init_size

    def sampling(self) -> Sampling:
        config = self.config
        pool = _HARD_POOL if config.negative_kind == "hard" else 1
        return Sampling(
            "windows",
            length=max(config.length, config.profile),
            negatives=config.negatives * pool,
            repeat=config.padding != "blank",
            circular=config.circular,
            shortest=config.length if config.padding == "none" else 1,
        )

    def new_rows(self, histories: Sequences) -> Tensor:
        """float32[len(histories), D]: blank rows, or rows among those of similar users."""
        kind = self.config.new_users
        if kind == "placed" or (kind == "auto" and self.config.user_dropout < 0.5):
            return super().new_rows(histories)
        return self.network.users.weight.new_zeros(len(histories), self.config.dim)

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        if self.config.objective == "margin" and self.config.margin == 0:
            warn(
                "margin=0 cannot teach S anything: a network that outputs 0 for every item "
                "has no loss (Eq. 10), and its ReLU reaches that at once; use margin=0.5",
                3,
            )
        if self.config.freeze_init:
            init = context.init
            given = init is not None and init.items.provenance.get("method") != "random"
            steps = -1 if given else max(self.config.freeze_steps, 0)
            self.config = self.config.replace(freeze_steps=steps)
        super()._fit(split, seed, context)

    def loss(self, batch: Batch) -> Tensor:
        net, config = self.network, self.config
        assert batch.history is not None
        s = net.state(net.users(batch.users), batch.history)
        by_g = config.losses != "discriminative"
        g = net.target(s) if by_g or config.negative_kind == "hard" else None
        softmax, total = (
            config.objective == "softmax",
            s.new_zeros((), dtype=torch.float32),
        )
        if by_g and g is not None and softmax:
            hot, smoothing = g * net.log_temperature.exp(), config.label_smoothing
            total = total + softmax_loss(
                hot, net.items.weight, batch.positives, net.bias, smoothing
            )
            if config.losses == "generative":
                return total
        items = torch.cat(
            [batch.positives.unsqueeze(1), self._negatives(batch, g)], dim=1
        )
        candidates = net.items(items)
        if config.losses != "generative":
            total = total + self._discriminative_loss(s, candidates)
        if by_g and g is not None and not softmax:
            total = total + hinge(g.float(), candidates, config.margin)
        return total

    def _discriminative_loss(self, s: Tensor, candidates: Tensor) -> Tensor:
        """L_S; candidates: [B, 1 + k, D], the positive first."""
        scored = self.network.discriminative(s, candidates).float()
        if self.config.objective == "margin":
            return square_square(scored, self.config)
        first = torch.zeros(len(scored), dtype=torch.int64, device=scored.device)
        return functional.cross_entropy(scored, first)

    @torch.no_grad()
    def _negatives(self, batch: Batch, g: Tensor | None) -> Tensor:
        """int64[B, negatives]; G(s) is needed where they are those it ranks highest."""
        config, drawn = self.config, batch.negatives
        if config.negative_kind == "uniform" or g is None:
            return drawn
        pool, g = self.network.items(drawn), g.float().unsqueeze(1)
        margin = config.objective == "margin"
        near = -(pool - g).pow(2).mean(-1) if margin else (pool * g).sum(-1)
        return drawn.gather(1, near.topk(config.negatives, dim=1).indices)

    def prepare(self) -> Tensor:
        """float32[n_items, 256]: the item half of S's first layer."""
        return self.network.discriminative.item_half(self.network.items.weight)

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        net, branch, s = self.network, self.config.inference, self._states(rows, recent)
        generated = (
            None if branch == "discriminative" else net.generative_scores(net.target(s))
        )
        if branch == "generative" and generated is not None:
            return generated
        return self._mixed(net.discriminative.all_items(s, self.prepared()), generated)

    def weights_changed(self) -> None:
        super().weights_changed()
        self._anchors = self.network.kept_size = None

    def anchors(self) -> Anchors:
        if self._anchors is None:
            n_users = self.train.n_users
            rows = np.linspace(0, n_users - 1, min(_ANCHOR_USERS, n_users)).astype(
                np.int32
            )
            users = np.unique(rows)
            index = torch.from_numpy(users.astype(np.int64)).to(self.device)
            with self._scoring():
                s = self._states(self.network.users(index), self._recent(None, users))
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

    def _states(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """s of all users, some at a time."""
        assert rows is not None
        assert recent is not None
        parts = torch.split(rows, _STATES_AT_ONCE), torch.split(recent, _STATES_AT_ONCE)
        return torch.cat(
            [self.network.state(*part) for part in zip(*parts, strict=True)]
        )

    def _top_k(
        self, users: Indices, n: int, include_seen: bool | None, allowed: Allowed
    ) -> TopK:
        if allowed is None and len(users) >= _WORTH_ANCHORS:
            hidden = self.known.hidden(self.shows(include_seen)).take(users)
            top = self.retrieve(users, n, max(CANDIDATES, 2 * n), hidden=hidden)
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
        hidden: Sequences,
    ) -> TopK | None:
        """As in every model: S of all but `candidates` is only estimated from its anchors.

        Where the estimates of the candidates are so far off that an item left out may belong among
        the `n`, all items are scored.
        """
        check_n(n)
        alone = self.cold_items is None and self.linear is None
        by_s = self.config.inference != "generative" and alone
        if not by_s or not 0 < candidates < self.train.n_items:
            return None
        if histories is None:
            histories = self.known.sequences().take(cast(Indices, users))
        rows = np.arange(len(histories), dtype=np.int32)
        with self._scoring():
            s = self._states(
                self.user_rows(histories, users), self._recent(histories, rows)
            )
            return self.two_stages(s, n, candidates, hidden)

    def two_stages(self, s: Tensor, n: int, candidates: int, hidden: Sequences) -> TopK:
        """`retrieve` for states s, some users at a time."""
        parts = np.split(
            np.arange(len(s)), range(_USERS_AT_ONCE, len(s), _USERS_AT_ONCE)
        )
        some = (
            self._some_lists(
                s[part[0] : part[-1] + 1], n, candidates, hidden.take(part)
            )
            for part in parts
            if len(part)
        )
        return joined_lists(some, n)

    def _some_lists(
        self, s: Tensor, n: int, candidates: int, hidden: Sequences
    ) -> TopK:
        net, generated = self.network, None
        if self.config.inference == "mixture":
            generated = net.generative_scores(net.target(s)).float()
        head, halves, anchors = net.discriminative, self.prepared(), self.anchors()
        scored = head.some_items(s, halves[anchors.items].unsqueeze(0)).float()
        estimates = self._mixed(anchors.estimate(scored), generated)
        kept = masked_top_k(estimates.cpu().numpy(), candidates, seen=hidden)
        # Equal scores go to the smaller index, as in a full ranking.
        index = torch.from_numpy(np.sort(kept.items, axis=1).astype(np.int64)).to(
            self.device
        )
        known, missing = index.clamp(min=0), index < 0
        scored = head.some_items(s, halves[known]).float()
        scores = self._mixed(
            scored, None if generated is None else generated.gather(1, known)
        )
        off = (
            (scores - estimates.gather(1, known))
            .masked_fill(missing, 0.0)
            .abs()
            .amax(dim=1)
        )
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
        unsure = np.flatnonzero(left_out)
        if n <= candidates and len(unsure):
            rows = torch.from_numpy(unsure).to(self.device)
            full = head.all_items(s[rows], halves).float()
            full = self._mixed(full, None if generated is None else generated[rows])
            again = masked_top_k(full.cpu().numpy(), n, seen=hidden.take(unsure))
            top.items[unsure], top.scores[unsure] = again.items, again.scores
        return top

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """G(s) times the temperature, and a 1 for the item's bias; or times 2 / D (distance), the
        1, and minus its mean square: the user's part of the distance."""
        self._check_dot_product()
        assert rows is not None
        assert recent is not None
        net = self.network
        g = net.target(net.state(rows, recent)).float()
        if self.config.objective == "softmax":
            return with_constant(g * net.log_temperature.exp())
        own = -g.square().mean(dim=1, keepdim=True)
        return torch.cat([with_constant(g * (2 / self.config.dim)), own], dim=1)

    def item_outputs(self) -> Tensor:
        """e_j, and its bias; or minus its mean square, the distance's part of the item, and 1."""
        self._check_dot_product()
        net = self.network
        items = net.items.weight.float()
        if self.config.objective == "softmax":
            return torch.column_stack([items, net.bias])
        return with_constant(torch.column_stack([items, -items.square().mean(dim=1)]))

    def _check_dot_product(self) -> None:
        config = self.config
        distance = (
            config.objective == "margin" and config.ranking_distance == "absolute"
        )
        if config.losses == "discriminative" or distance:
            raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """G retrieves; where S is read too, it ranks what was retrieved."""
        return (
            super().vectors_rank
            if self.config.inference == "generative"
            else "first stage"
        )


def square_square(scored: Tensor, config: DLR2Config) -> Tensor:
    """L_S (Eq. 10). scored [B, 1 + k]: S before its last ReLU, the positive first."""
    positive, negatives = scored[:, 0], scored[:, 1:]
    near = (positive.relu() if config.last_relu else positive).square()
    negatives = negatives.relu() if config.relu_on_negatives else negatives
    far = (config.margin - negatives).relu().square().mean(dim=1)
    return (near + far).mean()


def hinge(g: Tensor, candidates: Tensor, margin: float) -> Tensor:
    """L_G (Eq. 11) with the mean squared difference. g [B, D], candidates [B, 1 + k, D]."""
    distance = (g.unsqueeze(1) - candidates).square().mean(dim=-1)
    return (distance[:, :1] - distance[:, 1:] + margin).relu().mean()
