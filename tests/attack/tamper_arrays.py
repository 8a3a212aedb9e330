"""Every array of a saved artifact, in every way that it can be wrong.

The manifest is written anew, so that nothing but the checks of the arrays themselves is left. A
changed artifact is refused as a `LeporidError`, or it works: no other exception, at load or later.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from leporid.errors import LeporidError
from leporid.foundation import read_arrays, write_arrays
from leporid.models import Recommender
from leporid.ranking import HistoryUnsupportedError, VectorsUnsupportedError
from tests.attack.tamper_artifacts import with_new_checksum


def changes(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Other shapes, other number formats and other values of one array."""
    yield "empty", array[:0]
    yield "one axis more", array[None]
    yield "one axis more at the end", array[..., None]
    yield "flat", array.reshape(-1)
    yield "one number", np.asarray(array.reshape(-1)[:1].sum(), array.dtype)
    yield "turned", array.T
    for axis in range(array.ndim):
        last = np.take(array, [-1] if array.shape[axis] else [], axis)
        yield f"axis {axis} longer", np.concatenate([array, last], axis)
        yield f"axis {axis} shorter", np.delete(array, slice(-1, None), axis)
        yield f"axis {axis} reversed", np.flip(array, axis)
    for kind in ("float64", "float32", "float16", "int64", "int32", "uint8", "bool"):
        if array.dtype != kind:
            yield kind, array.astype(kind)
    odd = (np.nan, np.inf, 3e38, -3e38) if array.dtype.kind == "f" else (-1, 0, 99, 2**31 - 1)
    for place in (0, -1) if array.size else ():
        for value in odd:
            changed = array.copy()
            changed.reshape(-1)[place] = np.array(value).astype(array.dtype)
            yield f"{value} at {place}", changed


def use_model(path: Path, *, mapped: bool = False) -> None:
    """Load a model and ask it everything."""
    model = Recommender.load(path, mapped=mapped)
    users = np.arange(len(model.users), dtype=np.int32)
    scores = model.score(users)
    assert scores.shape == (len(users), len(model.items))
    assert scores.dtype == np.float32
    model.recommend(model.users.ids.to_pylist(), n=3)
    for ask in (
        lambda: model.recommend_history([model.items.external(0), model.items.external(1)], n=3),
        model.item_vectors,
        lambda: model.user_vectors(model.known.sequences(), users),
    ):
        with contextlib.suppress(HistoryUnsupportedError, VectorsUnsupportedError):
            ask()


def sweep(
    saved: Path, folder: Path, use: Callable[[Path], object], prefix: str = ""
) -> dict[str, str]:
    """The arrays of the one safetensors file of an artifact, changed in every way.

    What went wrong, by array and change: empty where each was refused or of use. `folder` gets
    the changed copy. Only arrays whose names begin with `prefix` are changed.
    """
    copy = folder / "changed"
    shutil.copytree(saved, copy)
    (file,) = copy.glob("*.safetensors")
    arrays, metadata = read_arrays(file)
    wrong = {}
    for name, array in ((name, a) for name, a in arrays.items() if name.startswith(prefix)):
        for how, changed in (("gone", None), *changes(array)):
            held = {key: value for key, value in arrays.items() if key != name}
            with patch("os.fsync"):  # nobody pulls the plug here, and disks are slow
                write_arrays(file, held if changed is None else {**held, name: changed}, metadata)
                with_new_checksum(copy)
            try:
                use(copy)
            except LeporidError as error:
                if "\n" in str(error):
                    wrong[f"{name}, {how}"] = f"several lines: {error}"
            except Exception as error:  # what is being looked for
                wrong[f"{name}, {how}"] = f"{type(error).__name__}: {error}"
    return wrong
