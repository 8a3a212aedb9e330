"""Fixtures shared by all rooms."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.chromium import Page, browser

os.environ.setdefault("LEPORID_PROGRESS", "off")
if not os.environ.get("LEPORID_TEST_CUDA"):
    # Networks take a GPU where there is one, and the same bits are promised on a CPU only.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
if "PYTEST_XDIST_WORKER" in os.environ:
    # The processes share the cores: further threads of torch and BLAS would only wait for one.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Threads of numba sleep while they wait for each other: those of two processes would otherwise
# keep the cores busy with waiting. OpenMP reads it when it is loaded, also in processes of tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# A shell's background jobs ignore Ctrl-C, and so would the tests that send it to themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A slow machine is no failure.
settings.register_profile("leporid", deadline=None)
settings.load_profile("leporid")


FUNCTIONAL = ("attack", "cli", "reproduction", "serve", "test_demo.py", "test_examples.py")
"""Folders and files of tests that run whole commands, processes or a service."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in FUNCTIONAL:
            item.add_marker("functional")


@pytest.fixture(autouse=True)
def _torch_keeps_its_threads() -> Iterator[None]:
    """Sums over another number of threads round differently, and numba sets it when it starts."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    yield
    if torch:
        torch.set_num_threads(before)


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
