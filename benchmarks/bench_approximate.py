"""Approximate Jaccard neighbours: which library, measured on one set of rows.

    python -m benchmarks.bench_approximate

Synthetic users (20,000 items, 50 interactions each); recall@K on a sample of rows against the exact
search, and the seconds it took to get there. Libraries that are not installed are left out:
`pip install faiss-cpu pynndescent datasketch` measures all of them.
"""

from __future__ import annotations

import importlib.util
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import leporid
from benchmarks.harness import write_record
from leporid.graph.approximate import approximate_neighbours, sketch_rows
from leporid.graph.directed import directed_neighbours
from leporid.graph.matrix import Members, members_of
from leporid.graph.similarity import Similarity
from leporid.progress import NullProgress
from leporid.threads import resolve_threads

USERS, ITEMS, EACH, K = 20_000, 20_000, 50, 100
CANDIDATES = 10
"""Rows a sketch proposes, in multiples of K; the K best of them by exact similarity are kept."""
SAMPLE = 400
LIMIT = 80
"""Seconds after which a method is given up."""
JACCARD = Similarity("jaccard")


class Case:
    """The rows, the sampled ones, and all similarities of those."""

    def __init__(self) -> None:
        self.X = leporid.synthesize(USERS, ITEMS, USERS * EACH, seed=0).csr()
        self.members: Members = members_of(self.X)
        self.sample = np.sort(np.random.default_rng(0).choice(USERS, SAMPLE, replace=False))
        shared = (self.X[self.sample] @ self.X.T).toarray()
        sizes = np.diff(self.X.indptr)
        self.exact = shared / (sizes[self.sample, None] + sizes[None, :] - shared)
        self.exact[np.arange(SAMPLE), self.sample] = -1.0
        self.least = -np.partition(-self.exact, K - 1, axis=1)[:, K - 1]

    def recall(self, proposed: NDArray[Any]) -> float:
        """Of the K best exact ones, those among the proposed rows of the sampled rows (-1 pads)."""
        at = np.take_along_axis(self.exact, np.maximum(proposed, 0), axis=1)
        at[proposed < 0] = -1.0
        best = -np.sort(-at, axis=1)[:, :K]
        return float((best >= self.least[:, None]).mean())


def exact(case: Case) -> NDArray[Any]:
    """Our exact search of all rows."""
    members, threads = case.members, resolve_threads(None)
    own = np.arange(members.n)
    found = directed_neighbours(members, members, K, JACCARD, own, threads, NullProgress())
    return found.rows[case.sample]


def cells(case: Case) -> NDArray[Any]:
    """What `method="approximate"` does: faiss cells, the exact search inside the nearest."""
    threads = resolve_threads(None)
    found = approximate_neighbours(case.members, K, JACCARD, 0, threads, NullProgress())
    rows = found.rows[case.sample].copy()
    rows[np.arange(K) >= found.length[case.sample, None]] = -1
    return rows


def faiss_ivf(case: Case) -> NDArray[Any]:
    """faiss IVF over the sketches; its candidates scored exactly."""
    import faiss

    sketch = sketch_rows(case.members, 64, 0)
    number = round(4 * USERS**0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(64), 64, number, faiss.METRIC_INNER_PRODUCT)
    index.train(sketch)
    index.add(sketch)
    index.nprobe = number // 10
    _, found = index.search(sketch, CANDIDATES * K)
    return np.asarray(found[case.sample])


def faiss_hnsw(case: Case) -> NDArray[Any]:
    """faiss HNSW over the sketches; its candidates scored exactly."""
    import faiss

    sketch = sketch_rows(case.members, 64, 0)
    index = faiss.IndexHNSWFlat(64, 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efSearch = CANDIDATES * K
    index.add(sketch)
    _, found = index.search(sketch, CANDIDATES * K)
    return np.asarray(found[case.sample])


def pynndescent(case: Case) -> NDArray[Any]:
    """NN-descent on the sets themselves, Jaccard."""
    from pynndescent import NNDescent

    matrix = sparse.csr_matrix(case.X)
    index = NNDescent(matrix, metric="jaccard", n_neighbors=K + 1, random_state=0)
    return np.asarray(index.neighbor_graph[0][case.sample])


def datasketch(case: Case) -> NDArray[Any]:
    """MinHash-LSH Forest, 128 permutations; only the sampled rows are queried."""
    from datasketch import MinHash, MinHashLSHForest

    forest = MinHashLSHForest(num_perm=128)
    hashes = []
    for row in range(USERS):
        items = case.members.columns[case.members.indptr[row] : case.members.indptr[row + 1]]
        one = MinHash(num_perm=128, seed=1)
        one.update_batch([str(item).encode() for item in items.tolist()])
        forest.add(row, one)
        hashes.append(one)
    forest.index()
    found = np.full((SAMPLE, CANDIDATES * K), -1)
    for place, row in enumerate(case.sample):
        some = forest.query(hashes[row], CANDIDATES * K)
        found[place, : len(some)] = some
    return found


METHODS: dict[str, tuple[str, Callable[[Case], NDArray[Any]], str]] = {
    "leporid, exact": ("numpy", exact, ""),
    "faiss cells, exact search inside": ("faiss", cells, "a tenth of the rows searched"),
    "faiss IVF over sketches, re-ranked": ("faiss", faiss_ivf, "1000 candidates a row"),
    "faiss HNSW over sketches, re-ranked": ("faiss", faiss_hnsw, "1000 candidates a row"),
    "datasketch LSH Forest, re-ranked": (
        "datasketch",
        datasketch,
        f"only {SAMPLE} of {USERS} rows queried",
    ),
    "pynndescent, Jaccard on the sets": ("pynndescent", pynndescent, "with its compilation"),
}


def _too_long(*_: object) -> None:
    raise TimeoutError


def run() -> None:
    """Measure every method that is installed and write the record."""
    case = Case()
    members_of(case.X[:600])
    exact(case)
    signal.signal(signal.SIGALRM, _too_long)
    rows: list[dict[str, Any]] = []
    for name, (package, method, note) in METHODS.items():
        if importlib.util.find_spec(package) is None:
            continue
        began, cpu = time.perf_counter(), time.process_time()
        signal.alarm(LIMIT)
        row: dict[str, Any] = {"method": name}
        try:
            recall = case.recall(method(case))
            row |= {"seconds": time.perf_counter() - began}
            row |= {"processor s": time.process_time() - cpu, f"recall@{K}": recall, "note": note}
        except (TimeoutError, SystemError):  # the latter is how compiled code passes it on
            row["note"] = f"not finished after {LIMIT} s"
        finally:
            signal.alarm(0)
        rows.append(row)
        print(rows[-1], flush=True)
        write_record(
            "approximate",
            rows,
            {"users": USERS, "items": ITEMS, "interactions a user": EACH, "K": K},
            [
                f"Recall on {SAMPLE} rows: neighbours at least as similar as the K-th exact one. "
                "Candidates of a sketch are scored exactly before the K best are kept; the time "
                "of that is not included.",
                "processor s is the time the cores spent.",
            ],
        )


if __name__ == "__main__":
    run()
