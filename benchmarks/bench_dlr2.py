"""DLR2: training and scoring against a plain eager implementation of the same network."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import leporid
from benchmarks.harness import write_record
from leporid.data.split import Split
from leporid.models import Backward, Batch, Sampler, TrainingData, recent_items
from leporid.models.neural.dlr2.model import DLR2

Step = Callable[[Batch, float], Tensor]
PAIRS_AT_ONCE = 512
SETTINGS = {"users": 1500, "items": 3000, "dim": 64, "max_history": 5, "batch_size": 256}


class PlainDLR2(nn.Module):
    """The network as the paper writes it, one torch layer for each of its words."""

    def __init__(self, n_users: int, n_items: int, length: int, dim: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(n_users, dim), nn.Embedding(n_items, dim)
        self.widen = nn.Conv2d(1, 64, 1, bias=False)
        self.block1 = nn.Sequential(
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
        )
        self.block2 = nn.Sequential(
            nn.Conv2d(64, 128, 3, stride=2, padding=1, bias=False),
            nn.ReLU(),
            nn.Conv2d(128, 128, 3, padding=1, bias=False),
        )
        self.down = nn.Sequential(nn.Conv2d(64, 128, 1, stride=2, bias=False), nn.BatchNorm2d(128))
        self.output = nn.Linear(128 * -(-(length + 1) // 2) * -(-dim // 2), dim)
        self.s, self.g = self._head(2 * dim, 1), self._head(dim, dim)

    @staticmethod
    def _head(inputs: int, outputs: int) -> nn.Sequential:
        sizes = [inputs, 256, 256, 128]
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(128, outputs))

    def state(self, users: Tensor, history: Tensor) -> Tensor:
        """s of Figure 3."""
        image = torch.cat([self.users(users).unsqueeze(1), self.items(history)], dim=1)
        x = torch.relu(self.widen(image.unsqueeze(1)))
        x = torch.relu(self.block1(x) + x)
        x = torch.relu(self.block2(x) + self.down(x))
        s: Tensor = self.output(x.flatten(1))
        return s

    def loss(self, batch: Any) -> Tensor:
        """Eq. 10 + Eq. 11 with a margin of 0.5."""
        s = self.state(batch.users, batch.history)
        good, bad = self.items(batch.positives), self.items(batch.negatives[:, 0])
        near = torch.relu(self.s(torch.cat([s, good], dim=1)))
        far = torch.relu(self.s(torch.cat([s, bad], dim=1)))
        g = torch.tanh(self.g(s))
        gap = (g - good).square().mean(1) - (g - bad).square().mean(1)
        square = near.square() + torch.relu(0.5 - far).square()
        return square.mean() + torch.relu(gap + 0.5).mean()


def run() -> None:
    """Measure on the CPU, and on the GPU if there is one."""
    data = leporid.synthesize(SETTINGS["users"], SETTINGS["items"], 120_000, seed=0)
    split = leporid.temporal_split(data)
    rows: list[dict[str, Any]] = []
    for name in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        device = torch.device(name)
        rows += _training(split, device) + _scoring(split, device)
    notes = [
        f"Plain scoring calls S on the concatenated pairs in batches of {PAIRS_AT_ONCE}; the "
        "states s are computed beforehand in both.",
        "Two-stage: S of 32 anchors estimates S of all items, and the best 200 of a user get their "
        "score; counted as all pairs, with recall of the full top 10 of 200 users.",
        "On a CPU both are bound by the same two matrix products a pair (98 thousand of 131 "
        "thousand multiplications), so full scoring cannot gain more than about 1.3 times plus "
        "what small batches waste; the two-stage mode is the fast one there.",
        "On a GPU a training step is recorded once as a CUDA graph and replayed; launching its "
        "operations one by one takes longer than running them.",
    ]
    name = "dlr2_gpu" if torch.cuda.is_available() else "dlr2"
    write_record(name, rows, {**SETTINGS, "threads": torch.get_num_threads()}, notes)
    for row in rows:
        print(row)


def _training(split: Split, device: torch.device) -> list[dict[str, Any]]:
    size = SETTINGS["batch_size"]
    model = DLR2(steps=1, eval_every=0).fit(split, device=device)
    sampler = Sampler(
        TrainingData.from_interactions(split.train, device), model.sampling(), size, seed=0
    )
    plain = PlainDLR2(split.n_users, split.n_items, 5, 64).to(device)
    steps = 30 if device.type == "cuda" else 4

    def plain_backward(batch: Batch, weight: float) -> Tensor:
        plain.zero_grad(set_to_none=True)
        loss = plain.loss(batch) * weight
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def trainer(module: nn.Module, backward: Step, fused: bool | None) -> Callable[[], None]:
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, fused=fused)
        module.train()

        def work() -> None:
            for step in range(steps):
                backward(sampler.batch(step), 1.0)
                optimizer.step()

        return work

    works = {
        "plain": trainer(plain, plain_backward, None),
        "leporid": trainer(model.net, Backward(model), True),
    }
    if device.type == "cuda":
        works["leporid, not recorded"] = trainer(model.net, Backward(model).eager, True)
    return _compare("training samples/s", device, steps * size, works)


def _scoring(split: Split, device: torch.device) -> list[dict[str, Any]]:
    # S is the same in all designs, and this one is trained in seconds.
    model = DLR2(architecture="no_conv", steps=1000, eval_every=0).fit(split, device=device)
    net, n = model.network, split.n_items
    head = net.discriminative
    count = 400 if device.type == "cuda" else 12
    users = np.arange(count, dtype=np.int32)
    recent = recent_items(split.train.sequences(), users, SETTINGS["max_history"], repeat=True)
    with torch.no_grad():
        s = net.state(net.users(torch.arange(count, device=device)), recent.to(device))
        items, halves = net.items.weight, model.prepare()
        plain = nn.Sequential(
            head.first, nn.ReLU(), head.second, nn.ReLU(), head.third, nn.ReLU(), head.last
        )

        def pair_by_pair() -> Tensor:
            out = []
            for start in range(0, count * n, PAIRS_AT_ONCE):
                pair = torch.arange(start, min(start + PAIRS_AT_ONCE, count * n), device=device)
                both = torch.cat([s[pair // n], items[pair % n]], dim=1)
                out.append(plain(both).squeeze(1))
            return torch.cat(out).view(count, n)

        def fused() -> Tensor:
            return head.all_items(s, halves)

        excluded = split.train.sequences().take(users)
        model.anchors()

        def two_stage() -> Any:
            return model.two_stages(s, 10, 200, excluded)

        difference = float((pair_by_pair() - fused()).abs().max())
        assert difference < 1e-3, difference
        works = {"plain": pair_by_pair, "leporid": fused, "leporid, two-stage": two_stage}
        rows = _compare("scored pairs/s", device, count * n, works)
    return [*rows[:2], {**rows[2], "recall@10": _recall(model, np.arange(200, dtype=np.int32))}]


def _recall(model: DLR2, users: NDArray[np.int32]) -> float:
    """Share of the full ranking's top 10 that two stages find, mean over users."""
    excluded = model.known.sequences().take(users)
    full, found = model.top_k(users, 10), model.retrieve(users, 10, 200, excluded=excluded)
    assert found is not None
    pairs = zip(full.items, found.items, strict=True)
    return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in pairs]))


def _compare(
    what: str, device: torch.device, amount: int, works: dict[str, Callable[[], Any]]
) -> list[dict[str, Any]]:
    """Rates, and their ratio to the first; runs alternate so that all see the same machine."""
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    for _ in range(5):
        for name, work in works.items():
            _wait(device)
            start = time.perf_counter()
            work()
            _wait(device)
            best[name] = min(best[name], time.perf_counter() - start)
    first = next(iter(best.values()))
    return [
        {
            "what": what,
            "device": _name(device),
            "implementation": name,
            "rate": amount / seconds,
            "ratio": first / seconds,
        }
        for name, seconds in best.items()
    ]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
