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
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.errors import ConfigError
from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.layers import causal_attention, dropout
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import Recipes, TrainingConfig
from leporid.models.neural.softmax_loss import softmax_loss
from leporid.models.neural.tables import BuildContext
from leporid.models.registry import GENERAL


@dataclass(frozen=True, kw_only=True)
class SASRecConfig(TrainingConfig):
    batch_size: int = setting(128, at_least=1)
    """Sequences in a step."""
    max_history: int = setting(100, at_least=1)
    """n, the number of recent items read."""
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim % self.heads:
            raise ConfigError(
                f"dim must be a multiple of heads ({self.heads}), not {self.dim}"
            )


class _Block(nn.Module):
    """Causal self-attention, then the point-wise network, each normalised and added."""

    def __init__(self, config: SASRecConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads = config.heads
        self.dropout = config.dropout
        self.kind = config.block
        self.attention_norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.attention_output = nn.Linear(dim, dim)
        self.network_norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, config.hidden)
        self.outer = nn.Linear(config.hidden, dim)
        if self.kind == "ligr":
            self.attention_gate = nn.Linear(dim, dim)
            self.network_gate = nn.Linear(dim, dim)
            self.linear = nn.Linear(dim, config.hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = self._add(x, "attention", self._attend)
        return self._add(x, "network", self._network)

    def _add(
        self,
        x: Tensor,
        name: str,
        part: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Add to x what a part of the block makes of it; `name` begins its norm and gate."""
        norm = self.get_submodule(f"{name}_norm")
        if self.kind == "post":
            normalised: Tensor = norm(x + self._drop(part(x)))
            return normalised
        change = self._drop(part(norm(x)))
        if self.kind == "ligr":
            gate = self.get_submodule(f"{name}_gate")
            change = change * torch.sigmoid(gate(x))
        return x + change

    def _attend(self, x: Tensor) -> Tensor:
        joint = self.query_key_value(x)
        by_head = joint.unflatten(2, (3, self.heads, -1))
        query, key, value = by_head.permute(2, 0, 3, 1, 4)
        attended = causal_attention(
            query,
            key,
            value,
            self.dropout,
            self.training,
        )
        by_item = attended.transpose(1, 2).flatten(2)
        output: Tensor = self.attention_output(by_item)
        return output

    def _network(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.inner(x)
        is_gated = self.kind == "ligr"
        hidden = functional.silu(hidden) * self.linear(x) if is_gated else hidden.relu()
        output: Tensor = self.outer(self._drop(hidden))
        return output

    def _drop(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)


class SASRecNetwork(nn.Module):
    """Item and position tables, and the blocks."""

    def __init__(self, context: BuildContext, config: SASRecConfig) -> None:
        super().__init__()
        self.items = context.item_table()
        self.dropout = config.dropout
        self.positions = nn.Embedding(config.max_history, config.dim)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.input_scale = math.sqrt(config.dim) if config.scale_input else 1.0
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        # The last block of the kind "post" has normalised its sum already.
        self.norm: nn.Module = nn.Identity()
        if config.block != "post":
            self.norm = nn.LayerNorm(config.dim)

    def forward(self, history: Tensor, position: Tensor) -> Tensor:
        """Return [B, n, D], the state after each item.

        history: int64[B, n], items oldest first, then -1; position: their rows in that table.
        """
        items = self.items(history.clamp(min=0)) * self.input_scale
        x = items + self.positions(position)
        is_item = (history >= 0)[..., None]
        x = dropout(x * is_item, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        state: Tensor = self.norm(x)
        return state


def to_front(history: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the padding of int64[B, n] rows from the front to the back.

    Returns the rows, the column each entry had before, and int64[B], the number of items.
    """
    length = history.shape[1]
    count = (history >= 0).sum(dim=1)
    column = torch.arange(length, device=history.device)
    position = (column - count[:, None]) % length
    return history.gather(1, position), position, count


class SASRec(NeuralRecommender):
    """Self-attention over the last items; item vectors only."""

    name = "sasrec"
    config_class = SASRecConfig
    config: SASRecConfig
    network_class = SASRecNetwork
    net: SASRecNetwork
    reads_history = True
    supports_cuda_graph = True
    recipes: ClassVar[Recipes] = {
        "paper": {
            "loss": "sampled",
            "max_history": 200,
            "schedule": "constant",
            "scale_input": True,
            "metric": "F1@10",
        },
        "tuned": {
            "dropout": 0.1,
            "steps": 5000,
            "init_scale": 0.1,
            "metric": "F1@10",
        },
        "general": GENERAL
        | {
            "lr": 2e-3,
            "precision": "bf16",
            "linear_weight": "auto",
            "transitions_weight": "auto",
        },
    }
    general_by_kind: ClassVar[Recipes] = {
        "short histories": {
            "max_history": 50,
            "layers": 1,
            "dropout": 0.35,
            "batch_size": 256,
            "dim": 128,
            "hidden": 128,
        },
        "large": {
            "eval_every": 250,
            "dim": 128,
            "hidden": 128,
        },
    }
    search_space: ClassVar[SearchSpace] = {
        "lr": Float(1e-4, 1e-2, log=True),
        "weight_decay": Float(1e-6, 1e-1, log=True),
        "dropout": Float(0.1, 0.6),
        "layers": Int(1, 3),
        "heads": OneOf(1, 2, 4),
        "init_scale": OneOf(0.01, 0.03, 0.1, 0.3),
    }

    def sampling(self) -> Sampling:
        negatives = 0
        if self.config.loss == "sampled":
            negatives = self.config.negatives or 1
        return Sampling(
            "sequences", length=self.config.max_history, negatives=negatives
        )

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss over all positions of all sequences that have a next item."""
        assert batch.history is not None
        history, position, _ = to_front(batch.history)
        state: Tensor = self.net(history, position)
        positives = batch.positives.gather(1, position)
        columns = position[..., None].expand_as(batch.negatives)
        negatives = batch.negatives.gather(1, columns)
        if state.device.type == "cpu":
            # Leaving the padding out saves work; on a GPU it would wait for the device.
            has_next = positives >= 0
            state = state[has_next]
            positives = positives[has_next]
            negatives = negatives[has_next]
        if self.config.loss == "sampled":
            return self._sampled(state, positives, negatives)
        return softmax_loss(state, self.net.items.weight, positives)

    def _sampled(
        self,
        state: Tensor,
        positives: Tensor,
        negatives: Tensor,
    ) -> Tensor:
        """Return the mean of -ln sigmoid(positive) - sum ln(1 - sigmoid(negative)).

        state: [..., D]; positives: int64[...], -1 for none; negatives: int64[..., k].
        """
        items = self.net.items
        target = items(positives.clamp(min=0))
        positive = (state.float() * target).sum(-1)
        negative = state.unsqueeze(-2) @ items(negatives).mT
        negative = negative.squeeze(-2).float()
        negative_loss = functional.softplus(negative).sum(-1)
        loss = functional.softplus(-positive) + negative_loss
        has_next = positives >= 0
        return (loss * has_next).sum() / has_next.sum()

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """Return the state after each user's newest item."""
        assert recent is not None
        history, position, count = to_front(recent)
        states: Tensor = self.net(history, position)
        last = (count - 1).clamp(min=0)[:, None, None]
        newest = last.expand(-1, 1, self.config.dim)
        return states.gather(1, newest).squeeze(1)

    def item_outputs(self) -> Tensor:
        return self.net.items.weight
