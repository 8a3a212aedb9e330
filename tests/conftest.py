"""Fixtures shared by all rooms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the MovieLens files, or a skip that says where they are looked for."""
    given = os.environ.get("LEPORID_DATA")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    if not (folder / "ml-1m-r3.parquet").is_file():
        pytest.skip(f"real data not found: set LEPORID_DATA (looked in {folder})")
    return folder
