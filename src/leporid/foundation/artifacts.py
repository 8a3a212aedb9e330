"""Files of models, vectors and caches: written atomically (`atomic`), verified when read.

A folder lists its files and their digests in `manifest.json`, a single file of arrays carries a
checksum (a digest of itself). Nothing here can execute code on load.
"""

import contextlib
import hashlib
import json
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import platformdirs
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, article
from leporid.foundation.atomic import MANIFEST as MANIFEST
from leporid.foundation.atomic import atomic_folder as atomic_folder
from leporid.foundation.atomic import atomic_path as atomic_path
from leporid.foundation.atomic import check_output_file as check_output_file
from leporid.foundation.atomic import check_output_folder as check_output_folder
from leporid.foundation.atomic import recovered as recovered

Array: TypeAlias = NDArray[Any]
"""An array whose kind of numbers is known only when it is written or read."""

_MANIFEST_FORMAT = 1
_CHECKSUM = "checksum"
_DTYPES = {
    "BOOL": "?",
    "I8": "<i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "U8": "<u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}
"""The number formats that numpy has, by the names that safetensors gives them."""
_NAMES = {np.dtype(kind): name for name, kind in _DTYPES.items()}
"""The inverse of `_DTYPES`."""
LARGEST_JSON = 100 * 2**20
"""Bytes of the largest JSON file that is read; the text takes ten times as much in memory."""


def cache_directory() -> Path | None:
    """Return `$LEPORID_CACHE` (None where that is `off`), else `user_cache_directory()`."""
    folder = os.environ.get("LEPORID_CACHE")
    if folder is None:
        return user_cache_directory()
    if folder.strip().lower() in {"off", "0", ""}:
        return None
    return Path(folder).expanduser()


def user_cache_directory() -> Path:
    """Return `leporid` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache` on Linux)."""
    return Path(platformdirs.user_cache_dir("leporid", appauthor=False, opinion=False))


def write_json(target: str | Path, value: object) -> None:
    """Write JSON atomically, with sorted keys so that diffs are readable."""
    text = json.dumps(
        value,
        indent=2,
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
    )
    with atomic_path(target) as path:
        path.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read JSON; a missing, broken or huge file, or a pipe or device, is a `DataError`."""
    try:
        size = regular_size(path)
        if size > LARGEST_JSON:
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
    """Return the bytes of a file; a pipe or a device, which may never end, is a `DataError`."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path} is a pipe or a device: replace it by a regular file")
    return status.st_size


def read_object(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that must hold an object, as `read_json` does."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise DataError(
            f"{path} must hold a JSON object, not {article(type(value).__name__)}",
        )
    return value


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read TOML that a user wrote; a missing or broken file is an error of the library."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def write_arrays(
    target: str | Path,
    arrays: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
    *,
    checksum: bool = False,
) -> None:
    """Write one safetensors file atomically; `checksum` adds a digest of arrays and metadata.

    Equal arrays and metadata give equal bytes, in whatever order they are passed. That is why
    safetensors' own writer is not used: it shuffles the metadata.
    """
    stored = {name: _as_stored(name, array) for name, array in arrays.items()}
    notes = dict(metadata or {})
    if checksum:
        notes[_CHECKSUM] = _checksum(stored, notes)
    # As safetensors orders them: large entries first, so that every array is aligned.
    ordered = sorted(stored.items(), key=lambda pair: (-pair[1].itemsize, pair[0]))
    header = _header(ordered, notes)
    with atomic_path(target) as path, open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _, array in ordered:
            file.write(array.data if array.size else b"")


def _header(arrays: Iterable[tuple[str, Array]], metadata: Mapping[str, str]) -> bytes:
    """Return the header of a safetensors file that holds `arrays` in this order."""
    entries: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, array in arrays:
        begin = end
        end += array.nbytes
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    return text + b" " * (-len(text) % 8)


def read_arrays(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Read the arrays and the metadata of a safetensors file; a checksum it has must match."""
    with _opened(path) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata() or {}
    if _CHECKSUM in metadata and metadata[_CHECKSUM] != _checksum(arrays, metadata):
        raise DataError(
            f"{path} does not match its checksum: it was changed after it was written"
        )
    return arrays, metadata


def check_has_checksum(path: str | Path, metadata: Mapping[str, str]) -> None:
    """Refuse a file of a format that has a checksum, where the checksum is gone."""
    if _CHECKSUM not in metadata:
        raise DataError(
            f"{path} has lost its checksum: it was changed after it was written"
        )


def _as_stored(name: str, array: Array) -> Array:
    """Return the array, contiguous and with the lower byte first, if safetensors has its kind."""
    contiguous = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if contiguous.dtype not in _NAMES:
        raise DataError(
            f"{name} holds {array.dtype}, which safetensors files cannot hold",
        )
    return contiguous


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    """Yield an open safetensors file whose header is sound."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise DataError(f"no such file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                dtype = file.get_slice(name).get_dtype()
                if dtype not in _DTYPES:
                    raise DataError(
                        f"{path} holds numbers of the kind {dtype}, unknown to numpy",
                    )
            yield file
    except SafetensorError as error:
        raise DataError(f"{path} is not a safetensors file: {error}") from None
    except OSError as error:
        raise DataError(f"could not read {path}: {error.strerror or error}") from None


def _checksum(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    """Return a digest of arrays and of their metadata, an old checksum left out."""
    notes = {key: value for key, value in metadata.items() if key != _CHECKSUM}
    hasher = hashlib.blake2b(json.dumps(notes, sort_keys=True).encode(), digest_size=32)
    for name, array in sorted(arrays.items()):
        hasher.update(repr((name, array.dtype.str, array.shape)).encode())
        hasher.update(array.data if array.size else b"")
    return hasher.hexdigest()


def map_arrays(path: str | Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Map a safetensors file: the arrays are the file's pages, loaded when touched.

    Processes share the memory; changes stay in this process. The arrays outlive a file that is
    replaced by a rename, but a file that is truncated kills the process.
    """
    pages, metadata = _mapped_pages(path)
    start = 8 + int.from_bytes(pages[:8].tobytes(), "little")
    header = json.loads(pages[8:start].tobytes())
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        flat = pages[start + first : start + last].view(_DTYPES[entry["dtype"]])
        # Files of other writers may not be aligned.
        if not flat.flags.aligned:
            flat = flat.copy()
        arrays[name] = flat.reshape(entry["shape"])
    return arrays, metadata


def _mapped_pages(path: str | Path) -> tuple[NDArray[np.uint8], dict[str, str]]:
    """Map a whole safetensors file as bytes, and return its metadata."""
    while True:
        with _opened(path) as checked, open(path, "rb") as file:
            metadata = checked.metadata() or {}
            # The file that was checked must be the one that is mapped: again if it was replaced.
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return np.asarray(np.memmap(file, np.uint8, "c")), metadata


def write_manifest(
    folder: str | Path,
    kind: str,
    *names: str,
    beside: str | Path | None = None,
) -> None:
    """Say in `manifest.json` which files make up the `kind` of artifact in `folder`.

    What the manifest in `beside`, the folder that this one replaces, says of other kinds stays.
    """
    folder = Path(folder)
    files = {name: _describe(folder / name) for name in names}
    kinds = {} if beside is None else _kinds_in(Path(beside) / MANIFEST)
    manifest = {"format": _MANIFEST_FORMAT, "kinds": kinds | {kind: files}}
    write_json(folder / MANIFEST, manifest)


def _kinds_in(manifest: Path) -> dict[str, object]:
    """Return what a manifest says of each kind; nothing where it is missing or broken."""
    with contextlib.suppress(DataError):
        if manifest.is_file():
            kinds = read_object(manifest).get("kinds")
            if isinstance(kinds, dict):
                return kinds
    return {}


def check_manifest(
    folder: str | Path,
    kind: str,
    *names: str,
    required: bool = True,
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
    for name, entry in files.items():
        with contextlib.suppress(OSError):  # missing or unreadable
            if isinstance(entry, dict) and _is_as_described(folder / name, entry):
                continue
        raise DataError(
            f"{folder / name} is not the file that was saved here: it was changed, cut short or "
            f"is from another {kind}; save it again or take both from a copy"
        )


def _is_as_described(path: Path, entry: Mapping[str, object]) -> bool:
    """Return whether a file has the size and the digest that its manifest has."""
    if regular_size(path) != entry.get("bytes"):
        return False
    return _describe(path)["blake2b"] == entry.get("blake2b")


def _describe(path: Path) -> dict[str, int | str]:
    """Return the size and the digest of a file."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32))
    return {"bytes": path.stat().st_size, "blake2b": digest.hexdigest()}


def check_csr(
    indptr: Array,
    indices: Array,
    values: Array,
    columns: int,
    what: str,
) -> None:
    """Refuse a stored sparse matrix with indices outside: in a compiled loop they would crash."""
    are_integers = all(
        part.ndim == 1 and part.dtype.kind == "i" for part in (indptr, indices)
    )
    if (
        not are_integers
        or not len(indptr)
        or not (len(indices),) == values.shape == (indptr[-1],)
    ):
        raise DataError(f"{what} is not a sparse matrix: its parts do not fit together")
    if indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise DataError(f"{what} is not a sparse matrix: its rows are not in order")
    if len(indices) and (indices.min() < 0 or indices.max() >= columns):
        raise DataError(f"{what} has column indices outside 0 .. {columns - 1}")
