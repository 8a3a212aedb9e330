"""What a model keeps: its fitted arrays, how it was fitted, and the folder that holds both.

`weights.safetensors` has the learnt arrays, the ids and the interactions of the fit; `model.json`
the name and the settings; `manifest.json` says that the two belong together.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import leporid.artifacts as artifacts
from leporid.config import Config
from leporid.data import IdMap, Interactions, Split
from leporid.embeddings import Embedding, InitialEmbeddings, initial_embeddings
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.graph import canonical
from leporid.progress import Progress

_FORMAT = 3
_WEIGHTS, _ABOUT = "weights.safetensors", "model.json"
_CHECKPOINT, _SEARCH = "checkpoint", "search"
"""Folders that `leporid train -o` and `leporid choose -o` make before there is a model."""

LARGEST_WEIGHT = 1e15
"""No model learns a larger weight; the product of two of them is still a float32."""

Arrays = dict[str, NDArray[Any]]
T = TypeVar("T")
REFIT_SHARE = 0.5
"""Of the steps, for which a refit goes on from a fitted model: `stable_vectors` measures it."""


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
        self.key, self.shape, self.sparse = key or "", shape, sparse

    def __set_name__(self, owner: type, name: str) -> None:
        self.key, self._slot = self.key or name, f"_{name}"

    def __get__(self, model: Any, owner: type | None = None) -> T:
        model.known  # noqa: B018 (says "not fitted" where it is not)
        value: T = getattr(model, self._slot)
        return value

    def __set__(self, model: Any, value: T) -> None:
        setattr(model, self._slot, value)


def _declared(model: object) -> dict[str, FittedArray[Any]]:
    """Attributes declared as `FittedArray`; of two declarations that of the subclass."""
    declared = {
        k: v for cls in reversed(type(model).__mro__) for k, v in vars(cls).items()
    }
    return {
        name: value
        for name, value in declared.items()
        if isinstance(value, FittedArray)
    }


def arrays_of(model: object) -> Arrays:
    """The fitted arrays of a model by key; of a sparse matrix its three parts."""
    arrays: Arrays = {}
    for attribute, fitted in _declared(model).items():
        value = getattr(model, attribute)
        if sparse.issparse(value):
            parts = ("indptr", "indices", "data")
            arrays |= {f"{fitted.key}.{part}": getattr(value, part) for part in parts}
        else:
            arrays[fitted.key] = value
    return arrays


def restore(model: object, arrays: Arrays, sizes: dict[str, Any]) -> None:
    """The inverse of `arrays_of`; `sizes` are what a `FittedArray` names in its shape."""
    for attribute, fitted in _declared(model).items():
        key, stored = fitted.key, f"{fitted.key}.indptr" in arrays
        if stored or fitted.sparse:
            names = ("data", "indices", "indptr")
            data, indices, indptr = (arrays[f"{key}.{part}"] for part in names)
            n, dtype = max(indptr.size - 1, 0), data.dtype
            artifacts.check_csr(indptr, indices, data, n, key)
            value = canonical(sparse.csr_array((data, indices, indptr), shape=(n, n)))
        else:
            value, dtype = arrays[key], arrays[key].dtype
        setattr(model, attribute, value)
        if fitted.shape is None:
            continue
        shape = [None if size is None else sizes[size] for size in fitted.shape]
        fits = len(shape) == value.ndim and all(
            size in (None, actual)
            for size, actual in zip(shape, value.shape, strict=True)
        )
        if not fits or dtype != np.float32:
            words = ", ".join("any" if size is None else str(size) for size in shape)
            raise DataError(
                f"{key} is {dtype} of shape {list(value.shape)}, the model needs float32 of "
                f"[{words}]"
            )


@dataclass(frozen=True, kw_only=True)
class Fitting(Config):
    """How a model was fitted. Saved with it."""

    seed: int = 0
    init: dict[str, Any] | None = None
    """`method` and `parameters`; empty for other vectors, None for small random numbers."""
    steps: int = 0
    """Steps the learning rate was spread over; 0 for models without a training loop."""
    best_step: int = 0
    """The step whose weights were kept."""
    final: bool = False
    """Whether it was fitted on everything, the test part included."""
    include_seen: bool = False
    """Whether its lists show items that a user already has, unless somebody asks otherwise."""

    def schedule(self) -> dict[str, Any]:
        """Training settings that repeat the steps up to the best one, without validation."""
        return {
            "steps": self.steps,
            "stop_at": self.best_step,
            "passes": 0.0,
            "eval_every": 0,
        }

    def first_step(self, share: float = REFIT_SHARE) -> int:
        """The step from which on a `share` of the steps up to the best one is left."""
        return round((1 - share) * self.best_step)

    @property
    def has_foreign_init(self) -> bool:
        """Whether the initial embeddings came from elsewhere and cannot be computed again."""
        return self.init is not None and not self.init

    @property
    def item_table(self) -> Any:
        """The item table of the initial embeddings, which holds rows in training; or None."""
        return (self.init or {}).get("parameters", {}).get("items")

    def initial_again(
        self, model: str, split: Split, progress: Progress
    ) -> InitialEmbeddings | None:
        """The initial embeddings of the fit, computed again on another training part."""
        if self.init is None:
            return None
        if not self.init:
            raise DataError(
                f"the initial embeddings of this {model} came from elsewhere and cannot be "
                f"computed again: give vectors for all users and items, refit(data, init=vectors)"
            )
        how = {"cache": False, "progress": progress, **self.init["parameters"]}
        return initial_embeddings(self.init["method"], split.train, **how)


def provenance(vectors: InitialEmbeddings | None) -> dict[str, Any] | None:
    """What `Fitting.init` keeps of initial embeddings."""
    if vectors is None:
        return None
    known = vectors.items.provenance
    # Only an initialiser notes the version of its code; scaled by hand is not as it made them.
    again = "code" in known and "scale" not in known
    return {key: known[key] for key in ("method", "parameters")} if again else {}


def everything(data: Interactions | Split) -> Split:
    """All interactions as one training part, in time order per user; nothing held out."""
    seen = isinstance(data, Split) and data.include_seen
    if isinstance(data, Split):
        whole = Interactions.joined(data.train, data.valid, data.test)
        # Where times are equal or unknown, what was held out comes last.
        keys = (whole.user,) if whole.time is None else (whole.time, whole.user)
        data = whole.select(np.lexsort(keys))
    elif not isinstance(data, Interactions):
        kind = type(data).__name__
        raise DataError(
            f"refit takes Interactions or a Split, not {kind}: use leporid.load(...)"
        )
    nothing = data.select(np.empty(0, dtype=np.int64))
    return Split(data, nothing, nothing, "everything", seen)


def write_saved(
    path: str | Path,
    about: dict[str, Any],
    learnt: Arrays,
    known: Interactions,
    train: Interactions,
) -> Path:
    arrays = {f"model.{key}": value for key, value in learnt.items()}
    arrays |= known.users.to_arrays("users.") | known.items.to_arrays("items.")
    lengths = np.diff(train.sequences().indptr)
    arrays |= {
        **known.to_stored("known"),
        "known.train_lengths": lengths.astype(np.int32),
    }
    with artifacts.atomic_folder(path) as folder:
        artifacts.write_arrays(folder / _WEIGHTS, arrays)
        artifacts.write_json(folder / _ABOUT, {"format": _FORMAT, **about})
        artifacts.write_manifest(folder, "model", _ABOUT, _WEIGHTS)
    return Path(path)


def read_saved(
    path: str | Path, *, mapped: bool = False
) -> tuple[dict[str, Any], Arrays, Interactions, Interactions]:
    """What `write_saved` was given; a folder that is damaged or mixed up is a `DataError`."""
    path = artifacts.recovered(path)
    about = artifacts.read_object(path / _ABOUT)
    named = isinstance(about.get("model"), str)
    if not named or not all(
        isinstance(about.get(k, {}), dict) for k in ("config", "fitting")
    ):
        raise DataError(f"{path / _ABOUT} does not describe a model")
    if about.get("format") != _FORMAT:
        raise DataError(
            f"{path} was saved in format {about.get('format')}, this version reads format "
            f"{_FORMAT}: train the model again and save it"
        )
    artifacts.check_manifest(path, "model", _ABOUT, _WEIGHTS)
    arrays, _ = (artifacts.map_arrays if mapped else artifacts.read_arrays)(
        path / _WEIGHTS
    )
    try:
        users = IdMap.from_arrays(arrays, "user", "users.")
        items = IdMap.from_arrays(arrays, "item", "items.")
        known = Interactions.from_stored(arrays, "known", users, items)
        learnt = arrays_under(arrays, "model.")
        for name, array in learnt.items():
            if array.dtype.kind == "f" and array.size:
                # A NaN anywhere is the minimum and the maximum.
                least, largest = float(array.min()), float(array.max())
                if not np.isfinite([least, largest]).all():
                    raise DataError(f"{name} has NaN or infinite entries")
                if max(-least, largest) > LARGEST_WEIGHT:
                    raise DataError(
                        f"{name} has entries beyond {LARGEST_WEIGHT:g}, whose products overflow"
                    )
        return (
            about,
            learnt,
            known,
            _train_part(known, arrays.get("known.train_lengths")),
        )
    except DataError as error:
        raise DataError(
            f"{path / _WEIGHTS} cannot be used: {error}; train it again"
        ) from None


def _train_part(known: Interactions, lengths: NDArray[Any] | None) -> Interactions:
    """Within a user the training part comes first, then validation."""
    indptr = known.sequences().indptr
    if (
        lengths is None
        or lengths.dtype != np.int32
        or lengths.shape != (known.n_users,)
    ):
        raise DataError("it does not say which interactions were for training")
    if (lengths < 0).any() or (lengths > np.diff(indptr)).any():
        raise DataError("it has more interactions for training than there are")
    position = np.arange(len(known)) - indptr[:-1][known.user]
    return known.select(position < lengths[known.user])


def arrays_under(arrays: Arrays, prefix: str) -> Arrays:
    return {
        key.removeprefix(prefix): a
        for key, a in arrays.items()
        if key.startswith(prefix)
    }


def find_model(path: str | Path, *, validated: bool = False) -> Path | None:
    """The saved model in a run or model folder, or None; `validated`: the one to evaluate."""
    path = artifacts.recovered(path)
    folders = (
        [path, path / "validated", path / "model"]
        if validated
        else [path, path / "model"]
    )
    return next(
        (p for p in folders if (artifacts.recovered(p) / _ABOUT).is_file()), None
    )


def model_folder(path: str | Path, *, validated: bool = False) -> Path:
    """`find_model`, but where there is none a `DataError` says why, and what to do."""
    found = find_model(path, validated=validated)
    if found is not None:
        return found
    path = Path(path)
    if not path.exists():
        raise DataError(f"no such folder: {path}; give one that holds a trained model")
    if not path.is_dir():
        raise DataError(
            f"{path} is a file: give the folder that holds the trained model"
        )
    if (path / _CHECKPOINT).is_dir():
        raise DataError(
            f"the training in {path} has not come to a model: if it was interrupted, run the "
            "same `leporid train` command again with --resume"
        )
    if (path / _SEARCH).is_dir():
        raise DataError(
            f"the search in {path} has not come to a model: if it was interrupted, run the "
            "same `leporid choose` command again, and it goes on"
        )
    raise DataError(
        f"{path} holds no trained model: give a folder that `leporid train -o`, "
        "`leporid choose -o` or `model.save` wrote"
    )


def read_trained(
    path: str | Path, users: str | None = None, items: str | None = None
) -> InitialEmbeddings:
    """The user and item tables of a saved model; one of several per side (NCF) is named."""
    path = Path(path)
    about, learnt, known, _ = read_saved(path, mapped=True)
    provenance = {
        "model": about["model"],
        "config": about.get("config", {}),
        "trained": True,
    }
    first, second = (
        Embedding(_table(learnt, side, name, ids, path), None, provenance)
        for side, name, ids in (
            ("users", users, known.users),
            ("items", items, known.items),
        )
    )
    if first.dim != second.dim:
        raise DataError(
            f"the tables of {path} have {first.dim} and {second.dim} columns"
        )
    return InitialEmbeddings(first, second, known.users, known.items)


def _table(
    arrays: Arrays, side: str, name: str | None, ids: IdMap, path: Path
) -> NDArray[np.float32]:
    tables = {
        key.removesuffix(".weight"): value
        for key, value in arrays.items()
        if value.ndim == 2 and len(value) == len(ids) and value.dtype.kind == "f"
    }
    chosen = (name or side).removesuffix(".weight")
    if name is None and len(tables) == 1:
        [chosen] = tables
    if chosen not in tables:
        if name is not None:
            raise UnknownNameError(f"{side} table", name, tables)
        held = f"several: {', '.join(tables)}; name one" if tables else "none"
        raise ConfigError(f"{path} must have one table of {side}, it has {held}")
    return np.array(tables[chosen], dtype=np.float32)
