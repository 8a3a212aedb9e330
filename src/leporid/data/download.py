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
    url: str, target: Path, *, md5: str | None = None, progress: bool | ProgressLike | None = None
) -> Path:
    """Fetch `url` into `target`; what a broken transfer left in `target.part` is continued.

    A file whose checksum differs is deleted and reported, never kept under its final name.
    """
    part = target.with_name(target.name + ".part")
    tag = part.with_name(part.name + ".etag")  # the server's name for this version of the file
    target.parent.mkdir(parents=True, exist_ok=True)
    report = make_progress(progress)
    try:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _transfer(url, part, tag, report)
                break
            except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
                if attempt == _ATTEMPTS:
                    raise DataError(
                        f"the download of {url} broke off {attempt} times "
                        f"({error or type(error).__name__}): run it again to continue"
                    ) from None
    except urllib.error.HTTPError as error:
        raise DataError(f"{url} answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise DataError(f"could not reach {url}: {error.reason}") from None
    except OSError as error:
        raise DataError(f"could not write {part}: {error.strerror or error}") from None
    finally:
        report.close()
    tag.unlink(missing_ok=True)
    if md5 is not None:
        check_digest(part, "md5", md5)
    part.replace(target)
    return target


def _transfer(url: str, part: Path, tag: Path, report: ProgressLike) -> None:
    """Append to `part` what it lacks of the file; an incomplete answer is an `HTTPException`."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "leporid"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if tag.exists():  # another version is sent whole instead of glued on
            request.add_header("If-Range", tag.read_text())
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        if not error.headers.get("Content-Range", "").endswith(f"/{have}"):
            part.unlink()
            _transfer(url, part, tag, report)
        return
    with response:
        start = have if response.status == 206 else 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        if etag := response.headers.get("ETag"):
            tag.write_text(etag)
        report.start(f"downloading {part.stem}", total)
        report.advance(start)
        with open(part, "ab" if start else "wb") as file:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                report.advance(len(chunk))
            missing = 0 if total is None else total - file.tell()
    if missing:
        raise http.client.IncompleteRead(b"", missing)


def published_md5(url: str) -> str | None:
    """The MD5 in a checksum file beside a download; None where it cannot be read."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            digest = re.search(rb"\b[0-9a-fA-F]{32}\b", response.read(4096))
    except (OSError, http.client.HTTPException):
        return None
    return digest.group().decode().lower() if digest else None


def check_digest(path: Path, algorithm: str, expected: str) -> None:
    """Delete a file whose checksum is not the known one, with a `DataError`."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, algorithm).hexdigest()
    if digest != expected.lower():
        path.unlink()
        raise DataError(
            f"{path.name} has {algorithm} {digest} instead of {expected}: "
            f"the file is damaged or has changed; fetch it again"
        )
