"""Names for the types of NumPy arrays that functions of several files take."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

AnyArray: TypeAlias = NDArray[Any]
"""An array whose type of entries does not matter."""
Int32Array: TypeAlias = NDArray[np.int32]
"""Indices of users or items."""
Int64Array: TypeAlias = NDArray[np.int64]
"""Counts, positions in other arrays, and times."""
Mask: TypeAlias = NDArray[np.bool_]
"""Which rows are chosen."""
_Entry = TypeVar("_Entry", bound=np.generic)


def rows_of(column: NDArray[_Entry] | None, rows: AnyArray) -> NDArray[_Entry] | None:
    """Return some rows of a column, by a mask or by positions; None where there is no column."""
    return None if column is None else column[rows]
