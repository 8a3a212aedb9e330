"""Fixtures shared by all rooms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.chromium import Page, browser

os.environ.setdefault("LEPORID_PROGRESS", "off")
# A slow machine is no failure.
settings.register_profile("leporid", deadline=None)
settings.load_profile("leporid")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the MovieLens files, or a skip that says where they are looked for."""
    given = os.environ.get("LEPORID_DATA")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    if not (folder / "ml-1m-r3.parquet").is_file():
        pytest.skip(f"real data not found: set LEPORID_DATA (looked in {folder})")
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots are kept: LEPORID_SCREENSHOTS, else a folder of this test."""
    return Path(os.environ.get("LEPORID_SCREENSHOTS") or tmp_path / "pictures")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A tab of a headless Chromium with an empty profile."""
    with browser(tmp_path / "profile") as found:
        yield found
