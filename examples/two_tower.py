"""A two-tower model from random and from LEPORID embeddings, on your own log.

python examples/two_tower.py ratings.csv
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import leporid
from leporid.evaluation import compare_all


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
        loss.backward()
        optimizer.step()


def main(path: str, steps: int = 800) -> None:
    """Print validation NDCG@10 over the steps, then the comparison on test."""
    split = leporid.temporal_split(leporid.load(path).core(5))
    vectors = leporid.initializers.initial_embeddings("leporid", split.train)
    users, items = (torch.from_numpy(s).long() for s in (split.train.user, split.train.item))
    curves: dict[str, dict[int, float]] = {"random": {}, "LEPORID": {}}
    tables = {}
    for name, curve in curves.items():
        best: list[Any] = []

        def watch(step: int, scores: Any, curve: Any = curve, best: list[Any] = best) -> None:
            curve[step] = leporid.evaluate(scores, split, part="valid").mean()["NDCG@10"]
            if curve[step] == max(curve.values()):
                best[:] = [scores]

        torch.manual_seed(1)
        model = TwoTower(split.train.n_users, split.train.n_items)
        if name == "LEPORID":
            leporid.initialize(model, users="users", items="items", embeddings=vectors)
        train(model, users, items, steps, watch)
        tables[name] = leporid.evaluate(best[0], split)
    print("step   random  LEPORID")
    for step, value in curves["random"].items():
        print(f"{step:4}   {value:.4f}   {curves['LEPORID'][step]:.4f}")
    [found] = compare_all(tables, "NDCG@10")
    print(f"on test: {found.describe()}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
