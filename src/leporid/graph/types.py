"""Interaction rows as sets (`BinaryCSR`), their similarities, and graphs: `Graph`, `KnnGraph`.

With c = |A and B| every similarity is, in the one form the search computes,

    similarity = c / (x_i + y_i b_j + g c)

where x, y depend on the query row i only and b on the fitted row j only. `shrink` is added to the
denominator, as in the RecSys'19 evaluation study: it pulls similarities with little support to 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid import data
from leporid.errors import GraphError, UnknownNameError
from leporid.foundation import described, is_table

Block: TypeAlias = NDArray[Any]
"""float32[n, c] or float64[n, c], what a graph is multiplied with."""
Side = Literal["users", "items", "rows"]
SIMILARITIES = ("jaccard", "cosine", "asymmetric_cosine", "tversky", "dice")


class BinaryCSR(NamedTuple):
    """Each row as the set of its columns, without repetition, in CSR form."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    """int32[nnz], ascending within a row."""
    n_columns: int

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """int64[n]: size of each row's set."""
        return np.diff(self.indptr)

    def take(self, rows: NDArray[np.int64]) -> sparse.csr_array:
        """Return float32 csr[len(rows), n_columns] of ones."""
        begins = self.indptr[rows]
        lengths = self.indptr[rows + 1] - begins
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        positions = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], lengths)
        columns = self.columns[positions]
        ones = np.ones(len(columns), np.float32)
        return sparse.csr_array(
            (ones, columns, indptr),
            shape=(len(rows), self.n_columns),
        )


class NotNumbersError(GraphError, TypeError):
    """The matrix holds something that is no number."""


def checked_csr(X: object, name: str = "X") -> sparse.csr_array:
    """Return csr[n, m] of a scipy matrix, a 2-D array of numbers or anything with `.csr()`.

    Repeated entries are summed, indices sorted and zeros left out; X itself does not change.
    scikit-learn's checks of estimators look for some of the words in the errors.
    """
    if not sparse.issparse(X):
        make_csr = getattr(X, "csr", None)
        if callable(make_csr):
            X = make_csr()
    _refuse_logs(X, name)
    numbers: Any = X if sparse.issparse(X) else _numbers(X, name)
    if np.iscomplexobj(numbers):
        raise GraphError(f"Complex data not supported: {name} must hold real numbers")
    if numbers.ndim != 2:
        raise GraphError(
            f"{name} must be 2-D and has {numbers.ndim} axes: Reshape your data with "
            f"X.reshape(-1, 1), or X.reshape(1, -1) for a single row"
        )
    matrix = sparse.csr_array(numbers)
    if 0 in matrix.shape:
        raise GraphError(
            f"{name} is empty, 0 sample(s) or 0 feature(s) (shape={matrix.shape}) while a minimum "
            f"of 1 is required."
        )
    if matrix.dtype.kind == "f" and not np.isfinite(matrix.data).all():
        count = int((~np.isfinite(matrix.data)).sum())
        raise GraphError(f"{name} holds {count} NaN or inf values; remove them first")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if np.count_nonzero(matrix.data) < matrix.nnz:
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def _numbers(X: object, name: str) -> NDArray[Any]:
    """Return an array of the numbers in X, which is no sparse matrix."""
    if X is None or isinstance(X, str | bytes | Mapping):
        raise NotNumbersError(
            f"{name} must hold numbers: give a matrix, an array or leporid.load(...), not "
            f"{described(X)}"
        )
    try:
        array = np.asarray(X)
    except ValueError:
        raise GraphError(
            f"{name} has rows of different lengths: give every row one entry per column"
        ) from None
    if array.dtype.kind in "bifuc":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise NotNumbersError(f"{name} must hold numbers: {error}") from None


def _is_log(X: object) -> bool:
    """Return whether X is a table of users and items; an array or a matrix is none."""
    return is_table(X) and data.is_log(X)


def _refuse_logs(X: object, name: str) -> None:
    """Refuse what holds interactions and is no matrix, and say how one is made of it."""
    if isinstance(X, data.Split):
        raise GraphError(
            f"{name} must be a matrix or a log, not a Split: give it split.train",
        )
    if _is_log(X):
        raise GraphError(
            f"{name} must be a matrix, not a table of users and items: give it "
            f"leporid.load(table).csr(), whose columns are the items in the order of their ids"
        )


def binary_csr(X: object, name: str = "X") -> BinaryCSR:
    """Return the nonzero entries of what `checked_csr` takes, or of a log in a data frame."""
    if isinstance(X, BinaryCSR):
        return X
    if _is_log(X):
        X = data.load(X)
    matrix = checked_csr(X, name)
    return BinaryCSR(
        matrix.indptr.astype(np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
        int(matrix.shape[1]),
    )


def canonical(matrix: object) -> sparse.csr_array:
    """Return float32 CSR with int32 columns and int64 row pointers, so kernels compile once."""
    csr = sparse.csr_array(matrix)
    csr.sort_indices()
    out = sparse.csr_array(csr.shape, dtype=np.float32)
    out.data = csr.data.astype(np.float32, copy=False)
    out.indices = csr.indices.astype(np.int32, copy=False)
    out.indptr = csr.indptr.astype(np.int64, copy=False)
    return out


class Terms(NamedTuple):
    """The coefficients of similarity = c / (x + y b + g c)."""

    x: NDArray[np.float64]
    """float64[n]: one for each query row."""
    y: NDArray[np.float64]
    """float64[n]: one for each query row."""
    b: NDArray[np.float64]
    """float64[m]: one for each fitted row."""
    g: float


@dataclass(frozen=True)
class Similarity:
    """A named similarity and its parameters, d the size of a row's set.

    - jaccard: c / (d_i + d_j - c + shrink)
    - cosine: c / (sqrt(d_i) sqrt(d_j) + shrink)
    - asymmetric_cosine: c / (d_i^a d_j^(1 - a) + shrink)
    - tversky: c / (c + alpha (d_i - c) + beta (d_j - c) + shrink)
    - dice: 2 c / (d_i + d_j + shrink)
    """

    name: str = "jaccard"
    shrink: float = 0.0
    asymmetric_alpha: float = 0.5
    tversky_alpha: float = 1.0
    tversky_beta: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in SIMILARITIES:
            raise UnknownNameError("similarity", self.name, SIMILARITIES)
        for field, value in (
            ("shrink", self.shrink),
            ("tversky_alpha", self.tversky_alpha),
            ("tversky_beta", self.tversky_beta),
        ):
            if not (np.isfinite(value) and value >= 0):
                raise GraphError(f"{field} must be a number of at least 0, not {value}")
        if not 0 <= self.asymmetric_alpha <= 1:
            raise GraphError(
                f"asymmetric_alpha must be between 0 and 1, not {self.asymmetric_alpha}",
            )

    def terms(
        self,
        query_degrees: NDArray[np.int64],
        degrees: NDArray[np.int64],
    ) -> Terms:
        """Return the coefficients for query rows and fitted rows of these sizes."""
        query = query_degrees.astype(np.float64)
        fitted = degrees.astype(np.float64)
        if self.name.endswith("cosine"):
            alpha = 0.5 if self.name == "cosine" else self.asymmetric_alpha
            return Terms(
                x=np.full_like(query, self.shrink),
                y=query**alpha,
                b=fitted ** (1.0 - alpha),
                g=0.0,
            )
        # The others are Tversky's: jaccard with weights of 1, dice with weights of a half.
        alpha, beta, shrink = {
            "jaccard": (1.0, 1.0, self.shrink),
            "dice": (0.5, 0.5, self.shrink / 2),
            "tversky": (self.tversky_alpha, self.tversky_beta, self.shrink),
        }[self.name]
        return Terms(
            x=alpha * query + shrink,
            y=np.ones_like(query),
            b=beta * fitted,
            g=1.0 - alpha - beta,
        )


@runtime_checkable
class Graph(Protocol):
    """A symmetric weighted graph, as an eigensolver needs it; its edges may be elsewhere."""

    @property
    def n(self) -> int:
        """Number of nodes."""

    @property
    def n_edges(self) -> int:
        """Number of stored entries (twice the number of undirected edges)."""

    @property
    def k(self) -> int:
        """Neighbours per row, at most n - 1."""

    def degrees(self) -> NDArray[np.float64]:
        """float64[n]: d = W 1."""

    def csr(self) -> sparse.csr_array:
        """float32[n, n]: the weights as a scipy matrix in this process."""

    def product(self, block: Block) -> Block:
        """Return W block for block float[n, c], in the precision of `block`."""


@dataclass(frozen=True, eq=False, repr=False)
class KnnGraph:
    """A `Graph` in CSR form: W_ij = sim(i, j) if j in top-K(i) or i in top-K(j)."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    """int32[nnz]: the neighbours, ascending within a row; never the row itself."""
    weights: NDArray[np.float32]
    """float32[nnz]: their similarities, all positive, symmetric to the bit."""
    side: Side
    k: int
    similarity: str = "jaccard"

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.n}, n_edges={self.n_edges}, side={self.side!r}, "
            f"k={self.k}, similarity={self.similarity!r})"
        )

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        return int(self.indptr[-1])

    def csr(self) -> sparse.csr_array:
        """Return the weights as a scipy matrix (shares memory)."""
        return sparse.csr_array(
            (self.weights, self.indices, self.indptr),
            shape=(self.n, self.n),
        )

    def degrees(self) -> NDArray[np.float64]:
        return self._degrees

    @cached_property
    def _degrees(self) -> NDArray[np.float64]:
        return row_sums(self.indptr, self.weights)

    @cached_property
    def thresholds(self) -> NDArray[np.float32]:
        """float32[n]: a new row must be more similar than this for row j to choose it.

        A threshold is the K-th largest weight of row j, 0 where j has fewer than K neighbours. A
        tie goes to the smaller index, hence never to the new row.
        """
        thresholds = np.zeros(self.n, dtype=np.float32)
        for row in np.flatnonzero(np.diff(self.indptr) >= self.k):
            weights = self.weights[self.indptr[row] : self.indptr[row + 1]]
            rank = len(weights) - self.k
            thresholds[row] = np.partition(weights, rank)[rank]
        return thresholds

    def product(self, block: Block) -> Block:
        """Return W block; `graph.kernels.product` has a faster way."""
        return np.asarray(self.csr().astype(block.dtype, copy=False) @ block)


def row_sums(
    indptr: NDArray[np.int64],
    weights: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Return float64[n], the sum of each row of a CSR matrix."""
    sums = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    starts = indptr[:-1][filled]
    if len(starts):
        sums[filled] = np.add.reduceat(weights, starts, dtype=np.float64)
    return sums
