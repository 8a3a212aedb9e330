"""Eigenpairs against dense `numpy.linalg.eigh`, on graphs of every awkward kind."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from leporid.embeddings import (
    column_signs,
    lanczos,
    laplacian_eigenpairs,
    laplacian_operator,
    regularized_degrees,
)
from leporid.embeddings.eigenpairs import as_graph
from leporid.embeddings.lanczos import EigenProblem
from leporid.embeddings.laplacian import wide_product
from leporid.errors import ConfigError, GraphError, LeporidWarning
from leporid.foundation import NullProgress
from leporid.graph import binary_csr
from leporid.graph.gpu import DeviceGraph, knn_graph_on
from tests.spectral.graphs import (
    GraphElsewhere,
    cliques,
    community_graph,
    largest_angle,
    oracle,
    random_graph,
)

SOLVERS = ["dense", "lanczos"]


def torch_solution(problem, device):
    """Lanczos on a torch device; without torch the test is skipped."""
    pytest.importorskip("torch")
    from leporid.embeddings.lanczos_gpu import torch_solution

    return torch_solution(problem, device)


def check(pairs, W, alpha, normalized=True, tol=1e-5):
    """Orthonormal, small residuals by an independent product, the oracle's eigenvalues."""
    values, vectors = oracle(W, alpha, normalized)
    dim = min(len(pairs.values), len(values))
    scale = 1.0 if normalized else np.abs(values).max(initial=1e-300)
    found = pairs.vectors[:, :dim].astype(np.float64)
    np.testing.assert_allclose(pairs.values[:dim], values[:dim], atol=tol * scale)
    np.testing.assert_allclose(found.T @ found, np.eye(dim), atol=2e-5)
    rebuilt = (vectors * values) @ (vectors.T @ found)
    residuals = np.linalg.norm(rebuilt - found * pairs.values[:dim], axis=0)
    assert residuals.max(initial=0.0) <= tol * scale
    if dim < len(values) and values[dim - 1] - values[dim] > 1e-2 * scale:
        assert largest_angle(found, vectors[:, :dim]) <= 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_solvers_agree_with_dense_eigh(solver, alpha):
    W = community_graph(700, 12, seed=3)
    pairs = laplacian_eigenpairs(W, 12, alpha=alpha, solver=solver)
    assert pairs.solver == solver
    assert pairs.vectors.dtype == np.float32
    assert pairs.vectors.shape == (700, 12)
    check(pairs, W, alpha)
    assert pairs.residuals.max() <= 1.2e-6


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_unnormalized_is_the_bottom_of_the_regularized_laplacian(solver, alpha):
    W = random_graph(300, 40.0, seed=5)
    pairs = laplacian_eigenpairs(W, 5, alpha=alpha, normalized=False, solver=solver)
    check(pairs, W, alpha, normalized=False)
    assert pairs.values.max() <= 1e-4


def test_the_gap_allows_a_tight_angle():
    W = community_graph(800, 8, seed=1)
    values, vectors = oracle(W, 0.5)
    dim = int(np.argmax(values[:12] - values[1:13])) + 1
    assert values[dim - 1] - values[dim] > 0.02
    pairs = laplacian_eigenpairs(W, dim, solver="lanczos")
    assert largest_angle(pairs.vectors, vectors[:, :dim]) <= 1e-4


def test_float64_reaches_tight_tolerances():
    W = community_graph(600, 10, seed=2)
    pairs = laplacian_eigenpairs(W, 10, solver="lanczos", tol=1e-11)
    assert pairs.residuals.max() <= 1e-11
    np.testing.assert_allclose(pairs.values, oracle(W, 0.5)[0][:10], atol=1e-12)


def test_more_copies_of_an_eigenvalue_than_a_block_has_columns_are_all_found():
    # 50 equal cliques: eigenvalue 1 has 50 copies; a block of 16 sees 16 of them.
    W = cliques(9, 50)
    pairs = laplacian_eigenpairs(W, 53, alpha=0.0, solver="lanczos")
    assert pairs.solver == "lanczos"
    np.testing.assert_allclose(pairs.values[:50], 1.0, atol=1e-6)
    np.testing.assert_allclose(pairs.values[50:], -1 / 8, atol=1e-6)
    check(pairs, W, 0.0)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("missing", [0, 1, 3])
def test_complete_and_nearly_complete_graphs_have_all_their_vectors(missing, normalized):
    """All eigenvalues but one or a few are equal, which LAPACK's partial solver fails on."""
    for n in range(2, 61):
        dense = np.full((n, n), 0.7, np.float32) - np.diag(np.full(n, 0.7, np.float32))
        for node in range(min(missing, n - 2)):
            dense[node, -1] = dense[-1, node] = 0.1 * node
        W = sparse.csr_array(dense)
        for dim in sorted({1, 2, (n + 1) // 2, n}):
            pairs = laplacian_eigenpairs(W, dim, normalized=normalized)
            assert pairs.vectors.shape == (n, dim)
            check(pairs, W, 0.5, normalized)


def test_lanczos_solves_a_complete_graph():
    n = 1300
    W = sparse.csr_array(np.ones((n, n), np.float32) - np.eye(n, dtype=np.float32))
    pairs = laplacian_eigenpairs(W, 20)
    assert pairs.solver == "lanczos"
    np.testing.assert_allclose(pairs.values, [1.0] + [-1.0 / (n - 1)] * 19, atol=1e-6)
    vectors = pairs.vectors.astype(np.float64)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(20), atol=2e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_disconnected_graph_spans_every_component(solver):
    parts = [community_graph(n, 3, seed=n) for n in (60, 100, 150, 40)]
    W = sparse.csr_array(sparse.block_diag(parts, format="csr"))
    pairs = laplacian_eigenpairs(W, 8, alpha=0.0, solver=solver)
    values, _ = oracle(W, 0.0)
    assert (values > 1 - 1e-6).sum() >= 4
    check(pairs, W, 0.0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("normalized", [True, False])
def test_isolated_nodes_are_zero_and_counted(solver, normalized):
    W = community_graph(400, 6, seed=4).tolil()
    alone = [0, 7, 399]
    W[alone, :] = 0.0
    W[:, alone] = 0.0
    W = W.tocsr()
    with pytest.warns(LeporidWarning, match="3 of 400 nodes have no edges"):
        pairs = laplacian_eigenpairs(W, 6, solver=solver, normalized=normalized)
    assert not pairs.vectors[alone].any()
    check(pairs, W, 0.5, normalized)


def test_a_graph_without_edges_is_all_zero():
    with pytest.warns(LeporidWarning) as caught:
        pairs = laplacian_eigenpairs(sparse.csr_array((5, 5)), 3)
    assert {str(w.message).split(":")[0] for w in caught} == {
        "5 of 5 nodes have no edges",
        "the graph has 0 nodes with edges, fewer than dim=3",
    }
    assert not pairs.vectors.any()
    assert pairs.vectors.shape == (5, 3)
    assert not pairs.values.any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_fewer_nodes_than_columns_pads_with_zeros(solver):
    W = random_graph(7, 5.0, seed=1)
    n = int((W.sum(axis=1) > 0).sum())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pairs = laplacian_eigenpairs(W, 10, solver=solver)
    assert any(f"the last {10 - n} columns are zero" in str(w.message) for w in caught)
    assert pairs.vectors.shape == (7, 10)
    assert not pairs.vectors[:, n:].any()
    assert not pairs.values[n:].any()
    check(pairs, W, 0.5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_bits(solver):
    W = community_graph(900, 9, seed=6)
    one, two = (laplacian_eigenpairs(W, 9, solver=solver, seed=3) for _ in range(2))
    assert one.vectors.tobytes() == two.vectors.tobytes()
    assert one.values.tobytes() == two.values.tobytes()


def test_the_number_of_threads_does_not_change_a_bit():
    W = community_graph(900, 9, seed=6)
    one, two = (laplacian_eigenpairs(W, 9, solver="lanczos", threads=t) for t in (1, 2))
    assert one.vectors.tobytes() == two.vectors.tobytes()


def test_of_equal_magnitudes_the_first_is_positive():
    vectors = np.array([[0.5, -0.5, -1.0, 0.0], [-0.5, 0.5, 0.3, 0.0]], np.float32)
    assert column_signs(vectors).tolist() == [1.0, -1.0, -1.0, 1.0]


def test_looks_that_are_left_out_could_not_have_ended_the_work(monkeypatch):
    W = community_graph(1500, 12, seed=3)
    looked = []

    class Watch(NullProgress):
        def advance(self, steps=1, **fields):
            looked.extend(fields.values())

    def solved():
        looked.clear()
        pairs = laplacian_eigenpairs(W, 24, solver="lanczos", device="cpu", progress=Watch())
        return pairs, len(looked)

    seldom, few = solved()
    monkeypatch.setattr(lanczos, "FASTEST", 1e30)
    often, many = solved()
    assert few < many
    assert seldom.iterations == often.iterations
    np.testing.assert_array_equal(seldom.vectors, often.vectors)


def test_the_entry_of_largest_magnitude_is_positive():
    pairs = laplacian_eigenpairs(community_graph(500, 7, seed=8), 7)
    peak = np.abs(pairs.vectors).argmax(axis=0)
    assert (pairs.vectors[peak, np.arange(7)] > 0).all()


def test_unreachable_tolerance_is_counted(monkeypatch):
    monkeypatch.setattr("leporid.embeddings.lanczos.MAX_PRODUCTS", 20)
    with pytest.warns(LeporidWarning, match="have not converged"):
        laplacian_eigenpairs(random_graph(700, 10.0, seed=2), 4, solver="lanczos", tol=1e-12)


@settings(deadline=None, max_examples=30)
@given(
    n=st.integers(2, 60),
    degree=st.floats(0.5, 12.0),
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.0, 0.3, 1.0]),
    normalized=st.booleans(),
    dim=st.integers(1, 12),
)
def test_any_small_graph_is_right_and_never_nan(n, degree, seed, alpha, normalized, dim):
    W = random_graph(n, degree, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeporidWarning)
        pairs = laplacian_eigenpairs(W, dim, alpha=alpha, normalized=normalized)
    assert np.isfinite(pairs.vectors).all()
    assert np.isfinite(pairs.values).all()
    assert pairs.vectors.shape == (n, dim)
    check(pairs, W, alpha, normalized)


@settings(deadline=None, max_examples=8)
@given(
    n=st.integers(200, 400),
    degree=st.floats(2.0, 20.0),
    seed=st.integers(0, 10_000),
    copies=st.integers(1, 3),
    alpha=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_lanczos_on_repeated_eigenvalues_and_isolated_nodes(n, degree, seed, copies, alpha):
    one = random_graph(n, degree, seed)
    W = sparse.csr_array(sparse.block_diag([one] * copies, format="csr"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeporidWarning)
        pairs = laplacian_eigenpairs(W, 6, alpha=alpha, solver="lanczos")
    check(pairs, W, alpha)


@pytest.mark.parametrize("normalized", [True, False])
def test_the_device_path_agrees_with_dense_eigh(normalized):
    torch = pytest.importorskip("torch")
    W = community_graph(700, 12, seed=3)
    operator = laplacian_operator(as_graph(W), 0.5, normalized)
    before = torch.get_float32_matmul_precision()
    tol = 1e-6 * operator.norm
    solution = torch_solution(EigenProblem(operator, 12, tol), "cpu")
    assert torch.get_float32_matmul_precision() == before
    values, vectors = oracle(W, 0.5, normalized)
    found = solution.values - operator.shift
    np.testing.assert_allclose(found, values[:12], atol=1e-6 * operator.norm)
    assert solution.residuals.max() <= 1.5 * tol
    rebuilt = (vectors * values) @ (vectors.T @ solution.vectors)
    assert np.linalg.norm(rebuilt - solution.vectors * found, axis=0).max() <= 2 * tol


def test_the_device_path_finds_repeated_eigenvalues():
    operator = laplacian_operator(as_graph(cliques(9, 50)), 0.0)
    solution = torch_solution(EigenProblem(operator, 53, 1e-6), "cpu")
    np.testing.assert_allclose(solution.values[:50], 1.0, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "degree"), [(66_000, 2.0), (17_011, 115.0)])
def test_product_equals_scipy(dtype, n, degree):
    W = random_graph(n, degree, seed=1)
    operator = laplacian_operator(as_graph(W), 0.5)
    product = operator.product()
    x = np.random.default_rng(0).standard_normal((n, 16)).astype(dtype)
    out = np.empty_like(x)
    product(x, np.empty_like(x), out)
    S = sparse.diags_array(operator.scale)
    expected = S @ (W.astype(np.float64) @ (S @ x.astype(np.float64)))
    tolerance = 4e-6 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(out, expected, atol=tolerance * np.abs(expected).max())
    np.testing.assert_allclose(wide_product(product, x[:, :5]), expected[:, :5], atol=1e-12)


def test_regularized_degrees():
    d = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(regularized_degrees(d, 0.25), [2.0, 2.75, 5.0])
    with pytest.raises(ConfigError, match="alpha"):
        regularized_degrees(d, 1.5)


def test_what_is_no_graph_is_refused():
    with pytest.raises(GraphError, match="square"):
        as_graph(np.ones((2, 3)))
    with pytest.raises(GraphError, match="not symmetric"):
        as_graph(np.array([[0.0, 1.0], [0.5, 0.0]]))
    with pytest.raises(GraphError, match="negative"):
        as_graph(np.array([[0.0, -1.0], [-1.0, 0.0]]))
    with pytest.raises(GraphError, match="NaN"):
        as_graph(np.array([[0.0, np.nan], [np.nan, 0.0]]))
    assert as_graph(np.array([[3.0, 1.0], [1.0, 0.0]])).n_edges == 2


@pytest.mark.parametrize(
    "wrong",
    [
        *({"dim": dim} for dim in (0, "x", 2.5, None)),
        *({"tol": tol} for tol in (0.0, "x")),
        {"alpha": "x"},
        {"seed": "x"},
        {"solver": "svd"},
        {"device": "tpu"},
    ],
)
def test_wrong_settings_name_themselves(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        laplacian_eigenpairs(cliques(3, 2), **{"dim": 2, **wrong})


def test_a_graph_made_on_a_device_is_solved_there_without_a_transfer() -> None:
    """The tensors a graph brings along are the graph: the solution is the same."""
    rng = np.random.default_rng(7)
    members = binary_csr(sparse.random_array((900, 60), density=0.12, rng=rng, format="csr"))
    graph = knn_graph_on(members, 20, "cpu", "rows", NullProgress())
    solutions = [
        torch_solution(EigenProblem(laplacian_operator(same), 8, 1e-6), "cpu")
        for same in (graph, as_graph(graph.csr()))
    ]
    np.testing.assert_allclose(solutions[0].values, solutions[1].values, atol=1e-9)
    np.testing.assert_allclose(solutions[0].vectors, solutions[1].vectors, atol=1e-4)
    broken = graph.tensors._replace(weights=graph.tensors.weights * 0 + 1)
    operator = laplacian_operator(DeviceGraph(broken, "rows", 20))
    other = torch_solution(EigenProblem(operator, 8, 1e-6), "cpu")
    assert not np.allclose(other.values, solutions[0].values)


@pytest.mark.parametrize("normalized", [True, False])
def test_a_graph_that_is_elsewhere_multiplies_there(normalized):
    W = community_graph(900, 9, seed=6)
    graph = GraphElsewhere(as_graph(W))
    settings = {"normalized": normalized, "solver": "lanczos", "device": "auto"}
    there = laplacian_eigenpairs(graph, 9, **settings)
    assert graph.products >= there.iterations > 0
    check(there, W, 0.5, normalized)
    here = laplacian_eigenpairs(W, 9, **settings)
    np.testing.assert_allclose(there.values, here.values, rtol=1e-6)
