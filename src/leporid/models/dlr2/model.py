"""`dlr2`: Dual-Loss Residual Recommendation, the paper's own model (section 4).

The Feature Network turns a user's vector and the last l items into a state s. S(s, e_j) is the
distance of item j from what the user wants; G(s) is the vector of the wanted item.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.data import Sequences, Split
from leporid.errors import ConfigError, LeporidWarning
from leporid.models.dlr2.config import GENERAL_BY_KIND, RECIPES, Branch, DLR2Config
from leporid.models.dlr2.features import FeatureNetwork
from leporid.models.dlr2.heads import Discriminative, generative, hinge, square_square
from leporid.models.dlr2.two_stages import TwoStages
from leporid.models.shared.all_items_loss import in_closed_form, softmax_loss
from leporid.models.shared.base import VectorsUnsupportedError
from leporid.models.shared.dot_product import DotProduct, with_constant
from leporid.models.shared.masks import dropout
from leporid.models.shared.neural import BuildContext
from leporid.training import Batch, Sampling

_RECALL_USERS, _RECALL_PAIRS = 500, 2_000_000
"""Users whose full ranking a record compares with two stages, and pairs scored for it: a second or
two on a CPU."""


class DLR2Network(nn.Module):
    """Tables, Feature Network and both heads."""

    def __init__(self, context: BuildContext, config: DLR2Config) -> None:
        super().__init__()
        self.config = config
        self.users, self.items = context.user_table(), context.item_table()
        rows = 1 + bool(config.profile) + config.length
        self.features = FeatureNetwork(
            config.architecture, rows, config.dim, config.feature_dropout, config.channels
        )
        self.discriminative = Discriminative(config.dim)
        self.generative = generative(config.dim)
        if config.objective == "margin" and config.last_relu:
            # Small vectors give every pair nearly the same S; were it negative, the last ReLU
            # would be dead from the start. Half the margin is the best constant distance.
            nn.init.constant_(self.discriminative.last.bias, config.margin / 2)
        if config.objective == "softmax":
            self.log_temperature = nn.Parameter(torch.tensor(math.log(config.temperature)))
            bias = torch.zeros(context.train.n_items)
            self.bias = nn.Parameter(bias, requires_grad=config.item_bias)
        if config.gain:
            self.gain = nn.Parameter(1 / self._item_size())
        if config.shortcut:
            # The newest item weighs most; the profile, where there is one, comes first.
            weights = 0.5 ** torch.arange(config.length, 0.0, -1)
            profile = torch.full((rows - 1 - config.length,), 0.3)
            self.history_weights = nn.Parameter(torch.cat([profile, weights / weights.sum()]))

    def _item_size(self) -> Tensor:
        """The root mean square of the item table."""
        return self.items.weight.detach().float().square().mean().sqrt().clamp(min=1e-6)

    def state(self, user_rows: Tensor, recent: Tensor) -> Tensor:
        """s: user_rows [B, D], recent int64[B, l] (-1 is a blank row) -> [B, D].

        With `shortcut` the average of the history that G corrects follows: [B, 2 D].
        """
        known = (recent >= 0).unsqueeze(-1)
        rows = self.items(recent.clamp(min=0)) * known
        parts = [user_rows.unsqueeze(1), rows[:, -self.config.length :]]
        if self.config.profile:
            count = known.sum(dim=1, keepdim=True).clamp(min=1)
            parts.insert(1, rows.sum(dim=1, keepdim=True) / count.sqrt())
        image = torch.cat(parts, dim=1)
        if self.training:
            image = dropout(self._blank(image), self.config.image_dropout)
        s = self.features(image * self.gain if self.config.gain else image)
        if not self.config.shortcut:
            return cast(Tensor, s)
        average = (image[:, 1:] * self.history_weights.unsqueeze(1)).sum(dim=1)
        return torch.cat([s, average / self._item_size()], dim=1)

    def _blank(self, image: Tensor) -> Tensor:
        """Augmentation: whole rows of the image set to zero."""
        config = self.config
        if not (config.user_dropout or config.item_dropout):
            return image
        share = torch.full(image.shape[:2], config.item_dropout, device=image.device)
        share[:, 0] = config.user_dropout
        if config.profile:
            share[:, 1] = 0.0
        return image * (torch.rand_like(share) >= share).unsqueeze(-1)

    def wanted(self, s: Tensor) -> Tensor:
        """G(s): the vector of the wanted item; tanh belongs to the margin objective."""
        dim = self.config.dim
        g: Tensor = self.generative(s[:, :dim])
        if self.config.shortcut:
            g = g + s[:, dim:]
        return g.tanh() if self.config.objective == "margin" else g

    def generative_scores(self, g: Tensor) -> Tensor:
        """[B, D] -> [B, n_items]: minus the distance that ranks, or logits."""
        items = self.items.weight
        if self.config.objective == "softmax":
            return (g @ items.T).float() * self.log_temperature.exp() + self.bias
        if self.config.ranking_distance == "absolute":
            return -torch.cdist(g.float(), items.float(), p=1) / g.shape[1]
        squares = (items * items).mean(dim=1) + (g * g).mean(dim=1, keepdim=True)
        return 2 / g.shape[1] * (g @ items.T) - squares


class DLR2(TwoStages, DotProduct):
    """Two losses, one state: see `DLR2Config` for every choice."""

    name = "dlr2"
    config_class = DLR2Config
    config: DLR2Config
    network_class = DLR2Network
    recipes = RECIPES
    general_by_kind = GENERAL_BY_KIND
    sees = "train and validation"
    recordable: ClassVar[bool] = True

    @property
    def start_size(self) -> float:
        """One for the margins, which compare G's tanh with item vectors; a softmax wants less."""
        return 1.0 if self.config.objective == "margin" else super().start_size

    def sampling(self) -> Sampling:
        """Windows of the last l items and their next item."""
        config = self.config
        pool = config.hard_pool if config.negative_kind == "hard" else 1
        power = config.negative_power if config.negative_kind == "popularity" else 0.0
        return Sampling(
            "windows",
            length=max(config.length, config.profile),
            negatives=config.negatives * pool,
            negative_power=power,
            repeat=config.padding != "blank",
            circular=config.circular,
            shortest=config.length if config.padding == "none" else 1,
        )

    @property
    def neighbours(self) -> int:
        return self.config.neighbours

    def new_rows(self, histories: Sequences) -> Tensor:
        """float32[len(histories), D]: blank rows, or rows among those of similar users."""
        kind = self.config.new_people
        if kind == "placed" or (kind == "auto" and self.config.user_dropout < 0.5):
            return super().new_rows(histories)
        return self.user_table().new_zeros(len(histories), self.config.dim)

    def _fit(self, split: Split, **options: Any) -> None:
        if self.config.objective == "margin" and self.config.margin == 0:
            warnings.warn(
                "margin=0 cannot teach S anything: a network that outputs 0 for every item "
                "has no loss (Eq. 10), and its ReLU reaches that at once; use margin=0.5",
                LeporidWarning,
                stacklevel=3,
            )
        if self.config.frozen_starts:
            start = options.get("init")
            given = start is not None and start.items.provenance.get("method") != "random"
            steps = -1 if given else max(self.config.freeze_steps, 0)
            self.config = self.config.replace(freeze_steps=steps)
        super()._fit(split, **options)

    def loss(self, batch: Batch) -> Tensor:
        """L_S + L_G, or one of them."""
        net, config = self.network, self.config
        assert batch.history is not None
        s = net.state(net.users(batch.users), batch.history)
        by_g = config.losses != "discriminative"
        g = net.wanted(s) if by_g or config.negative_kind == "hard" else None
        softmax, total = config.objective == "softmax", s.new_zeros((), dtype=torch.float32)
        if by_g and g is not None and softmax:
            total = total + config.generative_weight * self._softmax_loss(g, batch.positives)
            if config.losses == "generative":
                return total
        items = torch.cat([batch.positives.unsqueeze(1), self._negatives(batch, g)], dim=1)
        candidates = net.items(items)
        if config.losses != "generative":
            total = total + self._discriminative_loss(s, candidates)
        if by_g and g is not None and not softmax:
            total = total + config.generative_weight * hinge(g.float(), candidates, config.margin)
        return total

    def _discriminative_loss(self, s: Tensor, candidates: Tensor) -> Tensor:
        """L_S; candidates: [B, 1 + k, D], the positive first."""
        judged = self.network.discriminative(s, candidates).float()
        if self.config.objective == "margin":
            return square_square(judged, self.config)
        first = torch.zeros(len(judged), dtype=torch.int64, device=judged.device)
        return functional.cross_entropy(judged, first)

    def _softmax_loss(self, g: Tensor, positives: Tensor) -> Tensor:
        """L_G against all items."""
        net, smoothing = self.network, self.config.label_smoothing
        if in_closed_form(g):
            hot = g * net.log_temperature.exp()
            return softmax_loss(hot, net.items.weight, positives, net.bias, smoothing)
        scores = net.generative_scores(g)
        return functional.cross_entropy(scores, positives, label_smoothing=smoothing)

    @torch.no_grad()
    def _negatives(self, batch: Batch, g: Tensor | None) -> Tensor:
        """int64[B, negatives]; G(s) is needed where they are those it ranks highest."""
        config, drawn = self.config, batch.negatives
        if config.negative_kind == "hard" and g is not None:
            pool, g = self.network.items(drawn), g.float().unsqueeze(1)
            margin = config.objective == "margin"
            near = -(pool - g).pow(2).mean(-1) if margin else (pool * g).sum(-1)
            return drawn.gather(1, near.topk(config.negatives, dim=1).indices)
        if config.negative_kind == "in_batch":
            places = torch.arange(len(batch), device=drawn.device)[:, None]
            shift = torch.arange(1, config.negatives + 1, device=drawn.device)
            others = batch.positives[(places + shift) % len(batch)]
            # Another example's item may be this one's positive: the uniform draw stands in.
            return torch.where(others == batch.positives[:, None], drawn, others)
        return drawn

    def prepare(self) -> Tensor:
        """float32[n_items, 256]: the item half of S's first layer."""
        return self.network.discriminative.item_half(self.network.items.weight)

    def row_scores(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        """Scores of all items by the branch the settings name."""
        net, branch, s = self.network, self.config.inference, self._states(rows, recent)
        generated = None if branch == "discriminative" else net.generative_scores(net.wanted(s))
        if branch == "generative" and generated is not None:
            return generated
        return self._mixed(net.discriminative.all_items(s, self.prepared()), generated)

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """G(s) times the temperature, and a 1 for the item's bias; or times 2 / D (distance), the
        1, and minus its mean square: what the distance has of the person alone."""
        self._check_dot_product()
        assert rows is not None
        assert recent is not None
        net = self.network
        g = net.wanted(net.state(rows, recent)).float()
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
        distance = config.objective == "margin" and config.ranking_distance == "absolute"
        if config.losses == "discriminative" or distance:
            raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """G retrieves, and where S is read too it judges what was retrieved."""
        return "everything" if self.config.inference == "generative" else "first stage"

    def infer_by(self, branch: Branch) -> Self:
        """Rank by another branch from now on, without training again; returns self."""
        if self.newcomers is not None:
            raise ConfigError(
                f"items that training has not seen are scored for the branch "
                f"{self.config.inference!r}: choose the branch before the model is fitted or grown"
            )
        self.config = self.config.replace(inference=branch)
        return self

    def training_summary(self) -> dict[str, Any]:
        """As of every neural model, and what two stages find of the full top 10, of some users."""
        summary = super().training_summary()
        if self.config.losses != "generative":
            some = max(1, min(_RECALL_USERS, _RECALL_PAIRS // self.train.n_items))
            users = np.arange(min(some, self.train.n_users), dtype=np.int32)
            summary["two_stage_recall@10"] = self.two_stage_recall(users)
        return summary
