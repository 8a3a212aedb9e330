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
default is cross-entropy over all items, which is stronger. `block="ligr"` is from

    Borisyuk et al.: From Features to Transformers: Redefining Ranking for Scalable Impact. 2025.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.config import setting
from leporid.errors import ConfigError
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.layers import causal_attention, dropout, softmax_loss
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import TrainingConfig
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL
from leporid.search_space import Choice, Float, Int, SearchSpace


@dataclass(frozen=True, kw_only=True)
class SASRecConfig(TrainingConfig):
    batch_size: int = setting(128, at_least=1)
    """Sequences in a step."""
    length: int = setting(100, at_least=1)
    """n, the longest sequence read."""
    layers: int = setting(2, at_least=1)
    """b, self-attention blocks."""
    heads: int = setting(1, at_least=1)
    hidden: int = setting(64, at_least=1)
    """Width inside the point-wise network."""
    dropout: float = setting(0.2, at_least=0, below=1)
    block: Literal["pre", "post", "ligr"] = "pre"
    """Normalise before each part (the paper), after its sum, or before with gates and SwiGLU."""
    scale_input: bool = False
    """Multiply the item vectors that are read by the root of `dim`, as the authors' program."""
    loss: Literal["softmax", "sampled"] = "softmax"
    """Cross-entropy over all items, or binary cross-entropy with negatives the user has not."""
    negatives: int | None = setting(None, at_least=1)
    """Negatives of each position for `loss="sampled"`; None is 1."""

    def validate(self) -> None:
        if self.dim % self.heads:
            raise ConfigError(
                f"dim must be a multiple of heads ({self.heads}), not {self.dim}"
            )


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
            self.attention_gate, self.network_gate = (
                nn.Linear(dim, dim),
                nn.Linear(dim, dim),
            )
            self.linear = nn.Linear(dim, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
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
        query, key, value = joint.unflatten(2, (3, self.heads, -1)).permute(
            2, 0, 3, 1, 4
        )
        attended = causal_attention(query, key, value, self.dropout, self.training)
        return cast(Tensor, self.attention_output(attended.transpose(1, 2).flatten(2)))

    def _network(self, x: Tensor) -> Tensor:
        inner = self.inner(x)
        inner = (
            functional.silu(inner) * self.linear(x)
            if self.kind == "ligr"
            else inner.relu()
        )
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
        self.norm = (
            nn.Identity() if config.block == "post" else nn.LayerNorm(config.dim)
        )

    def forward(self, history: Tensor, position: Tensor) -> Tensor:
        """[B, n, D]: the state after each item.

        history: int64[B, n], items oldest first, then -1; position: their rows in that table.
        """
        x = self.items(history.clamp(min=0)) * self.input_scale + self.positions(
            position
        )
        x = dropout(x * (history >= 0)[..., None], self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return cast(Tensor, self.norm(x))


def to_front(history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the padding of int64[B, n] rows from the front to the back.

    Returns the rows, the column each entry had before, and int64[B], the number of items.
    """
    length = history.shape[1]
    count = (history >= 0).sum(dim=1)
    position = (torch.arange(length, device=history.device) - count[:, None]) % length
    return history.gather(1, position), position, count


class SASRec(NeuralRecommender):
    """Self-attention over the last items; item vectors only."""

    name = "sasrec"
    config_class = SASRecConfig
    config: SASRecConfig
    network_class = SASRecNetwork
    reads_history = True
    recordable: ClassVar[bool] = True
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {
            "loss": "sampled", "length": 200, "schedule": "constant", "scale_input": True,
            "metric": "F1@10",
        },
        "tuned": {"dropout": 0.1, "steps": 5000, "init_scale": 0.1, "metric": "F1@10"},
        "general": GENERAL | {"lr": 2e-3, "precision": "bf16", "linear_gain": "auto"},
    }  # fmt: skip
    general_by_kind: ClassVar[dict[str, dict[str, Any]]] = {
        "short histories": {
            "length": 50, "layers": 1, "dropout": 0.35, "batch_size": 256, "dim": 128,
            "hidden": 128,
        },
        "large": {"eval_every": 250, "dim": 128, "hidden": 128},
    }  # fmt: skip
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "weight_decay": Float(1e-6, 1e-1, log=True),
        "dropout": Float(0.1, 0.6),
        "layers": Int(1, 3),
        "heads": Choice(1, 2, 4),
        "init_scale": Choice(0.01, 0.03, 0.1, 0.3),
    }

    def sampling(self) -> Sampling:
        sampled = self.config.loss == "sampled"
        negatives = (self.config.negatives or 1) if sampled else 0
        return Sampling("sequences", length=self.config.length, negatives=negatives)

    def loss(self, batch: Batch) -> Tensor:
        """All positions of all sequences at once; the mean over those with a next item."""
        net = self.net
        assert batch.history is not None
        history, position, _ = to_front(batch.history)
        state, positives = net(history, position), batch.positives.gather(1, position)
        negatives = batch.negatives.gather(
            1, position[..., None].expand_as(batch.negatives)
        )
        if state.device.type == "cpu":
            # Leaving the padding out saves work; on a GPU it would wait for the device.
            known = positives >= 0
            state, positives, negatives = (
                state[known],
                positives[known],
                negatives[known],
            )
        if self.config.loss == "sampled":
            return self._sampled(state, positives, negatives)
        return softmax_loss(state, net.items.weight, positives)

    def _sampled(self, state: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        """-ln sigmoid(positive) - sum ln(1 - sigmoid(negative)), the mean over known positives.

        state: [..., D]; positives: int64[...], -1 for none; negatives: int64[..., k].
        """
        items = self.net.items
        positive = (state.float() * items(positives.clamp(min=0))).sum(-1)
        negative = (state.unsqueeze(-2) @ items(negatives).mT).squeeze(-2).float()
        loss = functional.softplus(-positive) + functional.softplus(negative).sum(-1)
        known = positives >= 0
        return (loss * known).sum() / known.sum()

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        assert recent is not None
        history, position, count = to_front(recent)
        newest = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.config.dim)
        return cast(Tensor, self.net(history, position).gather(1, newest).squeeze(1))

    def item_outputs(self) -> Tensor:
        return cast(Tensor, self.net.items.weight)
