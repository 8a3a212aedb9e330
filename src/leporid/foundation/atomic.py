"""A file or folder is complete or absent, whenever a process dies.

Everything is written beside its target, under a hidden name with the process id and a lock, and
renamed in one step. The next write to the same target removes what dead processes left.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

from leporid.errors import DataError

try:
    import fcntl
except ImportError:  # Windows: what dead processes left stays
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"
"""The file that is renamed after all others."""
_TEMPORARY = re.compile(r"\.(?P<target>.+)\.(?P<process>\d+)\.[0-9a-f]{8}", re.DOTALL)
"""Name of what is being written: the target's name, the process id and random digits."""
_SWEEPING = threading.Lock()
LEAST_FREE = 10_000_000
"""Bytes that a disk must have free before work begins whose result goes there."""
_SWAP = 2
"""RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS."""


def check_output_folder(target: str | Path) -> None:
    """Refuse a folder that could not be written, before any work is done."""
    target = Path(target)
    if target.exists() and not target.is_dir():
        raise DataError(f"could not write {target}: it is a file, choose a folder")
    _check_writable(target, target)


def check_output_file(target: str | Path) -> None:
    """Refuse a file that could not be written, before any work is done."""
    target = Path(target)
    if target.is_dir():
        raise DataError(
            f"could not write {target}: it is a folder, give the name of a file"
        )
    _check_writable(target, target.parent)


def _check_writable(target: Path, folder: Path) -> None:
    """Refuse a target whose folder cannot be made or written, or lies on a full disk."""
    with _os_errors(target):
        near = folder.absolute()
        while not os.path.lexists(near):
            near = near.parent
        if not near.is_dir():
            raise DataError(
                f"could not write {target}: {near} is no folder, choose another place"
            )
        try:
            tempfile.TemporaryFile(dir=near).close()
        except OSError as error:
            raise DataError(
                f"could not write {target}: nothing can be written into {near} "
                f"({error.strerror or error}), choose another place"
            ) from None
        free = shutil.disk_usage(near).free
    if free < LEAST_FREE:
        raise DataError(
            f"could not write {target}: only {free / 1e6:.1f} MB are free on its disk, and "
            f"{LEAST_FREE / 1e6:.0f} MB are the least; make room or choose another place"
        )


@contextlib.contextmanager
def atomic_path(target: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it over `target` on success only."""
    target = Path(target)
    with _os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(target, folder=False) as temporary:
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)


@contextlib.contextmanager
def atomic_folder(
    target: str | Path, *, copy: bool = False, without: Collection[str] = ()
) -> Iterator[Path]:
    """Yield a folder beside `target` that replaces it on success, and is removed otherwise.

    It is empty at first, or with `copy` a copy of `target`. Other files of `target` are taken over
    in the end, except what `without` names. Both are hard links: replace files, do not change
    them. A folder that cannot be renamed is filled file by file, its manifest last.
    """
    with _os_errors(target):
        path = Path(target).resolve()
        if path.exists() and not path.is_dir():
            raise DataError(f"could not write {target}: it is a file, choose a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        stays = _stays(path)
        with _temporary(path / "folder" if stays else path, folder=True) as aside:
            fresh = aside / "new"
            fresh.mkdir()
            if copy:
                _take_over(path, fresh, without)
            yield fresh
            if stays:
                _fill(path, fresh, without)
                return
            _take_over(path, fresh, without)
            _switch(fresh, path, aside / "old")


@contextlib.contextmanager
def _os_errors(target: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"could not write {target}: {error.strerror or error}"
        ) from error


@contextlib.contextmanager
def _temporary(target: Path, *, folder: bool) -> Iterator[Path]:
    """Yield a hidden file or folder beside `target`, locked while in use and gone afterwards."""
    with _SWEEPING:
        _sweep(target)
        name = f".{_short(target)}.{os.getpid()}.{secrets.token_hex(4)}"
        path = target.with_name(name)
        if folder:
            path.mkdir()
        else:
            path.touch(exist_ok=False)
        lock = _lock(path)
    try:
        yield path
    finally:
        _remove(path)
        if lock is not None:
            os.close(lock)


def _short(target: Path) -> str:
    """Return the target's name, or a digest where temporary names would be too long."""
    name = target.name.encode("utf-8", "surrogatepass")
    if len(name) <= 200:
        return target.name
    return hashlib.blake2b(name, digest_size=16).hexdigest()


def _sweep(target: Path) -> None:
    """Remove what dead processes left of `target`, and put back what one of them had moved."""
    import psutil

    for name in os.listdir(target.parent):
        match = _TEMPORARY.fullmatch(name)
        if match is None or match["target"] != _short(target):
            continue
        process = int(match["process"])
        if process != os.getpid() and psutil.pid_exists(process):
            continue
        path = target.with_name(name)
        lock = _lock(path)
        # Another machine or container may have a process of this number; its lock is seen here.
        if lock is not None:
            if (path / "old").is_dir() and not target.exists():
                (path / "old").rename(target)
            _remove(path)
            os.close(lock)


def _lock(path: Path) -> int | None:
    """Return the descriptor of a lock that ends with the process; None if another one has it."""
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _stays(folder: Path) -> bool:
    """Return whether a folder must stay: a mount, the working directory, not ours to rename."""
    if not folder.is_dir():
        return False
    return (
        os.path.ismount(folder)
        or Path.cwd().is_relative_to(folder)
        or not os.access(folder.parent, os.W_OK)
    )


def _fill(folder: Path, fresh: Path, without: Collection[str]) -> None:
    """Put the new files into a folder that stays; only then is its manifest theirs."""
    for name in without:
        _remove(folder / name)
    for path in sorted(fresh.iterdir(), key=lambda path: path.name == MANIFEST):
        if path.is_dir():
            _switch(path, folder / path.name, fresh.parent / f"{path.name}.old")
        else:
            path.replace(folder / path.name)


def _switch(fresh: Path, target: Path, retired: Path) -> None:
    """Give `fresh` the name `target`; what had it goes where `fresh` was, or to `retired`."""
    try:
        fresh.rename(target)  # there is nothing, or an empty folder
    except OSError:
        if not target.is_dir():
            raise
        if not _exchange(fresh, target):
            # For a moment nothing has the name: a kill here is repaired by the next reader.
            target.rename(retired)
            fresh.rename(target)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; return False where the system or the file system cannot."""
    import ctypes

    first = os.fsencode(one)
    second = os.fsencode(other)
    try:
        system = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            return not system.renamex_np(first, second, _SWAP)
        here = -100  # AT_FDCWD: paths are as they are
        return not system.renameat2(here, first, here, second, _SWAP)
    except (AttributeError, OSError, TypeError):
        return False


def _take_over(folder: Path, fresh: Path, without: Collection[str]) -> None:
    """Link what `folder` has and `fresh` has not into it; what others are writing stays."""
    if not folder.exists():
        return
    for old in folder.iterdir():
        new = fresh / old.name
        if old.name in without or new.exists() or _TEMPORARY.fullmatch(old.name):
            continue
        if old.is_dir() and not old.is_symlink():
            shutil.copytree(old, new, symlinks=True, copy_function=_link)
        else:
            _link(str(old), str(new))


def _link(source: str, destination: str) -> None:
    """Make a hard link, or a copy where the file system has no links."""
    try:
        os.link(source, destination, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(source, destination, follow_symlinks=False)


def recovered(folder: str | Path) -> Path:
    """Return `folder`, put back first where a write was killed between two renames."""
    folder = Path(folder)
    with contextlib.suppress(OSError):
        if folder.name and not folder.exists():
            with _SWEEPING:
                _sweep(folder)
    return folder
