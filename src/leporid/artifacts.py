"""Files of models, vectors and caches: written atomically (`leporid.atomic`), verified when read.

A folder lists its files and their digests in `manifest.json`, a single file of arrays carries a
seal (a digest of itself). Nothing here can execute code on load.
"""

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from leporid.atomic import MANIFEST as MANIFEST
from leporid.atomic import atomic_folder as atomic_folder
from leporid.atomic import atomic_path as atomic_path
from leporid.atomic import check_output_file as check_output_file
from leporid.atomic import check_output_folder as check_output_folder
from leporid.atomic import recovered as recovered
from leporid.errors import DataError, article

_MANIFEST_FORMAT = 1
_SEAL = "seal"
_DTYPES = {
    "BOOL": "?",
    **{
        f"{kind}{8 * size}": f"<{kind.lower()}{size}"
        for kind in "IU"
        for size in (1, 2, 4, 8)
    },
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}
"""How safetensors names the number formats that numpy has."""
_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}
"""The inverse of `_DTYPES`."""
LARGEST_JSON = 100 * 2**20
"""Bytes of the largest JSON file that is read; the text takes ten times as much in memory."""


def cache_directory() -> Path | None:
    """`$LEPORID_CACHE` (None where that is `off`), else `user_cache_directory()`."""
    folder = os.environ.get("LEPORID_CACHE")
    if folder is None:
        return user_cache_directory()
    return (
        None
        if folder.strip().lower() in {"off", "0", ""}
        else Path(folder).expanduser()
    )


def user_cache_directory() -> Path:
    """`leporid` in the user's cache folder: `$XDG_CACHE_HOME` or `~/.cache` on Linux."""
    return Path(platformdirs.user_cache_dir("leporid", appauthor=False, opinion=False))


def write_json(target: str | Path, value: Any) -> None:
    """Write JSON atomically, with sorted keys so that diffs are readable."""
    text = json.dumps(
        value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    with atomic_path(target) as path:
        path.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read JSON; a missing, broken or huge file, or a pipe or device, is a `DataError`."""
    try:
        if (size := regular_size(path)) > LARGEST_JSON:
            raise DataError(
                f"{path} has {size / 2**20:,.0f} MiB, and a JSON file may have at most "
                f"{LARGEST_JSON / 2**20:,.0f}: it was not written by leporid, save it again"
            )
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except OSError as error:
        raise DataError(f"could not read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None


def regular_size(path: str | Path) -> int:
    """The bytes of a file; a pipe or a device, which may never end, is a `DataError`."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path} is a pipe or a device: replace it by a regular file")
    return status.st_size


def read_object(path: str | Path) -> dict[str, Any]:
    """`read_json` of a file that must hold an object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise DataError(
            f"{path} must hold a JSON object, not {article(type(value).__name__)}"
        )
    return value


def write_arrays(
    target: str | Path,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str] | None = None,
    *,
    sealed: bool = False,
) -> None:
    """Write one safetensors file atomically; `sealed` adds a digest of arrays and metadata.

    Equal arrays and metadata give equal bytes, in whatever order they are passed. That is why
    safetensors' own writer is not used: it shuffles the metadata.
    """
    contiguous = {name: _as_stored(name, array) for name, array in arrays.items()}
    about = dict(metadata or {})
    if sealed:
        about[_SEAL] = _seal(contiguous, about)
    # As safetensors orders them: large entries first, so that every array is aligned.
    ordered = sorted(contiguous.items(), key=lambda pair: (-pair[1].itemsize, pair[0]))
    header: dict[str, object] = {"__metadata__": dict(sorted(about.items()))}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_path(target) as path, open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            file.write(array.data if array.size else b"")


def read_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a safetensors file; a seal it has must match."""
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() or {}
    if _SEAL in metadata and metadata[_SEAL] != _seal(arrays, metadata):
        raise DataError(
            f"{path} does not match its seal: it was changed after it was written"
        )
    return arrays, metadata


def check_sealed(path: str | Path, metadata: Mapping[str, str]) -> None:
    """Refuse a file of a format that has a seal, where the seal is gone."""
    if _SEAL not in metadata:
        raise DataError(
            f"{path} has lost its seal: it was changed after it was written"
        )


def _as_stored(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array, contiguous and with the lower byte first, if safetensors has its kind."""
    contiguous = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if contiguous.dtype not in _NAMES:
        raise DataError(
            f"{name} holds {array.dtype}, which safetensors files cannot hold"
        )
    return contiguous


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    """An open safetensors file whose header is sound."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise DataError(f"no such file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                if (dtype := file.get_slice(name).get_dtype()) not in _DTYPES:
                    raise DataError(
                        f"{path} holds numbers of the kind {dtype}, unknown to numpy"
                    )
            yield file
    except SafetensorError as error:
        raise DataError(f"{path} is not a safetensors file: {error}") from None
    except OSError as error:
        raise DataError(f"could not read {path}: {error.strerror or error}") from None


def _seal(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    about = {key: value for key, value in metadata.items() if key != _SEAL}
    hasher = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=32)
    for name, array in sorted(arrays.items()):
        hasher.update(repr((name, array.dtype.str, array.shape)).encode())
        hasher.update(array.data if array.size else b"")
    return hasher.hexdigest()


def map_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """`read_arrays` without reading: the arrays are the file's pages, loaded when touched.

    Processes share the memory; changes stay in this process. The arrays outlive a file that is
    replaced by a rename, but a file that is truncated kills the process.
    """
    while True:
        with _opened(path) as checked, open(path, "rb") as file:
            metadata = checked.metadata() or {}
            # The file that was checked must be the one that is mapped: again if it was replaced.
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                pages = np.asarray(np.memmap(file, np.uint8, "c"))
                break
    start = 8 + int.from_bytes(pages[:8].tobytes(), "little")
    arrays: dict[str, NDArray[Any]] = {}
    for name, about in json.loads(pages[8:start].tobytes()).items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            flat = pages[start + first : start + last].view(_DTYPES[about["dtype"]])
            # Files of other writers may not be aligned.
            arrays[name] = (flat if flat.flags.aligned else flat.copy()).reshape(
                about["shape"]
            )
    return arrays, metadata


def write_manifest(
    folder: str | Path, kind: str, *names: str, beside: str | Path | None = None
) -> None:
    """Say in `manifest.json` which files make up the `kind` of artifact in `folder`.

    What the manifest in `beside`, the folder that this one replaces, says of other kinds stays.
    """
    folder = Path(folder)
    files = {name: _describe(folder / name) for name in names}
    kinds: Any = {}
    if beside is not None and (old := Path(beside) / MANIFEST).is_file():
        with contextlib.suppress(DataError):
            kinds = read_object(old).get("kinds")
    kinds = kinds if isinstance(kinds, dict) else {}
    write_json(
        folder / MANIFEST, {"format": _MANIFEST_FORMAT, "kinds": {**kinds, kind: files}}
    )


def check_manifest(
    folder: str | Path, kind: str, *names: str, required: bool = True
) -> None:
    """Refuse a folder whose files, `names` among them, are not those of its manifest.

    Without a manifest it is refused if one is `required`.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if not path.is_file():
        if required:
            raise DataError(f"{folder} has lost its {MANIFEST}: save it again")
        return
    manifest = read_object(path)
    if manifest.get("format") != _MANIFEST_FORMAT:
        raise DataError(
            f"{path} has the format {manifest.get('format')!r}, this release reads "
            f"{_MANIFEST_FORMAT}: use a newer release"
        )
    kinds = manifest.get("kinds")
    files = kinds.get(kind) if isinstance(kinds, dict) else None
    if not isinstance(files, dict) or not {*names} <= {*files}:
        raise DataError(
            f"{path} does not describe {article(kind)} with {' and '.join(names)}"
        )
    for name, about in files.items():
        with contextlib.suppress(OSError):  # missing or unreadable
            if isinstance(about, dict) and _is_as_described(folder / name, about):
                continue
        raise DataError(
            f"{folder / name} is not the file that was saved here: it was changed, cut short or "
            f"is from another {kind}; save it again or take both from a copy"
        )


def _is_as_described(path: Path, about: Mapping[str, object]) -> bool:
    """Whether a file has the size and the digest that its manifest has."""
    return regular_size(path) == about.get("bytes") and _describe(path) == {
        key: about.get(key) for key in ("bytes", "blake2b")
    }


def _describe(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(
            file, lambda: hashlib.blake2b(digest_size=32)
        ).hexdigest()
    return {"bytes": path.stat().st_size, "blake2b": digest}


def check_csr(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    columns: int,
    what: str,
) -> None:
    """Refuse a stored sparse matrix with indices outside: in a compiled loop they would crash."""
    whole = all(part.ndim == 1 and part.dtype.kind == "i" for part in (indptr, indices))
    if (
        not whole
        or not len(indptr)
        or not (len(indices),) == values.shape == (indptr[-1],)
    ):
        raise DataError(f"{what} is not a sparse matrix: its parts do not fit together")
    if indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise DataError(f"{what} is not a sparse matrix: its rows are not in order")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise DataError(f"{what} has column indices outside 0 .. {columns - 1}")
