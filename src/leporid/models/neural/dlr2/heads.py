"""The heads of DLR2: S scores an item, G says what the next item looks like."""

import torch
from torch import Tensor, nn
from torch.nn import functional

_TILE = 1024
"""Items scored at once for one user: their hidden layers stay in the processor's cache."""
_DEVICE_PAIRS = 1 << 19
"""Pairs scored at once on a GPU."""


def generative(dim: int) -> nn.Sequential:
    """Return G: s -> 256 -> 256 -> 128 -> D."""
    return nn.Sequential(
        nn.Linear(dim, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, dim),
    )


class Discriminative(nn.Module):
    """S: [s; e_j] -> 256 -> 256 -> 128 -> 1, given before its last ReLU.

    The first layer is a sum of a user half and an item half, each computed once.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.first = nn.Linear(2 * dim, 256)
        self.second = nn.Linear(256, 256)
        self.third = nn.Linear(256, 128)
        self.last = nn.Linear(128, 1)

    def user_half(self, s: Tensor) -> Tensor:
        """Map [..., D or more] to [..., 256]; what follows the first D belongs to G."""
        weight = self.first.weight[:, : self.dim]
        return functional.linear(s[..., : self.dim], weight)

    def item_half(self, items: Tensor) -> Tensor:
        """Map [..., D] to [..., 256], with the layer's bias."""
        weight = self.first.weight[:, self.dim :]
        return functional.linear(items, weight, self.first.bias)

    def forward(self, s: Tensor, items: Tensor) -> Tensor:
        """Return S of some items each, [B, k]; s: [B, D], items: [B, k, D]."""
        return self.some_items(s, self.item_half(items))

    def some_items(self, s: Tensor, halves: Tensor) -> Tensor:
        """Return `forward` from item halves [B, k, 256] that are known already, [B, k]."""
        hidden = self.user_half(s).unsqueeze(1) + halves
        return self._after_first(hidden.relu())

    def _after_first(self, hidden: Tensor) -> Tensor:
        """Apply all layers but the first."""
        hidden = self.second(hidden).relu()
        hidden = self.third(hidden).relu()
        scores: Tensor = self.last(hidden)
        return scores.squeeze(-1)

    def all_items(self, s: Tensor, items: Tensor) -> Tensor:
        """Return S of every item for every user, [m, n]; s: [m, D], item halves: [n, 256]."""
        users = self.user_half(s)
        if not s.is_cuda:
            return self._tiles(users, items)
        step = max(1, _DEVICE_PAIRS // len(items))
        parts = [
            self._after_first((part.unsqueeze(1) + items).relu())
            for part in torch.split(users, step)
        ]
        return torch.cat(parts) if parts else users.new_empty((0, len(items)))

    def _tiles(self, users: Tensor, items: Tensor) -> Tensor:
        """Compute `all_items` on a CPU: buffers are reused, biases and ReLUs applied in place."""
        second = self.second.weight.T.contiguous()
        third = self.third.weight.T.contiguous()
        last = self.last.weight[0]
        shift = self.last.bias
        scores = users.new_empty((len(users), len(items)))
        first_buffer = users.new_empty((_TILE, 256))
        second_buffer = users.new_empty((_TILE, 256))
        third_buffer = users.new_empty((_TILE, 128))
        for row, user in zip(scores, users, strict=True):
            for start in range(0, len(items), _TILE):
                tile = items[start : start + _TILE]
                size = len(tile)
                first_layer = first_buffer[:size]
                second_layer = second_buffer[:size]
                third_layer = third_buffer[:size]
                torch.add(tile, user, out=first_layer).relu_()
                torch.addmm(
                    self.second.bias, first_layer, second, out=second_layer
                ).relu_()
                torch.addmm(
                    self.third.bias, second_layer, third, out=third_layer
                ).relu_()
                torch.addmv(
                    shift.expand(size),
                    third_layer,
                    last,
                    out=row[start : start + size],
                )
        return scores
