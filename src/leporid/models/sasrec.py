"""SASRec: causal self-attention over the sequence of a user.

Kang, McAuley: Self-Attentive Sequential Recommendation. ICDM 2018.

    E = M[s] + P                                                   (Eq. 1)
    SA(E) = Attention(E W_Q, E W_K, E W_V), causal                 (Eqs. 2, 3)
    F = ReLU(S W_1 + b_1) W_2 + b_2                                (Eq. 4)
    g(x) = x + Dropout(g(LayerNorm(x)))                            (Section III-C)
    r_{i,t} = F_t . M_i                                            (Eq. 6)

Every position of a sequence is trained at once: position t predicts item t + 1. There are no user
vectors: of the initial vectors SASRec takes those of the items and ignores those of the users.

The paper's loss (`loss="sampled"`) is binary cross-entropy with sampled negatives (Eq. 7). The
default is cross-entropy over all items, which is stronger; `recipe="paper"` has the former.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid.config import setting
from leporid.data import Sequences
from leporid.errors import ConfigError
from leporid.models.shared.neural import BuildContext, NeuralRecommender
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
    loss: Literal["softmax", "sampled"] = "softmax"
    """Cross-entropy over all items, or binary cross-entropy with sampled negatives."""
    negatives: int = setting(1, at_least=1)
    """Sampled negatives at each position, for `loss="sampled"`."""

    def validate(self) -> None:
        """Refuse heads of different widths."""
        super().validate()
        if self.dim % self.heads:
            raise ConfigError(f"dim must be a multiple of heads ({self.heads}), not {self.dim}")


class _Block(nn.Module):
    """Causal self-attention, then the point-wise network, each normalised before and added."""

    def __init__(self, config: SASRecConfig) -> None:
        super().__init__()
        dim, self.heads, self.dropout = config.dim, config.heads, config.dropout
        self.attention_norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.attention_output = nn.Linear(dim, dim)
        self.network_norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, config.hidden)
        self.outer = nn.Linear(config.hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[B, n, D] to the same shape."""
        share = self.dropout if self.training else 0.0
        joint = self.query_key_value(self.attention_norm(x))
        query, key, value = joint.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(
            query, key, value, dropout_p=share, is_causal=True
        )
        attended = self.attention_output(attended.transpose(1, 2).flatten(2))
        x = x + functional.dropout(attended, share)
        inner = functional.dropout(functional.relu(self.inner(self.network_norm(x))), share)
        return x + functional.dropout(self.outer(inner), share)


class SASRecNetwork(nn.Module):
    """Item and position tables, and the blocks."""

    def __init__(self, context: BuildContext, config: SASRecConfig) -> None:
        super().__init__()
        self.items, self.dropout = context.item_table(), config.dropout
        self.positions = nn.Embedding(config.length, config.dim)
        nn.init.normal_(self.positions.weight, std=0.02)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)

    def forward(self, history: Tensor, place: Tensor) -> Tensor:
        """[B, n, D]: the state after each item.

        history: int64[B, n], items oldest first, then -1; place: their rows in the position
        table. What is missing stands after the items, so the causal mask alone hides it.
        """
        x = self.items(history.clamp(min=0)) + self.positions(place)
        x = functional.dropout(x * (history >= 0)[..., None], self.dropout, self.training)
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
    place = (torch.arange(length, device=history.device) - count[:, None]) % length
    return history.gather(1, place), place, count


class SASRec(NeuralRecommender):
    """Self-attention over the last items; item vectors only."""

    name = "sasrec"
    config_class = SASRecConfig
    config: SASRecConfig
    network_class = SASRecNetwork
    sees = "train and validation"
    default_init_scale: ClassVar[float] = 0.1
    recordable: ClassVar[bool] = True
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"loss": "sampled", "length": 200, "schedule": "constant"},
        "tuned": {"dropout": 0.1, "steps": 5000, "init_scale": 0.1},
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
        negatives = config.negatives if config.loss == "sampled" else 0
        return Sampling("sequences", length=config.length, negatives=negatives)

    def loss(self, batch: Batch) -> Tensor:
        """All positions of all sequences at once; the mean over those with a next item."""
        net = self.net
        assert batch.history is not None
        history, place, _ = to_front(batch.history)
        state = net(history, place)
        positives = batch.positives.gather(1, place)
        if self.config.loss == "sampled":
            spread = place[..., None].expand_as(batch.negatives)
            return self._sampled(state, positives, batch.negatives.gather(1, spread))
        if state.device.type == "cpu":
            # Leaving the padding out saves work; on a GPU it would wait for the device.
            known = positives >= 0
            state, positives = state[known], positives[known]
        logits = state.flatten(0, -2) @ net.items.weight.T
        return functional.cross_entropy(logits.float(), positives.flatten(), ignore_index=-1)

    def _sampled(self, state: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        """Binary cross-entropy of the next item and of sampled ones (Eq. 7)."""
        items = self.net.items
        state, known = state.float(), positives >= 0
        positive = (state * items(positives.clamp(min=0))).sum(-1)
        negative = (state[..., None, :] * items(negatives)).sum(-1)
        loss = functional.softplus(-positive) + functional.softplus(negative).sum(-1)
        return (loss * known).sum() / known.sum()

    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """r for every item after the newest one; the users themselves do not matter."""
        assert recent is not None
        history, place, count = to_front(recent)
        state = self.net(history, place)
        last = state[torch.arange(len(state), device=state.device), (count - 1).clamp(min=0)]
        return torch.mm(last, self.net.items.weight.T)

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """The same: a history is all this model knows of anyone."""
        return self.scores(torch.empty(0), recent)
