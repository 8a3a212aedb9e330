"""Downloads through pooch: checked, tried again where they break off, and kept only if whole."""

from __future__ import annotations

import http.client
import re
import urllib.request
from pathlib import Path
from typing import Any

from leporid.errors import DataError
from leporid.progress import NullProgress, ProgressLike, make_progress

_TIMEOUT_SECONDS = 30
_RETRIES = 2


class _Bar:
    """A progress bar as pooch wants it."""

    def __init__(self, progress: bool | ProgressLike | None, name: str) -> None:
        self.report, self.name = make_progress(progress), name

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "total":
            self.report.start(f"downloading {self.name}", value or None)

    def update(self, size: int) -> None:
        self.report.advance(size)

    def reset(self) -> None:
        """The transfer is over: what pooch adds now to fill the bar is not counted."""
        self.close()
        self.report = NullProgress()

    def close(self) -> None:
        self.report.close()


def download(
    url: str, target: Path, *, md5: str | None = None, progress: bool | ProgressLike | None = None
) -> Path:
    """Fetch `url` into `target`; a file whose checksum differs is never kept."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    bar = _Bar(progress, target.name)
    transfer = pooch.HTTPDownloader(bar, chunk_size=1 << 18, timeout=_TIMEOUT_SECONDS)
    files = pooch.create(
        target.parent,
        base_url="",
        registry={target.name: None if md5 is None else f"md5:{md5}"},
        urls={target.name: url},
        retry_if_failed=_RETRIES,
    )
    try:
        return Path(files.fetch(target.name, downloader=transfer))
    except ValueError as error:
        raise DataError(f"{url}: {error}") from None
    except OSError as error:  # of requests, too
        response = getattr(error, "response", None)
        if response is not None:
            raise DataError(f"{url} answered {response.status_code} {response.reason}") from None
        raise DataError(f"could not download {url} to {target}: {error}") from None
    finally:
        bar.close()


def published_md5(url: str) -> str | None:
    """The MD5 in a checksum file beside a download; None where it cannot be read."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            digest = re.search(rb"\b[0-9a-fA-F]{32}\b", response.read(4096))
    except (OSError, http.client.HTTPException):
        return None
    return digest.group().decode().lower() if digest else None
