"""Files that are either wholly there or not there: arrays as safetensors, the rest as JSON.

Everything is written beside its target and renamed into place, so a full disk, Ctrl-C or a
kill never leaves half a file under the final name. Nothing here can execute code on load.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from leporid.errors import DataError

_DTYPES = {
    "BOOL": "?",
    **{f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}
"""How safetensors names the number formats that numpy has."""


def cache_directory() -> Path | None:
    """Where things are kept that can be fetched or computed again; None where that is off.

    `$LEPORID_CACHE` (the word `off` switches the cache off), else `user_cache_directory()`.
    """
    folder = os.environ.get("LEPORID_CACHE")
    if folder is None:
        return user_cache_directory()
    return None if folder.strip().lower() in {"off", "0", ""} else Path(folder).expanduser()


def user_cache_directory() -> Path:
    """`leporid` in the user's cache folder: `$XDG_CACHE_HOME` or `~/.cache` on Linux."""
    return Path(platformdirs.user_cache_dir("leporid", appauthor=False, opinion=False))


@contextlib.contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it over `target` on success only."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError as error:
        raise DataError(f"could not write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(target: str | Path) -> Iterator[Path]:
    """Yield a folder beside `target` that takes its place on success, and vanishes otherwise.

    It starts empty. What else lies in `target` (checkpoints, logs) is taken over in the end, as
    hard links where the file system has them.
    """
    target = Path(target)
    if target.exists() and not target.is_dir():
        raise DataError(f"could not write {target}: it is a file, choose a folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise DataError(f"could not write {target}: {error.strerror or error}") from error
    fresh, retired = aside / "new", aside / "old"
    try:
        fresh.mkdir()
        yield fresh
        if target.exists():
            for old in target.iterdir():
                if not (fresh / old.name).exists():
                    _take_over(old, fresh / old.name)
            target.replace(retired)
        fresh.replace(target)
    except OSError as error:
        if retired.exists() and not target.exists():
            retired.replace(target)
        raise DataError(f"could not write {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _take_over(source: Path, destination: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, destination, copy_function=_link)
    else:
        _link(str(source), str(destination))


def _link(source: str, destination: str) -> None:
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


def write_json(target: str | Path, value: Any) -> None:
    """Write JSON atomically, with sorted keys so that diffs are readable."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with atomic_path(target) as path:
        path.write_text(text + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any:
    """Read JSON; a missing or broken file is a `DataError` that names it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None


def write_arrays(
    target: str | Path,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named arrays as one safetensors file, atomically."""
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with atomic_path(target) as path:
        save_file(contiguous, path, metadata=dict(metadata or {}))


def read_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a safetensors file."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise DataError(f"no such file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(f"{path} is not a safetensors file: {error}") from None


def map_arrays(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """`read_arrays` without reading: the arrays are the file's pages, loaded when touched.

    Processes that map the same file share the memory. The arrays can be written to; changes stay
    in this process and never reach the file. They live on when the file is replaced by a rename,
    which is how everything here writes; a file that is cut short in place takes the process down.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise DataError(f"no such file: {path}")
    while True:
        with open(path, "rb") as file:
            try:
                with safe_open(path, framework="numpy") as checked:
                    metadata = checked.metadata() or {}
            except SafetensorError as error:
                raise DataError(f"{path} is not a safetensors file: {error}") from None
            # What was checked must be what is mapped: again if the name changed hands in between.
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
                break
    length = int.from_bytes(pages[:8], "little")
    header: dict[str, Any] = json.loads(pages[8 : 8 + length])
    header.pop("__metadata__", None)
    odd = [about["dtype"] for about in header.values() if about["dtype"] not in _DTYPES]
    if odd:
        raise DataError(f"{path} holds numbers of the kind {odd[0]}, which numpy does not have")
    return {name: _mapped(pages, 8 + length, about) for name, about in header.items()}, metadata


def _mapped(pages: mmap.mmap, start: int, about: Mapping[str, Any]) -> NDArray[Any]:
    """One tensor of the file; it keeps the mapping alive."""
    dtype = np.dtype(_DTYPES[about["dtype"]])
    begin, shape = start + about["data_offsets"][0], tuple(about["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(shape, dtype)
    flat = np.frombuffer(pages, dtype, count, begin)
    # Other writers may have packed numbers across the boundaries the processor likes.
    return (flat if flat.flags.aligned else flat.copy()).reshape(shape)
