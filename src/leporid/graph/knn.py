"""`knn_graph`: the exact neighbour graph of the rows of an interaction matrix."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from leporid.errors import GraphError, MissingExtraError
from leporid.graph.directed import directed_neighbours, usable_k
from leporid.graph.matrix import members_of
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import symmetrise
from leporid.graph.types import KnnGraph, Side
from leporid.progress import ProgressLike, make_progress
from leporid.threads import resolve_threads

SYMMETRIC = ("jaccard", "cosine")
"""Similarities with sim(i, j) = sim(j, i) to the bit."""
WORTH_A_GPU = 4096
"""Rows from which on the transfer to a GPU pays."""


def knn_graph(
    X: Any,
    k: int = 1000,
    *,
    side: Side = "rows",
    similarity: str = "jaccard",
    device: str = "cpu",
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
) -> KnnGraph:
    """Join every row to its k most similar rows: W_ij = sim(i, j) if either chose the other.

    Neighbours are ordered by their similarity as a float32 number, then by smaller index, so the
    graph is the same on every run, thread count and device. A similarity of zero is no edge.
    Memory: two arrays n x k and the graph itself, at most twice that.

    Parameters
    ----------
    X : sparse matrix [n, m], 2-D array, or anything with `.csr()`
        Rows are sets: nonzero entries are members, repeated entries are summed, explicit zeros
        are no members. For the graph of the items pass `X.T`.
    k : neighbours of a row, clipped to n - 1.
    side : what the rows are; a label kept in the graph.
    similarity : "jaccard" or "cosine".
    device : "cpu", "cuda" (or "cuda:1"), or "auto" for CUDA where it exists and the data is large.
    threads : None for all cores this process may use.
    progress : True for a bar, or an object of your own (`leporid.progress`).
    """
    if similarity not in SYMMETRIC:
        raise GraphError(
            f"knn_graph needs a symmetric similarity ({', '.join(SYMMETRIC)}), not {similarity!r}"
        )
    measure = Similarity(similarity)
    members = members_of(X)
    k = usable_k(k, members.n - 1)
    reporter = make_progress(progress)
    if k > 0 and uses_gpu(device, members.n):
        from leporid.graph.gpu import knn_graph_on

        graph = knn_graph_on(members, k, device, measure, side, reporter)
    else:
        workers, own = resolve_threads(threads), np.arange(members.n)
        lists = directed_neighbours(members, members, k, measure, own, workers, reporter)
        graph = symmetrise(lists, k, side, similarity, workers)
    if progress is True:
        reporter.close()
    return graph


def uses_gpu(device: str, n: int) -> bool:
    """Whether to take the torch path; "cuda" without torch or CUDA is an error."""
    if device == "cpu" or (device == "auto" and not (n >= WORTH_A_GPU and may_have_gpu())):
        return False
    try:
        import torch
    except ImportError:
        if device == "auto":
            return False
        raise MissingExtraError(f"device {device!r}", "torch") from None
    if device == "auto":
        return torch.cuda.is_available()
    if not device.startswith("cuda"):
        raise GraphError(f"device must be 'cpu', 'cuda' or 'auto', not {device!r}")
    if not torch.cuda.is_available():
        raise GraphError(f"device {device!r} was asked for, but torch finds no CUDA; use 'auto'")
    return True


def may_have_gpu() -> bool:
    """Whether torch could find a GPU; where there is no driver, its import (2 s) is spared."""
    if "torch" in sys.modules or Path("/dev/kfd").exists():  # AMD's driver
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True
