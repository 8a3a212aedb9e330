"""`FittedArray`: an array that a model learns, declared as an attribute and saved under a key."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import DataError
from leporid.foundation import check_csr
from leporid.graph import canonical

T = TypeVar("T")
Arrays: TypeAlias = dict[str, NDArray[Any]]
"""Arrays of a saved model by their keys."""


class CanBeFitted(Protocol):
    """A model, as far as its fitted arrays look at it."""

    @property
    def known(self) -> object: ...


class FittedArray(Generic[T]):
    """What `fit` learns: an array or a square CSR matrix, which `save` writes under `key`.

    A saved model is refused where it is not float32 of the `shape`, such as `("users", "dim")`: a
    size is "users", "items", a setting, or None for any. Without a shape nothing is checked.
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        shape: tuple[str | None, ...] | None = None,
        sparse: bool = False,
    ) -> None:
        self.key = key or ""
        self.shape = shape
        self.sparse = sparse

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = self.key or name
        self._slot = f"_{name}"

    def __get__(self, model: CanBeFitted, owner: type | None = None) -> T:
        model.known  # noqa: B018 (says "not fitted" where it is not)
        value: T = getattr(model, self._slot)
        return value

    def __set__(self, model: CanBeFitted, value: T) -> None:
        setattr(model, self._slot, value)

    def check(
        self,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        sizes: Mapping[str, object],
    ) -> None:
        """Refuse what is not float32 of the declared shape, whose names `sizes` resolves."""
        if self.shape is None:
            return
        expected = [None if name is None else sizes[name] for name in self.shape]
        fits = len(expected) == len(shape) and all(
            size in (None, actual) for size, actual in zip(expected, shape, strict=True)
        )
        if fits and dtype == np.float32:
            return
        words = ", ".join("any" if size is None else str(size) for size in expected)
        raise DataError(
            f"{self.key} is {dtype} of shape {list(shape)}, the model needs float32 of "
            f"[{words}]"
        )


def declared_arrays(model: CanBeFitted) -> dict[str, FittedArray[Any]]:
    """Return the attributes declared as `FittedArray`; the declaration of a subclass wins."""
    attributes: dict[str, object] = {}
    for cls in reversed(type(model).__mro__):
        attributes |= vars(cls)
    return {
        name: attribute
        for name, attribute in attributes.items()
        if isinstance(attribute, FittedArray)
    }


def arrays_of(model: CanBeFitted) -> Arrays:
    """Return the fitted arrays of a model by key; a sparse matrix is three of them."""
    arrays: Arrays = {}
    for fitted in declared_arrays(model).values():
        value = fitted.__get__(model)
        if sparse.issparse(value):
            arrays[f"{fitted.key}.indptr"] = value.indptr
            arrays[f"{fitted.key}.indices"] = value.indices
            arrays[f"{fitted.key}.data"] = value.data
        else:
            arrays[fitted.key] = value
    return arrays


def restore_arrays(
    model: CanBeFitted,
    arrays: Arrays,
    sizes: Mapping[str, object],
) -> None:
    """Set the fitted arrays of a model to what `arrays_of` returned, and check their shapes."""
    for fitted in declared_arrays(model).values():
        if fitted.sparse or f"{fitted.key}.indptr" in arrays:
            dtype = arrays[f"{fitted.key}.data"].dtype
            value = stored_matrix(arrays, fitted.key)
        else:
            value = arrays[fitted.key]
            dtype = value.dtype
        fitted.__set__(model, value)
        fitted.check(value.shape, dtype, sizes)


def stored_matrix(arrays: Arrays, key: str) -> sparse.csr_array:
    """Return the square sparse matrix that is stored under a key, in canonical form."""
    data = arrays[f"{key}.data"]
    indices = arrays[f"{key}.indices"]
    indptr = arrays[f"{key}.indptr"]
    n = max(indptr.size - 1, 0)
    check_csr(indptr, indices, data, n, key)
    return canonical(sparse.csr_array((data, indices, indptr), shape=(n, n)))


def arrays_under(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose keys begin with a prefix, under the rest of their keys."""
    return {
        key.removeprefix(prefix): array
        for key, array in arrays.items()
        if key.startswith(prefix)
    }
