"""The time-cost paragraph: two solvers, one graph, the same eigenvectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from leporid.embeddings import laplacian_operator
from leporid.graph import knn_graph
from reproduction.outputs import write_outputs
from reproduction.time_cost import explicit_matrix, measure_time_cost


def interactions(n: int = 300) -> sparse.csr_array:
    return sparse.random_array((n, 80), density=0.1, rng=np.random.default_rng(1), format="csr")


def test_both_solvers_solve_the_same_problem() -> None:
    rows = measure_time_cost(interactions(), k=20, dim=6)
    assert [row["nodes"] for row in rows] == [300, 300, 300]
    assert all(row["seconds"] > 0 for row in rows)
    assert all(row["residual"] < 1e-5 for row in rows[1:])
    assert rows[2]["times ours"] == rows[2]["seconds"] / rows[1]["seconds"]


def test_the_explicit_matrix_is_the_operator() -> None:
    graph = knn_graph(interactions(60), k=7)
    expected = laplacian_operator(graph, 0.5).dense()
    np.testing.assert_allclose(explicit_matrix(graph, 0.5, np.float64).toarray(), expected)


def test_it_is_a_section_of_the_report(tmp_path: Path) -> None:
    report = write_outputs(["timecost"], "small", tmp_path, tmp_path / "out", users=interactions())
    assert "172 seconds" in report.read_text(encoding="utf-8")
    assert len(json.loads((tmp_path / "out" / "timecost.json").read_text())) == 3
