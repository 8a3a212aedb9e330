"""The data sets of the paper (and two MovieLens siblings) by name, kept in a cache directory.

MovieLens comes from its official address and is checked against the MD5 published beside it.
MovieLens-100K is also inside the Python package `recbole` 1.2.1, for machines that can reach a
package index only. Steam and Anime need a licence click, so the user fetches them once.
Downloads go through pooch: checked, tried again where they break off, and kept only if whole.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from leporid.errors import DataError, UnknownNameError
from leporid.foundation import (
    Progress,
    atomic_path,
    cache_directory,
    make_progress,
    user_cache_directory,
)

_RECBOLE = "recbole==1.2.1"
_RECBOLE_SHA256 = {
    "ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
    "ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
}


@dataclass(frozen=True)
class NamedDataset:
    """Where a data set comes from and which of its files matter."""

    name: str
    about: str
    """One line for `leporid data list`."""
    page: str
    """The web page, with the licence."""
    interactions: tuple[str, ...]
    """Names the log may have, the preferred first."""
    items: tuple[str, ...] = ()
    """Names the file of item titles may have."""
    url: str | None = None
    """The archive; None where a licence click is needed."""
    md5: str = ""
    """The MD5 of the archive, as published beside it."""
    min_rating: float | None = None
    """What `load` takes where it is not told: the lowest number that is a rating."""


class DatasetFiles(NamedTuple):
    """A data set on this disk."""

    interactions: Path
    items: Path | None


def _movielens(
    size: str,
    about: str,
    md5: str,
    log: tuple[str, ...],
    items: tuple[str, ...],
) -> NamedDataset:
    return NamedDataset(
        name=f"ml-{size}",
        about=f"MovieLens-{size.upper()}: {about} ratings",
        page=f"https://grouplens.org/datasets/movielens/{size}/",
        interactions=log,
        items=items,
        url=f"https://files.grouplens.org/datasets/movielens/ml-{size}.zip",
        md5=md5,
    )


DATASETS: Mapping[str, NamedDataset] = {
    dataset.name: dataset
    for dataset in (
        _movielens(
            "100k",
            "943 users, 1,682 films, 100,000",
            "0e33842e24a9c977be4e0107933c0723",
            ("u.data", "ml-100k.inter"),
            ("u.item", "ml-100k.item"),
        ),
        _movielens(
            "1m",
            "6,040 users, 3,706 films, 1,000,209",
            "c4d9eecfca2ab87c1945afe126590906",
            ("ratings.dat",),
            ("movies.dat",),
        ),
        _movielens(
            "20m",
            "138,493 users, 26,744 films, 20,000,263",
            "cd245b17a1ae2cc31bb14903e1204af3",
            ("ratings.csv",),
            ("movies.csv",),
        ),
        NamedDataset(
            name="steam",
            about="Steam: who played which game (fetched by hand)",
            page="https://www.kaggle.com/trolukovich/steam-games-complete-dataset",
            interactions=("steam.inter", "steam.csv", "steam.parquet"),
        ),
        NamedDataset(
            name="anime",
            about="Anime: who watched which series, no times (fetched by hand)",
            page="https://www.kaggle.com/CooperUnion/anime-recommendations-database",
            interactions=("rating.csv",),
            items=("anime.csv",),
            min_rating=0.0,  # -1 says "seen, not rated"
        ),
    )
}


def cache_dir() -> Path:
    """Return where data sets are kept; also with `LEPORID_CACHE=off`, which is about vectors."""
    return cache_directory() or user_cache_directory()


def fetch(name: str, *, progress: Progress = None) -> DatasetFiles:
    """Return the files of a named data set, downloaded and checked on first use."""
    if name not in DATASETS:
        raise UnknownNameError("data set", name, DATASETS)
    dataset = DATASETS[name]
    folder = cache_dir() / "datasets" / name
    if files := _present(dataset, folder):
        return files
    needed = (*dataset.items, *dataset.interactions)
    if dataset.url is None:
        for archive in sorted(folder.glob("*.zip")):
            extract(archive, folder, needed)
    else:
        try:
            target = folder / f"{name}.zip"
            archive = download(dataset.url, target, md5=dataset.md5, progress=progress)
            extract(archive, folder, needed)
            archive.unlink()
        except DataError as official:
            if name != "ml-100k":
                raise
            _from_wheel(folder, official)
    if files := _present(dataset, folder):
        return files
    names = " or ".join(dataset.interactions)
    if dataset.url is not None:
        raise DataError(
            f"the archive {dataset.url} holds no {names}: it may have changed"
        )
    raise DataError(
        f"{name!r} needs a licence click and is fetched by hand: download it from {dataset.page} "
        f"and put its log as {names} (or the zip archive) into {folder}"
    )


def _present(dataset: NamedDataset, folder: Path) -> DatasetFiles | None:
    log = _first_present(folder, dataset.interactions)
    if log is None:
        return None
    return DatasetFiles(log, _first_present(folder, dataset.items))


def _first_present(folder: Path, names: Iterable[str]) -> Path | None:
    for name in names:
        path = folder / name
        if path.is_file():
            return path
    return None


def extract(
    archive: Path,
    folder: Path,
    needed: Iterable[str],
    sha256: Mapping[str, str] | None = None,
) -> None:
    """Copy the needed members into `folder`, flat and in this order; zipfile checks their CRC.

    The log is the last of them: its presence means that everything is there.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = {Path(name).name: name for name in opened.namelist()}
            for name in needed:
                if name not in members:
                    continue
                with (
                    opened.open(members[name]) as source,
                    atomic_path(folder / name) as path,
                    open(path, "w+b") as target,
                ):
                    shutil.copyfileobj(source, target, 1 << 20)
                    target.seek(0)
                    known = (sha256 or {}).get(name)
                    if (
                        known
                        and hashlib.file_digest(target, "sha256").hexdigest() != known
                    ):
                        raise DataError(
                            f"{name} of {archive.name} has not the sha256 {known}"
                        )
    except zipfile.BadZipFile as error:
        raise DataError(
            f"{archive} is damaged: {error}; delete it and fetch it again"
        ) from None


def _from_wheel(folder: Path, official: DataError) -> None:
    """Take MovieLens-100K out of the RecBole package, through pip and its own settings."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--dest", scratch, _RECBOLE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            complaint = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
            raise DataError(
                f"MovieLens-100K could be had neither from its official address ({official}) nor "
                f"from the package {_RECBOLE} (pip: {complaint})"
            )
        extract(wheels[0], folder, _RECBOLE_SHA256, _RECBOLE_SHA256)


def download(
    url: str,
    target: Path,
    *,
    md5: str = "",
    progress: Progress = None,
) -> Path:
    """Fetch `url` into `target`; a file whose checksum differs is never kept."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    report = make_progress(progress)
    report.start(f"downloading {target.name}")
    transfer = pooch.HTTPDownloader(chunk_size=1 << 18, timeout=30)
    files = pooch.create(
        target.parent,
        base_url="",
        registry={target.name: f"md5:{md5}" if md5 else None},
        urls={target.name: url},
        retry_if_failed=2,
    )
    try:
        return Path(files.fetch(target.name, downloader=transfer))
    except ValueError as error:
        raise DataError(f"{url}: {error}") from None
    except OSError as error:  # of requests, too
        response = getattr(error, "response", None)
        if response is not None:
            raise DataError(
                f"{url} answered {response.status_code} {response.reason}"
            ) from None
        raise DataError(f"could not download {url} to {target}: {error}") from None
    finally:
        report.close()
