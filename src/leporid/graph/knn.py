"""The exact kNN graph of the rows of an interaction matrix, in memory or in files."""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from leporid.errors import GraphError
from leporid.foundation import (
    Array,
    NullProgress,
    ProgressLike,
    check_device,
    checks_arguments,
    format_bytes,
    make_progress,
    on_each_share,
    resolve_threads,
)
from leporid.graph.kernels.layout import NeighbourLists
from leporid.graph.kernels.symmetrise import add_lacking, merge_rows, row_limits
from leporid.graph.neighbours import directed_neighbours, usable_k
from leporid.graph.types import BinaryCSR, KnnGraph, Side, Similarity, binary_csr

SYMMETRIC = ("jaccard", "cosine")
"""Similarities with sim(i, j) = sim(j, i) to the bit."""
NewArray: TypeAlias = Callable[[str, type[np.generic], int], Array]
"""Makes room for numbers, by name, kind and how many there are."""
WORTH_A_GPU = 4096
"""Rows from which on the transfer to a GPU pays."""
EDGE_BYTES = 8
"""Bytes of a neighbour: index and weight."""


@checks_arguments({"threads": 1})
def knn_graph(
    X: object,
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

    Parameters
    ----------
    X : sparse matrix [n, m], 2-D array, or anything with `.csr()`; rows are the sets of their
        nonzero entries. For the graph of the items pass `X.T`. A data frame with a column of users
        and one of items is read as `leporid.load` does.
    k : neighbours of a row, clipped to n - 1.
    side : what the rows are; a label kept in the graph.
    similarity : "jaccard" or "cosine"; a GPU computes the first, the CPU both.
    device : "cpu", "cuda" (or "cuda:1"), or "auto" for CUDA where it exists and the data is large.
    threads : None for all cores this process may use.
    progress : True for a bar, or an object of your own (`ProgressLike`).
    """
    check_device(device)
    if similarity not in SYMMETRIC:
        raise GraphError(
            f"knn_graph needs a symmetric similarity ({', '.join(SYMMETRIC)}), not {similarity!r}",
        )
    measure = Similarity(similarity)
    members = binary_csr(X)
    k = usable_k(k, members.n - 1)
    reporter = make_progress(progress)
    if uses_gpu(device, members.n) and k > 0 and similarity == "jaccard":
        from leporid.graph.gpu import knn_graph_on

        graph = knn_graph_on(members, k, device, side, reporter)
    else:
        workers = resolve_threads(threads)
        lists = directed_neighbours(
            members,
            members,
            k,
            measure,
            own=np.arange(members.n),
            threads=workers,
            progress=reporter,
        )
        graph = symmetrise(lists, k, side, similarity, workers)
    if progress is True:
        reporter.close()
    return graph


def stored_knn_graph(
    members: BinaryCSR,
    k: int,
    folder: Path,
    memory: int,
    *,
    side: Side = "rows",
    threads: int,
    progress: ProgressLike,
) -> KnnGraph:
    """Make `knn_graph(members, k)` to the bit, with lists and edges in memory-mapped files.

    `memory`: bytes for the part of the graph that is put together at a time.
    """
    n = members.n
    k = usable_k(k, n - 1)
    needed = 3 * n * k * EDGE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise GraphError(
            f"the graph may take {format_bytes(needed)} in {folder}, where "
            f"{format_bytes(free)} are free: lower k, or choose another folder"
        )

    def path(name: str) -> Path:
        return folder / f"{side}-{name}"

    def new_array(name: str, dtype: type[np.generic], size: int) -> Array:
        return _new_file(path(name), dtype, size)

    lists = NeighbourLists(
        rows=new_array("lists", np.int32, n * k).reshape(n, k),
        weights=new_array("list-weights", np.float32, n * k).reshape(n, k),
        length=np.zeros(n, np.int32),
    )
    directed_neighbours(
        members,
        members,
        k,
        Similarity("jaccard"),
        own=np.arange(n),
        threads=threads,
        progress=progress,
        out=lists,
    )
    graph = symmetrise(
        lists,
        k,
        side,
        "jaccard",
        threads,
        new_array,
        edges_at_a_time=max(memory // EDGE_BYTES, 1),
        progress=progress,
    )
    del lists
    path("lists").unlink()
    path("list-weights").unlink()
    return graph


def _new_file(path: Path, dtype: type[np.generic], size: int) -> Array:
    """Map a new file of `size` numbers, its disk space reserved where the system can."""
    try:
        with open(path, "wb") as file:
            if size:
                _reserve(file, size * np.dtype(dtype).itemsize)
    except OSError as error:
        raise GraphError(
            f"could not write {path}: {error.strerror or error}"
        ) from error
    return np.asarray(np.memmap(path, dtype, "r+")) if size else np.zeros(0, dtype)


def _reserve(file: BinaryIO, n_bytes: int) -> None:
    """Give a new file its size, and its disk space where the system can."""
    try:
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    except AttributeError:  # macOS and Windows
        file.truncate(n_bytes)


def _in_memory(_: str, dtype: type[np.generic], size: int) -> Array:
    return np.empty(size, dtype)


def symmetrise(
    lists: NeighbourLists,
    k: int,
    side: Side,
    similarity: str,
    threads: int,
    new_array: NewArray = _in_memory,
    edges_at_a_time: int | None = None,
    progress: ProgressLike | None = None,
) -> KnnGraph:
    """OR-symmetrise: W_ij is set if j is in top-K(i) or i in top-K(j).

    The similarity is symmetric to the bit. The arrays of the graph, `new_array(name, dtype, size)`,
    are filled from front to back in parts of `edges_at_a_time` (None: all at once).
    """
    n = len(lists.length)
    least = np.empty(n, np.float32)
    last = np.empty(n, np.int32)
    lacking = np.zeros(n, np.int64)
    no_indices = np.zeros(0, np.int32)
    no_weights = np.zeros(0, np.float32)

    def find_limits(_: int, begin: int, end: int) -> None:
        row_limits(lists, k, begin, end, least, last)

    def count_lacking(_: int, begin: int, end: int) -> None:
        add_lacking(lists, begin, end, least, last, lacking, no_indices, no_weights)

    on_each_share(find_limits, 0, n, threads)
    on_each_share(count_lacking, 0, n, threads)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lists.length + lacking, out=indptr[1:])
    cursor = indptr[:-1] + lists.length
    indices = new_array("edges", np.int32, int(indptr[-1]))
    weights = new_array("weights", np.float32, int(indptr[-1]))

    def fill(_: int, begin: int, end: int) -> None:
        add_lacking(lists, begin, end, least, last, cursor, indices, weights)
        merge_rows(lists, begin, end, indptr, indices, weights)

    reporter = progress or NullProgress()
    reporter.start("graph", n)
    first = 0
    while first < n:
        stop = n
        if edges_at_a_time is not None:
            last_edge = indptr[first] + edges_at_a_time
            fitting = int(np.searchsorted(indptr, last_edge, side="right")) - 1
            stop = max(first + 1, fitting)
        on_each_share(fill, first, stop, threads)
        reporter.advance(stop - first)
        first = stop
    return KnnGraph(indptr, indices, weights, side, k, similarity)


def uses_gpu(device: str, n: int) -> bool:
    """Return whether to take the torch path; "cuda" without torch or CUDA is an error."""
    check_device(device)
    if str(device).startswith("mps"):
        raise GraphError(
            "graphs are computed on 'cpu' or 'cuda', not on 'mps': use 'auto'",
        )
    if device != "auto":
        return device != "cpu"
    if n < WORTH_A_GPU or not may_have_gpu():
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def may_have_gpu() -> bool:
    """Return whether torch could find a GPU: without a driver its import (2 s) is left out."""
    if "torch" in sys.modules or Path("/dev/kfd").exists():  # AMD's driver
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True
