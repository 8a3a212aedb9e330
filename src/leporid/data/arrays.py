"""Names for the types of NumPy arrays that functions of several files take."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

AnyArray: TypeAlias = NDArray[Any]
"""An array whose type of entries does not matter."""
Mask: TypeAlias = NDArray[np.bool_]
"""Which rows are chosen."""
