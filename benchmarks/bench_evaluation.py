"""Full-ranking evaluation: ours against RecBole 1.2.1, on the same scores in one run."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path
from typing import Any

import numba
import numpy as np

from benchmarks.harness import timed, write_record
from benchmarks.peers.environment import run_in
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.split import Split
from leporid.evaluation.evaluator import evaluate
from leporid.foundation import chunk_rows

USERS, ITEMS, SEEN, TEST = 6_000, 3_500, 130, 30
BATCHES = (1, 64, 256, 1024, USERS)
"""Users scored at once by RecBole: its default (eval_batch_size 4096) comes to 1."""
REPEAT = 7
FACTORS = 32
PEER_NAMES = {
    "HR": "hit",
    "Precision": "precision",
    "Recall": "recall",
    "NDCG": "ndcg",
    "MRR": "mrr",
    "MAP": "map",
}


def run() -> None:
    """Compare values, time and memory; write the record."""
    rng = np.random.default_rng(0)
    split = random_split(rng)
    left = rng.normal(size=(USERS, FACTORS)).astype(np.float32)
    right = rng.normal(size=(FACTORS, ITEMS)).astype(np.float32)
    scores = left @ right
    threads = numba.get_num_threads()
    _evaluate_and_average(scores, split)  # compile
    ours, table = timed(lambda: _evaluate_and_average(scores, split), REPEAT)
    extra = extra_memory(lambda: evaluate(lambda users, _: left[users] @ right, split))
    chunk = chunk_rows(ITEMS) * ITEMS * 4
    peer = ask_recbole(scores, split, threads)
    rows = [_row("leporid", ours, ours, extra, chunk, chunk_rows(ITEMS))]
    for found in peer:
        check_equal(table, found["metrics"])
        size = found["users_per_batch"]
        rows.append(
            _row("recbole", found["seconds"], ours, found["extra_bytes"], size * ITEMS * 4, size)
        )
    best = min(found["seconds"] for found in peer)
    notes = [
        f"RecBole at its best batch size takes {best / ours:.1f} times as long (goal: 5).",
        f"Peak memory of leporid, the scores included: {extra / chunk:.2f} chunks (goal: 2).",
        "Both sides give the same HR, precision, recall, NDCG, MRR and MAP at 1, 5 and 10.",
        "leporid's time is the whole call; RecBole's leaves out its data loader, and its memory "
        "leaves out the scores, which are held from the start and masked in place.",
    ]
    settings = {"users": USERS, "items": ITEMS, "seen": SEEN, "test": TEST, "threads": threads}
    write_record("evaluation", rows, settings, notes)
    print("\n".join(notes))


def random_split(rng: np.random.Generator) -> Split:
    """Every user has SEEN training and TEST test items on average, no two the same."""
    users, items = IdMap.range(USERS, "user"), IdMap.range(ITEMS, "item")
    lengths = rng.poisson([[SEEN, TEST]] * USERS) + 1
    drawn = [rng.permutation(ITEMS)[: lengths[u].sum()] for u in range(USERS)]

    def part(column: int) -> Interactions:
        pick = slice(0, 1) if column == 0 else slice(1, 2)
        chosen = [np.split(d, [lengths[u, 0]])[pick][0] for u, d in enumerate(drawn)]
        user = np.repeat(np.arange(USERS), lengths[:, column])
        return Interactions.from_arrays(user, np.concatenate(chosen), None, users, items)

    train, test = part(0), part(1)
    empty = train.select(np.zeros(len(train), dtype=np.bool_))
    return Split(train, empty, test, "random")


def ask_recbole(scores: Any, split: Split, threads: int) -> Any:
    """RecBole's seconds, memory and values for each batch size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "scores.npy", scores)
        for part, data in (("seen", split.known("test")), ("test", split.test)):
            np.save(folder / f"{part}_indptr.npy", data.sequences().indptr)
            np.save(folder / f"{part}_items.npy", data.sequences().items)
        script = Path(__file__).parent / "peers" / "recbole_evaluator.py"
        sizes = [str(size) for size in BATCHES]
        return run_in("recbole", script, name, str(threads), str(REPEAT), *sizes, threads=threads)


def check_equal(means: dict[str, float], theirs: dict[str, float]) -> None:
    """Both must have measured the same thing."""
    for ours, peer in PEER_NAMES.items():
        for n in (1, 5, 10):
            difference = abs(means[f"{ours}@{n}"] - theirs[f"{peer}@{n}"])
            if difference > 1e-6:
                raise SystemExit(f"{ours}@{n} differs from RecBole's by {difference}")


def extra_memory(function: Any) -> int:
    """Bytes the call adds to the resident memory at its peak (Linux)."""
    function()
    # Give freed memory back first: what the allocator kept would hide what the call takes.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    function()
    return _status("VmHWM") - before


def _evaluate_and_average(scores: Any, split: Split) -> dict[str, float]:
    return evaluate(scores, split, metrics=list(PEER_NAMES)).mean()


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"no {key} in /proc/{os.getpid()}/status: this benchmark needs Linux")


def _row(
    library: str, seconds: float, ours: float, extra: int, chunk: int, size: int
) -> dict[str, Any]:
    return {
        "library": library,
        "users at once": size,
        "seconds": round(seconds, 4),
        "times as long": round(seconds / ours, 2),
        "extra memory MiB": round(extra / 2**20, 1),
        "score chunk MiB": round(chunk / 2**20, 1),
    }
