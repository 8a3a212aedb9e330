"""Downloads that resume: bytes already here are not asked for again, and only whole files count."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from pathlib import Path

from leporid.errors import DataError
from leporid.progress import ProgressLike, make_progress

__all__ = ["check_digest", "download", "published_md5"]

_TIMEOUT_SECONDS = 30
_CHUNK = 1 << 18
_ATTEMPTS = 3


def download(
    url: str,
    target: Path,
    *,
    md5: str | None = None,
    sha256: str | None = None,
    progress: bool | ProgressLike | None = None,
) -> Path:
    """Fetch `url` into `target`; what a broken transfer left in `target.part` is continued.

    A file whose checksum differs is deleted and reported, never kept under its final name.
    """
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    report = make_progress(progress)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _transfer(url, part, report)
                break
            except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
                if attempt == _ATTEMPTS:
                    raise DataError(
                        f"the download of {url} broke off {attempt} times "
                        f"({_reason(error)}): run it again to continue where it stopped"
                    ) from None
    except urllib.error.HTTPError as error:
        raise DataError(f"{url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DataError(f"could not reach {url}: {error.reason}") from None
    except OSError as error:
        raise DataError(f"could not write {part}: {error.strerror or error}") from None
    finally:
        report.close()
    try:
        check_digest(part, md5=md5, sha256=sha256)
    except DataError:
        part.unlink()
        _tag(part).unlink(missing_ok=True)
        raise
    part.replace(target)
    _tag(part).unlink(missing_ok=True)
    return target


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _tag(part: Path) -> Path:
    """Where the server's name for this version of the file is kept."""
    return part.with_name(part.name + ".etag")


def _transfer(url: str, part: Path, report: ProgressLike) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "leporid"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if _tag(part).exists():  # another version is sent whole instead of glued on
            request.add_header("If-Range", _tag(part).read_text())
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            if error.headers.get("Content-Range", "").endswith(f"/{have}"):
                return
            part.unlink()
            _transfer(url, part, report)
            return
        raise
    with response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        start = have if resumed else 0
        total = start + int(length) if length else None
        if etag := response.headers.get("ETag"):
            _tag(part).write_text(etag)
        report.start(f"downloading {part.name.removesuffix('.part')}", total)
        report.advance(start)
        with open(part, "ab" if resumed else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                report.advance(len(chunk))
    size = part.stat().st_size
    if total is not None and size != total:
        raise http.client.IncompleteRead(b"", total - size)


def published_md5(url: str) -> str | None:
    """The MD5 in a checksum file beside a download; None where it cannot be had."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            found = re.search(rb"\b[0-9a-fA-F]{32}\b", response.read(4096))
    except (OSError, http.client.HTTPException):
        return None
    return found.group().decode().lower() if found else None


def check_digest(path: Path, *, md5: str | None = None, sha256: str | None = None) -> None:
    """Compare a file with its known checksums; a difference is a `DataError`."""
    for name, expected in (("md5", md5), ("sha256", sha256)):
        if expected is None:
            continue
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, name).hexdigest()
        if found != expected.lower():
            raise DataError(
                f"{path.name} has {name} {found} instead of {expected}: "
                f"the file is damaged or has changed; fetch it again"
            )
