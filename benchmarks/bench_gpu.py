"""The user side on a GPU: neighbours, graph and 64 eigenvectors, after a warm-up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.bench_eigenvectors import ALPHA, DIM, TOL, K, has_gpu, interactions
from benchmarks.harness import timed, write_record

REPEAT = 5


def run() -> None:
    """Measure on the current CUDA device; without one there is nothing to measure."""
    if not has_gpu():
        print("no CUDA device here: nothing measured")
        return
    import torch

    from leporid import Leporid, knn_graph
    from leporid.embeddings import laplacian_eigenpairs

    X = interactions("anime-shaped")

    def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
        def whole() -> Any:
            result = work()
            torch.cuda.synchronize()
            return result

        return timed(whole, repeat=REPEAT)

    first, _ = timed(lambda: Leporid(dim=DIM, k=K, alpha=ALPHA, device="cuda").fit(X))
    torch.cuda.reset_peak_memory_stats()
    found, graph = seconds(lambda: knn_graph(X, k=K, device="cuda"))
    solved, pairs = seconds(
        lambda: laplacian_eigenpairs(graph, DIM, alpha=ALPHA, tol=TOL, device="cuda")
    )
    with mock.patch("leporid.graph.gpu.find_spec", return_value=None):
        by_torch, _ = seconds(lambda: knn_graph(X, k=K, device="cuda"))
    fitted, model = seconds(lambda: Leporid(dim=DIM, k=K, alpha=ALPHA, device="cuda").fit(X))
    peak = torch.cuda.max_memory_allocated() / 2**30
    copied, _ = seconds(lambda: knn_graph(X, k=K, device="cuda").csr())
    rows: list[dict[str, Any]] = [
        {"what": "knn_graph, left on the GPU", "seconds": found},
        {"what": "the same by torch alone, without Triton", "seconds": by_torch},
        {"what": "laplacian_eigenpairs of it", "seconds": solved, "residual": _worst(pairs)},
        {"what": "Leporid.fit, both together", "seconds": fitted, "residual": _worst(model)},
        {"what": "Leporid.fit, first call in the process", "seconds": first},
        {"what": "knn_graph with its edges on the host", "seconds": copied},
    ]
    settings = {
        "device": torch.cuda.get_device_name(),
        "data": f"synthetic, {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} training interactions",
        "k": K,
        "dim": DIM,
        "alpha": ALPHA,
        "edges": graph.n_edges,
    }
    notes = [
        f"{settings['device']}; {settings['data']}; K = {K}, D = {DIM}, {graph.n_edges:,} edges.",
        f"Best of {REPEAT} calls after one of each. Peak GPU memory {peak:.1f} GB.",
        f"A fit takes {fitted:.2f} s (goal: .45), {fitted - found - solved:.2f} s of it outside "
        "both parts.",
    ]
    write_record("gpu", rows, settings, notes)
    for row in rows:
        print(row)


def _worst(result: Any) -> float:
    residuals = result.residuals if hasattr(result, "residuals") else result.residuals_
    return float(np.max(residuals))
