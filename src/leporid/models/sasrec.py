"""SASRec: causal self-attention over the sequence of a user.

Kang, McAuley: Self-Attentive Sequential Recommendation. ICDM 2018.

    E = M[s] + P                                                   (Eq. 1)
    SA(E) = Attention(E W_Q, E W_K, E W_V), causal                 (Eqs. 2, 3)
    F = ReLU(S W_1 + b_1) W_2 + b_2                                (Eq. 4)
    g(x) = x + Dropout(g(LayerNorm(x)))                            (Section III-C)
    r_{i,t} = F_t . M_i                                            (Eq. 6)

Every position of a sequence is trained at once: position t predicts item t + 1. There are no user
vectors: of the initial embeddings SASRec takes those of the items alone.

The paper's loss (`loss="sampled"`) is binary cross-entropy with sampled negatives (Eq. 7). The
default is cross-entropy over all items, which is stronger; `recipe="paper"` has the former. With
many negatives, sampled softmax and gBCE cost less than all items. `block="ligr"` is from

    Borisyuk et al.: From Features to Transformers: Redefining Ranking for Scalable Impact. 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.config import setting
from leporid.data import Sequences
from leporid.errors import ConfigError
from leporid.models.shared.layers import causal_attention, dropout
from leporid.models.shared.losses import in_closed_form, softmax_loss
from leporid.models.shared.neural_kinds import DotProduct
from leporid.models.shared.recipes import GENERAL
from leporid.models.shared.tables import BuildContext
from leporid.space import Choice, Float, Int, SearchSpace
from leporid.training import Batch, Sampling, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class SASRecConfig(TrainingConfig):
    """Settings of SASRec."""

    batch_size: int = setting(128, at_least=1)
    """Sequences in a step."""
    steps: int = setting(5000, at_least=1)
    length: int = setting(100, at_least=1)
    """n, the longest sequence read."""
    layers: int = setting(2, at_least=1)
    """b, self-attention blocks."""
    heads: int = setting(1, at_least=1)
    hidden: int = setting(64, at_least=1)
    """Width inside the point-wise network."""
    dropout: float = setting(0.2, at_least=0, below=1)
    block: Literal["pre", "post", "ligr"] = "pre"
    """Normalise before each part (as the paper prints), after it is added, or before with a gate
    on what is added and a SwiGLU network."""
    scale_input: bool = False
    """Multiply the item vectors that are read by the root of `dim`, as the authors' program."""
    loss: Literal["softmax", "sampled", "sampled_softmax", "gbce"] = "softmax"
    """Cross-entropy over all items; binary cross-entropy with negatives the user has not;
    cross-entropy over the next item and sampled ones; gBCE, which has a smaller weight on the next
    item to make up for the items that were not sampled."""
    negatives: int | None = setting(None, at_least=1)
    """Sampled negatives; None is 1 for `loss="sampled"`, 256 for the others that sample."""
    negatives_per: Literal["position", "sequence", "batch"] = "sequence"
    """Who shares the negatives of `sampled_softmax` and `gbce`. `position` needs memory for a
    vector per position and negative; `batch` is the cheapest."""
    negative_power: float = setting(0.0, at_least=0)
    """`sampled_softmax` and `gbce`: 0 draws uniformly, otherwise by popularity ** power."""
    correction: bool = True
    """`sampled_softmax`: subtract the log of how often an item is drawn from its score (logQ), so
    that the loss estimates the one over all items."""
    calibration: float = setting(0.75, at_least=0, at_most=1)
    """t of `gbce`: 0 is binary cross-entropy, 1 has scores as calibrated as with all items."""
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    """`softmax`: share of the target that is spread over all items."""

    def validate(self) -> None:
        if self.dim % self.heads:
            raise ConfigError(f"dim must be a multiple of heads ({self.heads}), not {self.dim}")

    @property
    def sampled(self) -> int:
        """The number of negatives the loss asks for."""
        if self.loss == "softmax":
            return 0
        return self.negatives or (1 if self.loss == "sampled" else 256)

    @property
    def shared(self) -> Literal["position", "sequence", "batch"] | None:
        """Who shares negatives drawn from all items; None where the loss draws none of those."""
        return self.negatives_per if self.loss in ("sampled_softmax", "gbce") else None


class _Block(nn.Module):
    """Causal self-attention, then the point-wise network, each normalised and added."""

    def __init__(self, config: SASRecConfig) -> None:
        super().__init__()
        dim, self.heads, self.dropout = config.dim, config.heads, config.dropout
        self.kind = config.block
        self.attention_norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.attention_output = nn.Linear(dim, dim)
        self.network_norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, config.hidden)
        self.outer = nn.Linear(config.hidden, dim)
        if self.kind == "ligr":
            self.attention_gate, self.network_gate = nn.Linear(dim, dim), nn.Linear(dim, dim)
            self.linear = nn.Linear(dim, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """[B, n, D] to the same shape."""
        x = self._add(x, "attention", self._attend)
        return self._add(x, "network", self._network)

    def _add(self, x: Tensor, name: str, part: Callable[[Tensor], Tensor]) -> Tensor:
        norm = getattr(self, f"{name}_norm")
        if self.kind == "post":
            return cast(Tensor, norm(x + self._drop(part(x))))
        change = self._drop(part(norm(x)))
        if self.kind == "ligr":
            change = change * torch.sigmoid(getattr(self, f"{name}_gate")(x))
        return x + change

    def _attend(self, x: Tensor) -> Tensor:
        joint = self.query_key_value(x)
        query, key, value = joint.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = causal_attention(query, key, value, self.dropout, self.training)
        return cast(Tensor, self.attention_output(attended.transpose(1, 2).flatten(2)))

    def _network(self, x: Tensor) -> Tensor:
        inner = self.inner(x)
        inner = functional.silu(inner) * self.linear(x) if self.kind == "ligr" else inner.relu()
        return cast(Tensor, self.outer(self._drop(inner)))

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class SASRecNetwork(nn.Module):
    """Item and position tables, and the blocks."""

    def __init__(self, context: BuildContext, config: SASRecConfig) -> None:
        super().__init__()
        self.items, self.dropout = context.item_table(), config.dropout
        self.positions = nn.Embedding(config.length, config.dim)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.input_scale = math.sqrt(config.dim) if config.scale_input else 1.0
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        # The last block of the kind "post" has normalised its sum already.
        self.norm = nn.Identity() if config.block == "post" else nn.LayerNorm(config.dim)
        popularity = np.bincount(context.train.item, minlength=context.train.n_items).clip(1)
        weight = torch.from_numpy(popularity.astype(np.float32) ** config.negative_power)
        self.register_buffer("log_chance", (weight / weight.sum()).log(), persistent=False)

    def forward(self, history: Tensor, position: Tensor) -> Tensor:
        """[B, n, D]: the state after each item.

        history: int64[B, n], items oldest first, then -1; position: their rows in the position
        table. What is missing stands after the items, so the causal mask alone hides it.
        """
        x = self.items(history.clamp(min=0)) * self.input_scale + self.positions(position)
        x = dropout(x * (history >= 0)[..., None], self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return cast(Tensor, self.norm(x))


def to_front(history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the padding of int64[B, n] rows from the front to the back.

    Returns the rows, the column each entry had before, and int64[B], the number of items. The
    newest item keeps the last row of the position table, however short the sequence is.
    """
    length = history.shape[1]
    count = (history >= 0).sum(dim=1)
    position = (torch.arange(length, device=history.device) - count[:, None]) % length
    return history.gather(1, position), position, count


class SASRec(DotProduct):
    """Self-attention over the last items; item vectors only."""

    name = "sasrec"
    config_class = SASRecConfig
    config: SASRecConfig
    network_class = SASRecNetwork
    reads_history = True
    default_init_scale: ClassVar[float] = 0.1
    recordable: ClassVar[bool] = True
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {
            "loss": "sampled", "length": 200, "schedule": "constant", "scale_input": True,
            "metric": "F1@10",
        },
        "tuned": {"dropout": 0.1, "steps": 5000, "init_scale": 0.1, "metric": "F1@10"},
        "general": GENERAL | {"lr": 2e-3},
    }  # fmt: skip
    general_by_kind: ClassVar[dict[str, dict[str, Any]]] = {
        "short histories": {"length": 50, "layers": 1, "dropout": 0.5, "batch_size": 256},
        "large": {"eval_every": 250},
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "weight_decay": Float(1e-6, 1e-1, log=True),
        "dropout": Float(0.1, 0.6),
        "layers": Int(1, 3),
        "heads": Choice(1, 2, 4),
        "init_scale": Choice(0.01, 0.03, 0.1, 0.3),
    }

    def sampling(self) -> Sampling:
        """Whole sequences; negatives only where the loss needs them."""
        config = self.config
        return Sampling(
            "sequences",
            length=config.length,
            negatives=config.sampled,
            shared_negatives=config.shared,
            negative_power=config.negative_power if config.shared else 0.0,
        )

    def loss(self, batch: Batch) -> Tensor:
        """All positions of all sequences at once; the mean over those with a next item."""
        net, config = self.net, self.config
        assert batch.history is not None
        history, position, _ = to_front(batch.history)
        state = net(history, position)
        positives, negatives = batch.positives.gather(1, position), batch.negatives
        per = config.shared or "position"
        if per == "position":
            negatives = negatives.gather(1, position[..., None].expand_as(negatives))
        if state.device.type == "cpu" and per != "sequence":
            # Leaving the padding out saves work; on a GPU it would wait for the device.
            known = positives >= 0
            state, positives = state[known], positives[known]
            negatives = negatives[known] if per == "position" else negatives
        if config.sampled:
            return self._sampled(state, positives, negatives)
        smoothing = config.label_smoothing
        if in_closed_form(state):
            return softmax_loss(state, net.items.weight, positives, label_smoothing=smoothing)
        logits = (state.flatten(0, -2) @ net.items.weight.T).float()
        targets = positives.flatten()
        return functional.cross_entropy(logits, targets, ignore_index=-1, label_smoothing=smoothing)

    def _sampled(self, state: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        """One of the losses with sampled negatives; one that must not count has the score -inf.

        state: [..., D]; positives: int64[...], -1 for none; negatives: int64[..., k], or
        [B, 1, k] if they are shared.
        """
        net, config = self.net, self.config
        negatives = negatives[0, 0] if config.shared == "batch" else negatives
        positive = (state.float() * net.items(positives.clamp(min=0))).sum(-1)
        rows = net.items(negatives)
        if config.shared in ("batch", "sequence"):
            negative = state @ (rows.mT if rows.dim() == 2 else rows.squeeze(1).mT)
        else:
            negative = (state.unsqueeze(-2) @ rows.mT).squeeze(-2)
        negative = negative.float()
        if config.shared:
            # Drawn from all items, a negative may be the target itself.
            is_target = negatives == positives[..., None]
            negative = negative.masked_fill(is_target, -torch.inf)
        if config.loss == "sampled_softmax":
            if config.correction:
                negative = negative - net.log_chance[negatives] - math.log(config.sampled)
            together = torch.cat([positive[..., None], negative], dim=-1)
            loss: Tensor = torch.logsumexp(together, dim=-1) - positive
        else:
            # -ln sigmoid(positive)^beta - sum ln(1 - sigmoid(negative))
            beta = self._gbce_power() if config.loss == "gbce" else 1.0
            loss = beta * functional.softplus(-positive) + functional.softplus(negative).sum(-1)
        known = positives >= 0
        return (loss * known).sum() / known.sum()

    def _gbce_power(self) -> float:
        """beta = alpha (t (1 - 1 / alpha) + 1 / alpha), alpha the share of items that are sampled.

        Petrov, Macdonald: gSASRec: Reducing Overconfidence in Sequential Recommendation Trained
        with Negative Sampling. RecSys 2023.
        """
        share = min(self.config.sampled / max(self.train.n_items - 1, 1), 1.0)
        return share * self.config.calibration + 1 - self.config.calibration

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """r for every item after the newest one; the users themselves do not matter."""
        return torch.mm(self.encode(None, recent), self.net.items.weight.T)

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """F after the newest item."""
        assert recent is not None
        history, position, count = to_front(recent)
        newest = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.config.dim)
        return cast(Tensor, self.net(history, position).gather(1, newest).squeeze(1))

    def item_outputs(self) -> Tensor:
        """M_i."""
        return cast(Tensor, self.net.items.weight)

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """The same: the history is all that this model reads of a user."""
        return self.scores(torch.empty(0), recent)
