"""`dlr2`: Dual-Loss Residual Recommendation, the paper's own model (section 4).

The Feature Network turns a user's vector and the last l items into a state s. S(s, e_j) is the
distance of item j from what the user wants; G(s) is the vector of the wanted item.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from leporid.data.interactions import Sequences
from leporid.data.split import Split
from leporid.errors import LeporidWarning
from leporid.models.dlr2.config import RECIPES, Branch, DLR2Config
from leporid.models.dlr2.features import FeatureNetwork
from leporid.models.dlr2.heads import Discriminative, generative
from leporid.models.shared.neural import BuildContext, NeuralRecommender
from leporid.models.shared.new_users import NewUserRows
from leporid.progress import ProgressLike
from leporid.ranking.masked import masked_top_k
from leporid.ranking.topk import TopK
from leporid.training.sampler import Batch, Sampling

__all__ = ["DLR2", "DLR2Config"]

_USERS_AT_ONCE = 256
_RECALL_USERS, _RECALL_PAIRS = 500, 2_000_000
"""Users whose full ranking a record compares with two stages, and pairs scored for it: a second or
two on a CPU."""


class DLR2Network(nn.Module):
    """Tables, Feature Network and both heads."""

    def __init__(self, context: BuildContext, config: DLR2Config) -> None:
        super().__init__()
        self.config = config
        self.users, self.items = context.user_table(), context.item_table()
        self.features = FeatureNetwork(
            config.architecture, config.length, config.dim, config.feature_dropout
        )
        self.discriminative = Discriminative(config.dim)
        self.generative = generative(config.dim)
        self.image_dropout = nn.Dropout(config.image_dropout)
        if config.objective == "margin":
            # Small vectors give every pair nearly the same S; were it negative, the last ReLU
            # would be dead from the start. Half the margin is the best constant distance.
            nn.init.constant_(self.discriminative.last.bias, config.margin / 2)
        if config.objective == "softmax":
            self.log_temperature = nn.Parameter(torch.tensor(math.log(config.temperature)))
            self.bias = nn.Parameter(torch.zeros(context.n_items), requires_grad=config.item_bias)

    def state(self, user_rows: Tensor, recent: Tensor) -> Tensor:
        """s: user_rows [B, D], recent int64[B, l] (-1 is a blank row) -> [B, D]."""
        rows = self.items(recent.clamp(min=0)) * (recent >= 0).unsqueeze(-1)
        image = torch.cat([user_rows.unsqueeze(1), rows], dim=1)
        if self.training:
            image = self.image_dropout(self._blank(image))
        s: Tensor = self.features(image)
        return s

    def _blank(self, image: Tensor) -> Tensor:
        """Augmentation: whole rows of the image set to zero."""
        config = self.config
        if not (config.user_dropout or config.item_dropout):
            return image
        share = torch.full(image.shape[:2], config.item_dropout, device=image.device)
        share[:, 0] = config.user_dropout
        return image * (torch.rand_like(share) >= share).unsqueeze(-1)

    def wanted(self, s: Tensor) -> Tensor:
        """G(s): the vector of the wanted item; tanh belongs to the margin objective."""
        g: Tensor = self.generative(s)
        return g.tanh() if self.config.objective == "margin" else g

    def generative_scores(self, g: Tensor) -> Tensor:
        """[B, D] -> [B, n_items]: minus the mean squared difference, or logits."""
        items = self.items.weight
        if self.config.objective == "softmax":
            return (g @ items.T).float() * self.log_temperature.exp() + self.bias
        squares = (items * items).mean(dim=1) + (g * g).mean(dim=1, keepdim=True)
        return 2 / g.shape[1] * (g @ items.T) - squares


class DLR2(NeuralRecommender):
    """Two losses, one state: see `DLR2Config` for every choice."""

    name = "dlr2"
    config_class = DLR2Config
    config: DLR2Config
    recipes = RECIPES
    default_init_scale = 1.0
    recordable: ClassVar[bool] = True
    _new_users: NewUserRows | None = None

    def sampling(self) -> Sampling:
        """Windows of the last l items and their next item."""
        config = self.config
        pool = config.hard_pool if config.negative_kind == "hard" else 1
        power = config.negative_power if config.negative_kind == "popularity" else 0.0
        count = config.negatives * pool
        return Sampling("windows", length=config.length, negatives=count, negative_power=power)

    def build(self, context: BuildContext) -> nn.Module:
        """The network of the paper's Figure 2."""
        return DLR2Network(context, self.config)

    @property
    def network(self) -> DLR2Network:
        """The network, with its own type."""
        net = self.net
        assert isinstance(net, DLR2Network)
        return net

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        if self.config.objective == "margin" and self.config.margin == 0:
            warnings.warn(
                "margin=0 cannot teach S anything: a network that outputs 0 for every item "
                "has no loss (Eq. 10), and its ReLU reaches that at once; use margin=0.5",
                LeporidWarning,
                stacklevel=4,
            )
        super()._fit(split, seed=seed, progress=progress)

    # -- training --------------------------------------------------------------------------

    def loss(self, batch: Batch) -> Tensor:
        """L_S + L_G, or one of them."""
        net, config = self.network, self.config
        assert batch.history is not None
        s = net.state(net.users(batch.users), batch.history)
        g = net.wanted(s) if config.losses != "discriminative" or self._needs_g() else None
        negatives = self._negatives(batch, g)
        candidates = net.items(torch.cat([batch.positives.unsqueeze(1), negatives], dim=1))
        total = s.new_zeros((), dtype=torch.float32)
        if config.losses != "generative":
            judged = net.discriminative(s, candidates).float()
            total = total + (
                _square_square(judged, config.margin, config.relu_on_negatives)
                if config.objective == "margin"
                else functional.cross_entropy(judged, torch.zeros_like(batch.positives))
            )
        if config.losses != "discriminative" and g is not None:
            made = (
                _hinge(g.float(), candidates, config.margin)
                if config.objective == "margin"
                else functional.cross_entropy(
                    net.generative_scores(g),
                    batch.positives,
                    label_smoothing=config.label_smoothing,
                )
            )
            total = total + config.generative_weight * made
        return total

    def _needs_g(self) -> bool:
        return self.config.negative_kind == "hard"

    @torch.no_grad()
    def _negatives(self, batch: Batch, g: Tensor | None) -> Tensor:
        """int64[B, negatives]."""
        config, drawn = self.config, batch.negatives
        if config.negative_kind == "hard" and g is not None:
            pool = self.network.items(drawn)
            g = g.float().unsqueeze(1)
            near = (
                -(pool - g).pow(2).mean(-1) if config.objective == "margin" else (pool * g).sum(-1)
            )
            return drawn.gather(1, near.topk(config.negatives, dim=1).indices)
        if config.negative_kind == "in_batch":
            places = torch.arange(len(batch), device=drawn.device)[:, None]
            shift = torch.arange(1, config.negatives + 1, device=drawn.device)
            others = batch.positives[(places + shift) % len(batch)]
            # Another example's item may be this one's positive: the uniform draw stands in.
            return torch.where(others == batch.positives[:, None], drawn, others)
        return drawn

    # -- scoring ---------------------------------------------------------------------------

    def prepare(self) -> Tensor:
        """float32[n_items, 256]: the item half of S's first layer."""
        net = self.network
        return net.discriminative.item_half(net.items.weight)

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """Scores of all items by the branch the settings name."""
        assert recent is not None
        return self._scores(self._states(self.network.users(users), recent), self.config.inference)

    def _states(self, user_rows: Tensor, recent: Tensor) -> Tensor:
        net = self.network
        parts = [
            net.state(user_rows[at : at + _USERS_AT_ONCE], recent[at : at + _USERS_AT_ONCE])
            for at in range(0, len(recent), _USERS_AT_ONCE)
        ]
        return torch.cat(parts) if parts else user_rows

    def _scores(self, s: Tensor, branch: Branch) -> Tensor:
        net, config = self.network, self.config
        if branch == "generative":
            return net.generative_scores(net.wanted(s))
        judged = net.discriminative.all_items(s, self.prepared())
        # With margins S is a distance; its value before the last ReLU ranks without ties.
        judged = -judged if config.objective == "margin" else judged
        if branch == "discriminative":
            return judged
        made = net.generative_scores(net.wanted(s))
        return config.mixture * judged + (1 - config.mixture) * made

    def infer_by(self, branch: Branch) -> Self:
        """Rank by another branch from now on, without training again; returns self."""
        self.config = self.config.replace(inference=branch)
        return self

    # -- two stages ------------------------------------------------------------------------

    def retrieve(
        self,
        users: NDArray[np.int32] | None,
        n: int,
        candidates: int,
        *,
        histories: Sequences | None = None,
        hidden: Sequences,
    ) -> TopK | None:
        """Two stages, where the model ranks by S and has more items than G would keep."""
        config = self.config
        if config.losses != "both" or config.inference == "generative":
            return None
        if not 0 < candidates < len(self.items):
            return None
        if histories is not None:
            return self.two_stage_histories(histories, n, candidates, hidden=hidden)
        assert users is not None
        return self.two_stage(users, n, candidates, hidden=hidden)

    def two_stage(
        self,
        users: NDArray[np.int32],
        n: int = 10,
        candidates: int = 200,
        history: Sequences | None = None,
        *,
        hidden: Sequences | None = None,
    ) -> TopK:
        """The best `n` items: G retrieves `candidates`, and only those get their full score.

        The scores are the model's own (S, or the mixture); an item that G does not retrieve
        cannot appear. `hidden` has one row a user: items not to retrieve, by default what the
        user has had.
        """
        sequences = self.known.sequences() if history is None else history
        if hidden is None:
            hidden = sequences.take(users)
        return self._two_stage(lambda: self._user_states(users, sequences), n, candidates, hidden)

    def two_stage_histories(
        self,
        histories: Sequences,
        n: int = 10,
        candidates: int = 200,
        *,
        hidden: Sequences | None = None,
    ) -> TopK:
        """`two_stage` for people never seen; `hidden` is by default what is in the histories."""
        everyone = np.arange(len(histories), dtype=np.int32)

        def states() -> Tensor:
            return self._new_states(self._recent(histories, everyone), histories)

        return self._two_stage(states, n, candidates, histories if hidden is None else hidden)

    def two_stage_recall(
        self,
        users: NDArray[np.int32],
        n: int = 10,
        candidates: int = 200,
        history: Sequences | None = None,
    ) -> float:
        """Share of the full ranking's top `n` that `two_stage` finds, mean over users."""
        top = self.two_stage(users, n, candidates, history)
        sequences = self.known.sequences() if history is None else history
        full = masked_top_k(self.score(users, history), n, seen=sequences.take(users))
        found = [
            len(np.intersect1d(a[a >= 0], b[b >= 0])) / max(1, int((b >= 0).sum()))
            for a, b in zip(top.items, full.items, strict=True)
        ]
        return float(np.mean(found)) if found else 1.0

    def training_summary(self) -> dict[str, Any]:
        """As of every neural model, and what two stages find of the full top 10, of some users."""
        summary = super().training_summary()
        if self.config.losses == "both":
            some = max(1, min(_RECALL_USERS, _RECALL_PAIRS // self.train.n_items))
            users = np.arange(min(some, self.train.n_users), dtype=np.int32)
            summary["two_stage_recall@10"] = self.two_stage_recall(users)
        return summary

    def _two_stage(
        self, states: Callable[[], Tensor], n: int, candidates: int, hidden: Sequences
    ) -> TopK:
        self._check_n(n)
        net, config = self.network, self.config
        with self._scoring():
            s = states()
            made = net.generative_scores(net.wanted(s)).float()
            kept = min(candidates, self.train.n_items)
            found = masked_top_k(made.cpu().numpy(), kept, seen=hidden).items
            # Equal scores go to the smaller index, as in a full ranking.
            index = torch.from_numpy(np.sort(found, axis=1).astype(np.int64)).to(self.device)
            place = index.clamp(min=0)
            scores = made.gather(1, place)
            if config.inference != "generative":
                judged = net.discriminative.some_items(s, self.prepared()[place]).float()
                judged = -judged if config.objective == "margin" else judged
                share = config.mixture if config.inference == "mixture" else 1.0
                scores = share * judged + (1 - share) * scores if share < 1 else judged
        scores = scores.masked_fill(index < 0, -torch.inf)
        value, order = scores.sort(dim=1, descending=True, stable=True)
        items = index.gather(1, order)[:, :n].to(torch.int32).cpu().numpy()
        short = ((0, 0), (0, n - items.shape[1]))
        return TopK(
            np.pad(items, short, constant_values=-1),
            np.pad(value[:, :n].cpu().numpy(), short, constant_values=-np.inf),
        )

    def _user_states(self, users: NDArray[np.int32], sequences: Sequences) -> Tensor:
        rows = torch.from_numpy(np.asarray(users, dtype=np.int64)).to(self.device)
        return self._states(self.network.users(rows), self._recent(sequences, users))

    # -- people never seen -----------------------------------------------------------------

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """Scores for new people: their row is placed by their neighbours among the fitted."""
        assert recent is not None
        return self._scores(self._new_states(recent, histories), self.config.inference)

    def _new_states(self, recent: Tensor, histories: Sequences) -> Tensor:
        table = self.network.users.weight
        if self._new_users is None:
            self._new_users = NewUserRows(self.train, table, self.config.neighbours)
        return self._states(self._new_users(histories), recent)

    def weights_changed(self) -> None:
        """Forget what was derived from the weights."""
        super().weights_changed()
        self._new_users = None


def _square_square(judged: Tensor, margin: float, relu_on_negatives: bool) -> Tensor:
    """L_S (Eq. 10). judged [B, 1 + k]: S before its last ReLU, the positive first.

    Where S is below zero for a negative, the ReLU would stop its gradient; without it the
    parabola goes on, and S can always come back. Above zero the two are the same.
    """
    near = judged[:, 0].relu().square()
    negatives = judged[:, 1:].relu() if relu_on_negatives else judged[:, 1:]
    far = (margin - negatives).relu().square().mean(dim=1)
    return (near + far).mean()


def _hinge(g: Tensor, candidates: Tensor, margin: float) -> Tensor:
    """L_G (Eq. 11) with the mean squared difference. g [B, D], candidates [B, 1 + k, D]."""
    distance = (g.unsqueeze(1) - candidates).square().mean(dim=-1)
    return (distance[:, :1] - distance[:, 1:] + margin).relu().mean()
