"""Runs inside RecBole's environment: its full-ranking evaluation of a given score matrix.

As its trainer does it: mask what was seen with -inf, hand the batch to the `Collector`, then the
`Evaluator`. Index tensors of each batch are made before the clock starts.

usage: recbole_evaluator.py FOLDER THREADS REPEAT USERS_PER_BATCH [USERS_PER_BATCH ...]
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from recbole.evaluator import Collector, Evaluator

# RecBole's own `Config` puts this removed alias back for its metrics; it is not used here.
np.float = np.float64  # noqa: NPY001

CONFIG = {
    "metrics": ["Hit", "Precision", "Recall", "NDCG", "MRR", "MAP"],
    "topk": [1, 5, 10],
    "metric_decimal_place": 10,
    "eval_args": {"mode": "full"},
    "device": torch.device("cpu"),
}


def pairs(folder: Path, name: str, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row (within the batch) and item of every pair of users start .. stop."""
    indptr, items = np.load(folder / f"{name}_indptr.npy"), np.load(folder / f"{name}_items.npy")
    rows = np.repeat(np.arange(stop - start), np.diff(indptr[start : stop + 1]))
    inside = items[indptr[start] : indptr[stop]].astype(np.int64)
    return torch.from_numpy(rows), torch.from_numpy(inside)


def high_water() -> int:
    """Peak resident bytes since it was last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Time every batch size and print one line of JSON."""
    folder, threads, repeat = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    scores = torch.from_numpy(np.load(folder / "scores.npy"))
    answer = []
    for size in map(int, sys.argv[4:]):
        batches = [
            (
                scores[start : start + size],
                pairs(folder, "seen", start, min(start + size, len(scores))),
                pairs(folder, "test", start, min(start + size, len(scores))),
            )
            for start in range(0, len(scores), size)
        ]
        seconds, metrics = float("inf"), {}
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = high_water()
        for _ in range(repeat):
            collector, evaluator = Collector(CONFIG), Evaluator(CONFIG)
            begin = time.perf_counter()
            for batch, seen, (positive_u, positive_i) in batches:
                batch[seen] = -np.inf
                collector.eval_batch_collect(batch, None, positive_u, positive_i)
            metrics = evaluator.evaluate(collector.get_data_struct())
            seconds = min(seconds, time.perf_counter() - begin)
        answer.append(
            {
                "users_per_batch": size,
                "seconds": seconds,
                "extra_bytes": high_water() - before,
                "metrics": {key: float(value) for key, value in metrics.items()},
            }
        )
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
