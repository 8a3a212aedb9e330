"""`dlr2`: Dual-Loss Residual Recommendation, the paper's own model (section 4).

The Feature Network turns a user's vector and the last l items into a state s. S(s, e_j) is the
distance of item j from the user's next item; G(s) is the vector of the next item.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn import functional

from leporid.data import Sequences, Split
from leporid.errors import ConfigError, LeporidWarning
from leporid.models.dlr2.config import GENERAL_BY_KIND, RECIPES, Branch, DLR2Config
from leporid.models.dlr2.network import DLR2Network
from leporid.models.dlr2.two_stages import TwoStages
from leporid.models.shared.lists import VectorsUnsupportedError
from leporid.models.shared.losses import in_closed_form, softmax_loss
from leporid.models.shared.neural_kinds import DotProduct, with_constant
from leporid.training import Batch, Sampling

_HARD_POOL = 8
"""Draws for each `hard` negative."""


class DLR2(TwoStages, DotProduct):
    """Two losses, one state: see `DLR2Config` for every choice."""

    name = "dlr2"
    config_class = DLR2Config
    config: DLR2Config
    network_class = DLR2Network
    recipes = RECIPES
    general_by_kind = GENERAL_BY_KIND
    reads_history = True
    recordable: ClassVar[bool] = True

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
        return self.user_table().new_zeros(len(histories), self.config.dim)

    def _fit(self, split: Split, **options: Any) -> None:
        if self.config.objective == "margin" and self.config.margin == 0:
            warnings.warn(
                "margin=0 cannot teach S anything: a network that outputs 0 for every item "
                "has no loss (Eq. 10), and its ReLU reaches that at once; use margin=0.5",
                LeporidWarning,
                stacklevel=3,
            )
        if self.config.freeze_init:
            init = options.get("init")
            given = init is not None and init.items.provenance.get("method") != "random"
            steps = -1 if given else max(self.config.freeze_steps, 0)
            self.config = self.config.replace(freeze_steps=steps)
        super()._fit(split, **options)

    def loss(self, batch: Batch) -> Tensor:
        net, config = self.network, self.config
        assert batch.history is not None
        s = net.state(net.users(batch.users), batch.history)
        by_g = config.losses != "discriminative"
        g = net.target(s) if by_g or config.negative_kind == "hard" else None
        softmax, total = config.objective == "softmax", s.new_zeros((), dtype=torch.float32)
        if by_g and g is not None and softmax:
            total = total + self._softmax_loss(g, batch.positives)
            if config.losses == "generative":
                return total
        items = torch.cat([batch.positives.unsqueeze(1), self._negatives(batch, g)], dim=1)
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

    def _softmax_loss(self, g: Tensor, positives: Tensor) -> Tensor:
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
        if config.negative_kind == "uniform" or g is None:
            return drawn
        pool, g = self.network.items(drawn), g.float().unsqueeze(1)
        margin = config.objective == "margin"
        near = -(pool - g).pow(2).mean(-1) if margin else (pool * g).sum(-1)
        return drawn.gather(1, near.topk(config.negatives, dim=1).indices)

    def prepare(self) -> Tensor:
        """float32[n_items, 256]: the item half of S's first layer."""
        return self.network.discriminative.item_half(self.network.items.weight)

    def row_scores(self, rows: Tensor, recent: Tensor | None) -> Tensor:
        net, branch, s = self.network, self.config.inference, self._states(rows, recent)
        generated = None if branch == "discriminative" else net.generative_scores(net.target(s))
        if branch == "generative" and generated is not None:
            return generated
        return self._mixed(net.discriminative.all_items(s, self.prepared()), generated)

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
        distance = config.objective == "margin" and config.ranking_distance == "absolute"
        if config.losses == "discriminative" or distance:
            raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """G retrieves, and where S is read too it ranks what was retrieved."""
        return "everything" if self.config.inference == "generative" else "first stage"

    def infer_by(self, branch: Branch) -> Self:
        """Rank by another branch from now on, without training again; returns self."""
        if self.cold_items is not None:
            raise ConfigError(
                f"cold items are scored for the branch {self.config.inference!r}: "
                f"choose the branch before the model is fitted or extended"
            )
        self.config = self.config.replace(inference=branch)
        return self


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
