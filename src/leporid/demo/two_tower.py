"""A two-tower model in plain PyTorch; `examples/two_tower.py` is a program of its own with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class TwoTower(nn.Module):
    """One embedding per user and per item; the score of a pair is their dot product."""

    def __init__(self, n_users: int, n_items: int, dim: int = 64) -> None:
        super().__init__()
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Embedding(n_items, dim)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=dim**-0.5)  # rows of length 1, on average

    def forward(self, users: Tensor) -> Any:
        """The scores of all items for these users."""
        return self.users(users) @ self.items.weight.T


def train(
    model: TwoTower, users: Tensor, items: Tensor, steps: int, watch: Callable[[int, Any], None]
) -> None:
    """Learn which item each user chose; 20 times `watch` gets the step and all scores."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(steps + 1):
        if step % max(1, steps // 20) == 0:
            with torch.no_grad():
                watch(step, model(torch.arange(model.users.num_embeddings)).numpy())
        batch = torch.randint(len(users), (512,))
        loss = nn.functional.cross_entropy(model(users[batch]), items[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
