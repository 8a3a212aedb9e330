"""One process against a Dask cluster of two workers on the same machine: what the cluster costs.

Both have the same cores, so there is nothing to win here; the difference is the price of moving
blocks and panels between processes. Workers on machines of their own pay the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import peak_memory_mb, write_record
from leporid.foundation import NullProgress

K, DIM, WORKERS = 1000, 64, 2
ANIME = {"users": 47_143, "items": 6_535, "interactions": 6_143_751}


class Stages(NullProgress):
    """Seconds of each stage, and the bytes the loopback device had carried when it began."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float, int]] = []

    def start(self, description: str, total: int | None = None) -> None:
        """A stage begins."""
        self.began.append((description, perf_counter(), loopback_bytes()))

    def measured(self) -> dict[str, tuple[float, int]]:
        """Seconds and bytes by stage, the last one until now."""
        ends = [*self.began[1:], ("", perf_counter(), loopback_bytes())]
        return {
            name: (end[1] - start, end[2] - carried)
            for (name, start, carried), end in zip(self.began, ends, strict=True)
        }


def loopback_bytes() -> int:
    """What the loopback device has received so far, by every process of this machine."""
    counters = Path("/proc/net/dev")
    if not counters.is_file():
        return 0
    for line in counters.read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    return 0


def measure(X: sparse.csr_array, client: Any | None) -> tuple[dict[str, Any], Any]:
    """One fit by stages, after a small one that loads the compiled code everywhere."""
    from leporid import Leporid

    settings: dict[str, Any] = {"dim": DIM, "k": K, "device": "cpu"}
    Leporid(**settings).fit(X[:4000], client=client)
    stages = Stages()
    begin = perf_counter()
    model = Leporid(**settings).fit(X, client=client, progress=stages)
    total = perf_counter() - begin
    spent = stages.measured()
    products = model.n_iter_
    row = {
        "fit": "one process" if client is None else f"Dask, {WORKERS} workers with 1 thread",
        "neighbours s": spent["neighbours"][0],
        "graph s": spent["graph"][0] if client is not None else None,
        "eigenvectors s": spent["eigenvectors"][0],
        "whole s": total,
        "products": products,
        "ms a product": 1000.0 * spent["eigenvectors"][0] / products,
    }
    if client is not None:
        panel = X.shape[0] * 16 * 4
        row["MB a product to workers"] = WORKERS * panel / 1e6
        row["MB a product back"] = panel / 1e6
        row["MB a product on loopback"] = spent["eigenvectors"][1] / products / 1e6
        row["peak MB of a worker"] = max(client.run(peak_memory_mb).values())
    return row, model


def run() -> None:
    """Measure and write `records/distributed.json`."""
    from distributed import Client, LocalCluster
    from leporid import synthesize

    X = synthesize(**ANIME, seed=0).csr()
    alone, here = measure(X, None)
    print(alone, flush=True)
    with (
        TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            local_directory=folder,
            memory_limit=0,
        ) as cluster,
        Client(cluster) as client,
    ):
        shared, there = measure(X, client)
    alone["times one process"] = 1.0
    shared["times one process"] = shared["whole s"] / alone["whole s"]
    shared["same bits"] = bool(np.array_equal(here.embedding_, there.embedding_))
    print(shared, flush=True)
    columns = list(dict.fromkeys([*alone, *shared]))
    write_record(
        "distributed",
        [
            {name: row[name] for name in columns if row.get(name) is not None}
            for row in (alone, shared)
        ],
        {"k": K, "dim": DIM, "anime-shaped": ANIME, "workers": WORKERS},
        [
            "Both use the same cores of one machine: the ratio is the price of the cluster, "
            "not its gain.",
            "neighbours of one process include the symmetrisation; on the cluster it is the "
            "shuffle, under graph.",
            "to workers and back: the panel of 16 float32 columns, once to each worker, and its "
            "image; on loopback: all bytes the device carried, with the passage through the "
            "scheduler, Dask's own messages, and the last products in float64.",
            "same bits: whether the embedding equals that of one process exactly.",
        ],
    )


if __name__ == "__main__":
    run()
