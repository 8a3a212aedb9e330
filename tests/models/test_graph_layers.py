"""Products with the user-item graph against dense matrices, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from leporid.models.closed_form.products import normalised
from leporid.models.neural import graph
from leporid.models.neural.graph import EdgeProducts, Propagation, bipartite


def ratings(seed: int, users: int, items: int) -> sparse.csr_array:
    """A random matrix whose first row and second column are empty."""
    dense = (np.random.default_rng(seed).random((users, items)) < 0.5).astype(np.float32)
    dense[0], dense[:, 1], dense[1, 0] = 0, 0, 1
    return sparse.csr_array(dense)


def dense_normalized(matrix: sparse.csr_array) -> np.ndarray:
    """D^-1/2 [[0, R], [R^T, 0]] D^-1/2, entry by entry."""
    r = matrix.toarray()
    whole = np.block([[np.zeros((len(r), len(r))), r], [r.T, np.zeros((r.shape[1],) * 2)]])
    degree = whole.sum(1)
    out = np.zeros_like(whole)
    for i, j in zip(*np.nonzero(whole), strict=True):
        out[i, j] = whole[i, j] / np.sqrt(degree[i] * degree[j])
    return out


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), users=st.integers(2, 7), items=st.integers(2, 9))
def test_the_normalised_graph_is_the_dense_one(seed: int, users: int, items: int) -> None:
    matrix = ratings(seed, users, items)
    made = normalised(bipartite(matrix)).toarray()
    np.testing.assert_allclose(made, dense_normalized(matrix), rtol=1e-6)
    np.testing.assert_array_equal(made, made.T)


def test_propagation_and_its_gradient_are_dense_products() -> None:
    matrix = ratings(3, 6, 4)
    dense = torch.from_numpy(dense_normalized(matrix)).float()
    graph = Propagation(matrix)
    x = torch.randn(10, 3, generator=torch.manual_seed(0)).requires_grad_()
    weight = torch.randn(10, 3)
    (grad,) = torch.autograd.grad((graph(x) * weight).sum(), x)
    torch.testing.assert_close(graph(x), dense @ x)
    torch.testing.assert_close(grad, dense.T @ weight)


def test_the_graph_is_not_part_of_what_is_saved() -> None:
    assert Propagation(ratings(0, 4, 5)).state_dict() == {}
    assert EdgeProducts(ratings(0, 4, 5)).state_dict() == {}


@pytest.mark.parametrize("intents", [1, 2, 3])
def test_edge_products_and_their_gradients_are_the_obvious_ones(intents: int) -> None:
    edges = EdgeProducts(ratings(1, 5, 7))
    source = torch.Generator().manual_seed(intents)
    n, dim = 12, 6
    head, tail = edges.head.long(), edges.tail.long()

    def rand(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=source).requires_grad_()

    def slow_sum(weight: Tensor, x: Tensor) -> Tensor:
        messages = weight.T[:, :, None] * x[tail].view(-1, intents, dim // intents)
        return torch.zeros(n, dim).index_add(0, head, messages.flatten(1))

    def slow_dot(a: Tensor, b: Tensor) -> Tensor:
        return (a[head] * b[tail]).view(-1, intents, dim // intents).sum(-1).T

    def slow_laplacian(weight: Tensor) -> Tensor:
        degree = torch.zeros(intents, n).index_add(1, head, weight)
        return weight / (degree[:, head] * degree[:, tail]).sqrt()

    weight, x, y = rand(intents, edges.n_edges), rand(n, dim), rand(n, dim)
    for fast, slow, inputs in (
        (edges.propagate, slow_sum, (weight, x)),
        (lambda a, b: edges.affinity(a, b, intents), slow_dot, (x, y)),
        (edges.laplacian, slow_laplacian, (weight.detach().abs().requires_grad_(),)),
    ):
        result, expected = fast(*inputs), slow(*inputs)
        torch.testing.assert_close(result, expected)
        towards = torch.randn(expected.shape, generator=source)
        got = torch.autograd.grad((result * towards).sum(), inputs)
        wanted = torch.autograd.grad((expected * towards).sum(), inputs)
        torch.testing.assert_close(got, wanted)


def test_gathered_dots_are_the_sampled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of accelerators, in several parts, on the CPU."""
    edges = EdgeProducts(ratings(2, 6, 8))
    a, b = torch.randn(14, 6), torch.randn(14, 6)
    expected = edges.affinity(a, b, 3)
    monkeypatch.setattr(graph, "_EDGES", 5)
    found = graph._gathered_dots(a, b, 3, edges)
    torch.testing.assert_close(found, expected)
