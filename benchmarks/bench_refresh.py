"""Refreshing a fit against fitting again, after 1%, 5% and 20% more interactions.

`python -m benchmarks refresh [name ...]`: Anime-shaped synthetic users and ml-1m-r3. The log grows
in the order of time; the model of each step is that of the step before, refreshed.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.harness import write_record
from leporid import Interactions, Leporid, load
from leporid.data.synthetic import synthesize
from leporid.progress import NullProgress

GROWTH = (0.01, 0.05, 0.20)
DATA = Path(os.environ.get("LEPORID_DATA", Path(__file__).parents[2] / "shared" / "data"))


class Stopwatch(NullProgress):
    """Seconds until the eigensolver began, and since."""

    def __init__(self) -> None:
        self.began, self.solver = perf_counter(), 0.0

    def start(self, description: str, total: int | None = None) -> None:
        """Note when the eigensolver starts."""
        if description == "eigenvectors" and not self.solver:
            self.solver = perf_counter()

    def read(self) -> dict[str, float]:
        """Seconds of the two stages."""
        end = perf_counter()
        return {"graph s": self.solver - self.began, "solver s": end - self.solver}


def earliest(data: Interactions, count: int) -> Any:
    """csr of the first interactions in time; rows and columns keep their places."""
    assert data.time is not None
    keep = np.zeros(len(data), bool)
    keep[np.argsort(data.time, kind="stable")[:count]] = True
    return data.select(keep).csr()


def compare(name: str, data: Interactions) -> list[dict[str, Any]]:
    """One row a step and a way; the last step is the whole log."""
    sizes = [len(data)]
    for growth in reversed(GROWTH):
        sizes.insert(0, int(sizes[0] / (1 + growth)))
    Leporid(dim=16, k=50).fit(earliest(data, sizes[0])[:3000])  # compile
    model = Leporid().fit(earliest(data, sizes[0]))
    small = earliest(data, sizes[0])[:3000]
    Leporid(dim=16, k=50).fit(small).refresh(small)  # compile
    rows = []
    for growth, size in zip(GROWTH, sizes[1:], strict=True):
        X = earliest(data, size)
        old = model.embedding_.astype(np.float64) @ model.rotation_
        watch = Stopwatch()
        model.refresh(X, progress=watch)
        refreshed = watch.read()
        watch = Stopwatch()
        fresh = Leporid().fit(X, progress=watch)
        again = watch.read()
        assert np.array_equal(model.graph_.indices, fresh.graph_.indices)
        assert np.array_equal(model.graph_.weights, fresh.graph_.weights)
        report = model.report_
        rows.append(
            {
                "data": name,
                "growth": f"{growth:.0%}",
                "way": "fit",
                **again,
                "seconds": sum(again.values()),
                "products": fresh.n_iter_,
                "residual": float(fresh.residuals_.max()),
            }
        )
        rows.append(
            {
                "data": name,
                "growth": f"{growth:.0%}",
                "way": "refresh",
                **refreshed,
                "seconds": sum(refreshed.values()),
                "products": report.products,
                "residual": float(model.residuals_.max()),
                "of fit": sum(refreshed.values()) / sum(again.values()),
                "changed rows": report.changed / report.rows,
                "searched rows": report.searched / report.rows,
                **agreement(model, fresh, old),
            }
        )
        print(rows[-2], rows[-1], sep="\n", flush=True)
    return rows


def agreement(model: Leporid, fresh: Leporid, old: Any) -> dict[str, float]:
    """With a fresh fit, and with the coordinates before."""
    new, other = model.embedding_.astype(np.float64), fresh.embedding_.astype(np.float64)
    overlap = np.linalg.svd(np.linalg.qr(new)[0].T @ np.linalg.qr(other)[0], compute_uv=False)
    sine = np.sqrt(max(0.0, 1.0 - float(overlap.min()) ** 2))
    return {
        "angle to fit": float(np.degrees(np.arcsin(sine))),
        "cos to fit": float(np.abs(_cosines(new, other)).mean()),
        "cos to before": float(_cosines(new[: len(old)], old).mean()),
        "rotated cos to before": float(_cosines((new @ model.rotation_)[: len(old)], old).mean()),
    }


def _cosines(one: Any, other: Any) -> Any:
    lengths = np.linalg.norm(one, axis=0) * np.linalg.norm(other, axis=0)
    return (one * other).sum(axis=0) / lengths


def run() -> None:
    """Both data sets, one record."""
    rows = compare("ml-1m-r3", load(DATA / "ml-1m-r3.parquet"))
    rows += compare("anime-shaped", synthesize(47_143, 6_535, 6_143_751, seed=0))
    write_record(
        "refresh",
        rows,
        {"dim": 64, "k": 1000, "tol": 1e-6, "growth": list(GROWTH)},
        [
            "Steps follow each other: fit, then +1%, +5%, +20% of the interactions, in the order "
            "of time; a fresh fit beside each. The first refresh has no spare neighbours yet.",
            "graph s: neighbours and graph; solver s: eigenvectors, and for a refresh the "
            "alignment. The graphs of both ways were equal to the bit.",
            "angle to fit: largest principal angle to the fresh fit's subspace, in degrees; cos to "
            "fit: mean absolute cosine of the columns.",
            "cos to before: mean cosine of the columns with the vectors before the refresh, by "
            "signs alone, and after `rotation_`.",
        ],
    )
