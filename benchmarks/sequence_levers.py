"""`sasrec_levers`: SASRec with what later papers add to it, each as a setting of its own.

    register_levers()
    models.train("sasrec_levers", split, "leporid", recipe="general", mixing=0.7)

With all of them off the network, its bits and its recipes are those of `sasrec`. `mixing` is from

    Shin et al.: An Attentive Inductive Bias for Sequential Recommendation beyond the
    Self-Attention. AAAI 2024.

    A = a F(x) + (1 - a) SA(x),  F(x) = LowPass(x) + b^2 (x - LowPass(x))      (BSARec)

whose Fourier transform over a sequence would read the future, since every position is trained at
once: here the mean of the last positions is the low-pass part. `time_gap` adds to the logits of
attention a number by the time between two events, as in

    Zhai et al.: Actions Speak Louder than Words: Trillion-Parameter Sequential Transducers for
    Generative Recommendations. ICML 2024.

The time of the event that is predicted is not read: the query has the time of its own item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from leporid import models
from leporid.data import Interactions, Sequences, Split
from leporid.errors import ConfigError
from leporid.foundation import setting
from leporid.models import Batch, FitContext
from leporid.models.neural.layers import dropout, with_constant
from leporid.models.neural.sasrec import SASRec, SASRecConfig, SASRecNetwork, _Block, to_front
from leporid.models.neural.softmax_loss import softmax_loss
from leporid.models.neural.tables import BuildContext
from leporid.ranking.lists import Indices

_EDGES = 32
"""Gaps of 1, 2, 4, .. seconds, up to 68 years."""
_UNKNOWN = _EDGES + 1
"""The bucket of gaps from or to an event without a time."""


@dataclass(frozen=True, kw_only=True)
class SASRecLeversConfig(SASRecConfig):
    mixing: float = setting(0.0, at_least=0, at_most=1)
    """a, the share of the filtered sequence in each layer; 0 is off, BSARec has 0.7."""
    low_pass: int = setting(10, at_least=1)
    """Positions whose mean is the low-pass part."""
    time_gap: bool = False
    """Whether attention has a learned number by layer, head and the gap's power of two."""
    item_bias: bool = False
    """Whether every item has a bias; it starts at 0."""
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    profile: int = setting(0, at_least=0)
    """Newest items whose mean vector is added to the state, with a learned gain; 0 is off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss != "softmax" and (self.item_bias or self.label_smoothing or self.time_gap):
            raise ConfigError('item_bias, label_smoothing and time_gap need loss="softmax"')


def causal_mean(x: Tensor, width: int) -> Tensor:
    """[B, n, D]: at every position the mean of the last `width` positions, or of all there are."""
    place = torch.arange(x.shape[1], device=x.device)
    ago = place[:, None] - place
    band = ((ago >= 0) & (ago < width)).to(x.dtype)
    return (band / band.sum(dim=1, keepdim=True)) @ x


class LeverBlock(_Block):
    def __init__(self, config: SASRecLeversConfig) -> None:
        super().__init__(config)
        self.mixing, self.low_pass = config.mixing, config.low_pass
        if config.mixing:
            self.filter_norm = nn.LayerNorm(config.dim)
            self.root = nn.Parameter(torch.randn(config.dim))
            if config.block == "ligr":
                self.filter_gate = nn.Linear(config.dim, config.dim)
        if config.time_gap:
            self.gap_bias = nn.Parameter(torch.zeros(_UNKNOWN + 1, config.heads))

    def forward(self, x: Tensor, gaps: Tensor | None = None) -> Tensor:
        """gaps: the bucket of each query and key, int[B, n, n]; None without times."""
        mixed = self._add(x, "attention", lambda part: self._attend_to(part, gaps))
        if self.mixing:
            mixed = (1 - self.mixing) * mixed + self.mixing * self._add(x, "filter", self._filter)
        return self._add(mixed, "network", self._network)

    def _filter(self, x: Tensor) -> Tensor:
        low = causal_mean(x, self.low_pass)
        return low + self.root.square() * (x - low)

    def _attend_to(self, x: Tensor, gaps: Tensor | None) -> Tensor:
        if gaps is None:
            return self._attend(x)
        joint = self.query_key_value(x)
        query, key, value = joint.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        later = torch.ones(gaps.shape[1:], dtype=torch.bool, device=x.device).triu(1)
        # The number of an unknown gap gets no gradient: it stays 0.
        bias = functional.embedding(gaps, self.gap_bias, padding_idx=_UNKNOWN).permute(0, 3, 1, 2)
        logits = (query * query.shape[-1] ** -0.5) @ key.mT + bias
        weights = logits.masked_fill(later, -torch.inf).softmax(dim=-1)
        attended = dropout(weights, self.dropout, self.training) @ value
        return cast(Tensor, self.attention_output(attended.transpose(1, 2).flatten(2)))


class LeverNetwork(SASRecNetwork):
    def __init__(self, context: BuildContext, config: SASRecLeversConfig) -> None:
        super().__init__(context, config)
        blocks = [LeverBlock(config) for _ in self.blocks]
        for ours, drawn in zip(blocks, self.blocks, strict=True):
            ours.load_state_dict(drawn.state_dict(), strict=False)
        self.blocks, self.profile = nn.ModuleList(blocks), config.profile
        self.gain = nn.Parameter(torch.ones(())) if config.profile else None
        n_items = context.train.n_items
        self.bias = nn.Parameter(torch.zeros(n_items)) if config.item_bias else None

    def set_log(self, log: Interactions) -> None:
        """Keep the time of each user's items on the device that trains, outside saved weights."""
        assert log.time is not None
        keys = log.user.astype(np.int64) * log.n_items + log.item
        order, tick = np.argsort(keys), (log.ticks_per_day or 86_400) // 86_400
        columns = {"keys": keys[order], "times": (log.time - log.time.min())[order]}
        columns["edges"] = tick * 2 ** np.arange(_EDGES, dtype=np.int64)
        for name, column in columns.items():
            tensor = torch.from_numpy(column).to(self.items.weight.device)
            self.register_buffer(name, tensor, persistent=False)

    def gaps(self, users: Tensor, history: Tensor) -> Tensor:
        """int[B, n, n]: the bucket of the time from each key to each query of these users."""
        keys, times, edges = (self.get_buffer(name) for name in ("keys", "times", "edges"))
        wanted = users[:, None] * self.items.num_embeddings + history
        row = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        known, time = (keys[row] == wanted) & (history >= 0), times[row]
        gap = time[:, :, None] - time[:, None, :]
        bucket = torch.bucketize(gap, edges, right=True, out_int32=True)
        return bucket.masked_fill(~(known[:, :, None] & known[:, None, :]), _UNKNOWN)

    def forward(self, history: Tensor, position: Tensor, users: Tensor | None = None) -> Tensor:
        """As SASRec's; users: int64[B], whose times count, None for those without."""
        read, known = self.items(history.clamp(min=0)), (history >= 0)[..., None]
        x = read * self.input_scale + self.positions(position)
        x = dropout(x * known, self.dropout, self.training)
        gaps = None if users is None else self.gaps(users, history)
        for block in self.blocks:
            x = block(x, gaps)
        state = cast(Tensor, self.norm(x))
        if self.gain is None:
            return state
        # In units of the entries of the table, as the normalised state has entries of about 1.
        size = self.items.weight.detach().float().square().mean().sqrt().clamp(min=1e-6)
        return state + self.gain / size * causal_mean(read * known, self.profile)


class SASRecLevers(SASRec):
    """SASRec with each lever as a setting."""

    name = "sasrec_levers"
    config_class = SASRecLeversConfig
    config: SASRecLeversConfig
    _log: Interactions | None = None

    def build(self, context: BuildContext) -> nn.Module:
        return LeverNetwork(context, self.config)

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        self._log = log = split.train_valid
        if self.config.time_gap and (log.ticks_per_day is None or log.repeats):
            raise ConfigError("time_gap needs times since 1970, and every pair once")
        super()._fit(split, seed, context)

    def _build(self, context: BuildContext, seed: int) -> None:
        super()._build(context, seed)
        if self.config.time_gap:
            log = self._log if self._known is None else self._known
            cast(LeverNetwork, self.net).set_log(context.train if log is None else log)

    def user_rows(self, histories: Sequences | None, users: Indices | None) -> Tensor | None:
        """int64[m]: users themselves, for their times; None for new ones."""
        if users is None or not self.config.time_gap:
            return None
        return torch.from_numpy(users.astype(np.int64)).to(self.device)

    def loss(self, batch: Batch) -> Tensor:
        net, config = self.net, self.config
        if config.loss == "sampled":
            return super().loss(batch)
        assert batch.history is not None
        history, position, _ = to_front(batch.history)
        state = net(history, position, batch.users if config.time_gap else None)
        positives = batch.positives.gather(1, position)
        if state.device.type == "cpu":
            known = positives >= 0
            state, positives = state[known], positives[known]
        smoothing = config.label_smoothing
        return softmax_loss(state, net.items.weight, positives, net.bias, smoothing)

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        assert recent is not None
        history, position, count = to_front(recent)
        newest = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, self.config.dim)
        state = self.net(history, position, rows).gather(1, newest).squeeze(1)
        return cast(Tensor, state) if self.net.bias is None else with_constant(state)

    def item_outputs(self) -> Tensor:
        items, bias = self.net.items.weight, self.net.bias
        return cast(Tensor, items if bias is None else torch.column_stack([items, bias]))


def register_levers() -> None:
    """Make `sasrec_levers` known to `models.train`; again is no error."""
    if SASRecLevers.name not in models.available():
        models.register(SASRecLevers.name, SASRecLevers)
