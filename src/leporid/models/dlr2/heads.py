"""The two heads of DLR2, S judges an item, G says what the next item looks like; their losses."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from leporid.models.dlr2.config import DLR2Config

_TILE = 1024
"""Items scored at once for one user: their hidden layers stay in the processor's cache."""
_DEVICE_PAIRS = 1 << 19
"""Pairs scored at once on a GPU."""


def generative(dim: int) -> nn.Sequential:
    """G: s -> 256 -> 256 -> 128 -> D."""
    first, second, third = nn.Linear(dim, 256), nn.Linear(256, 256), nn.Linear(256, 128)
    relu = nn.ReLU
    return nn.Sequential(first, relu(), second, relu(), third, relu(), nn.Linear(128, dim))


class Discriminative(nn.Module):
    """S: [s; e_j] -> 256 -> 256 -> 128 -> 1, given before its last ReLU.

    The first layer is a sum of a user half and an item half, so each is computed once for each
    user and once for each item instead of once for each pair.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(2 * dim, 256)
        self.second = nn.Linear(256, 256)
        self.third = nn.Linear(256, 128)
        self.last = nn.Linear(128, 1)

    def user_half(self, s: Tensor) -> Tensor:
        """[..., D or more] -> [..., 256]: what follows the first D belongs to G."""
        return nn.functional.linear(s[..., : self.dim], self.first.weight[:, : self.dim])

    def item_half(self, items: Tensor) -> Tensor:
        """[..., D] -> [..., 256], with the layer's bias."""
        return nn.functional.linear(items, self.first.weight[:, self.dim :], self.first.bias)

    def forward(self, s: Tensor, items: Tensor) -> Tensor:
        """S of some items each: s [B, D], items [B, k, D] -> [B, k]."""
        return self.some_items(s, self.item_half(items))

    def some_items(self, s: Tensor, halves: Tensor) -> Tensor:
        """`forward` on item halves that are known already: [B, k, 256] -> [B, k]."""
        return self._after((self.user_half(s).unsqueeze(1) + halves).relu())

    def _after(self, hidden: Tensor) -> Tensor:
        return cast(Tensor, self.last(self.third(self.second(hidden).relu()).relu()).squeeze(-1))

    def all_items(self, s: Tensor, items: Tensor) -> Tensor:
        """S of every item for every user: s [m, D], item halves [n, 256] -> [m, n].

        A user's scores do not depend on who else is in the batch.
        """
        users = self.user_half(s)
        if s.is_cuda:
            step = max(1, _DEVICE_PAIRS // len(items))
            parts = [self._after((u.unsqueeze(1) + items).relu()) for u in torch.split(users, step)]
            return torch.cat(parts) if parts else users.new_empty((0, len(items)))
        return self._tiles(users, items)

    def _tiles(self, users: Tensor, items: Tensor) -> Tensor:
        """`all_items` on a CPU: buffers are reused, biases and ReLUs applied in place."""
        second, third = self.second.weight.T.contiguous(), self.third.weight.T.contiguous()
        last, shift = self.last.weight[0], self.last.bias
        out = users.new_empty((len(users), len(items)))
        buffers = [users.new_empty((_TILE, width)) for width in (256, 256, 128)]
        for row, user in zip(out, users, strict=True):
            for start in range(0, len(items), _TILE):
                tile = items[start : start + _TILE]
                a, b, c = (buffer[: len(tile)] for buffer in buffers)
                torch.add(tile, user, out=a).relu_()
                torch.addmm(self.second.bias, a, second, out=b).relu_()
                torch.addmm(self.third.bias, b, third, out=c).relu_()
                torch.addmv(shift.expand(len(tile)), c, last, out=row[start : start + len(tile)])
        return out


def square_square(judged: Tensor, config: DLR2Config) -> Tensor:
    """L_S (Eq. 10). judged [B, 1 + k]: S before its last ReLU (if it has one), the positive first.

    Where S is below zero for a negative, the ReLU would stop its gradient; without it the
    parabola goes on, and S can always come back. Above zero the two are the same.
    """
    positive, negatives = judged[:, 0], judged[:, 1:]
    near = (positive.relu() if config.last_relu else positive).square()
    negatives = negatives.relu() if config.relu_on_negatives else negatives
    far = (config.margin - negatives).relu().square().mean(dim=1)
    return (near + far).mean()


def hinge(g: Tensor, candidates: Tensor, margin: float) -> Tensor:
    """L_G (Eq. 11) with the mean squared difference. g [B, D], candidates [B, 1 + k, D]."""
    distance = (g.unsqueeze(1) - candidates).square().mean(dim=-1)
    return (distance[:, :1] - distance[:, 1:] + margin).relu().mean()
