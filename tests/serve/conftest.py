"""Two small runs with titles, and how to talk to an application without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leporid
from leporid.data import Interactions, synthesize
from leporid.models import Recommender


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from the cache in the home folder or left there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEPORID_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def split() -> leporid.Split:
    """Asymmetric: 90 users, 60 items."""
    return leporid.temporal_split(synthesize(90, 60, 1800, seed=3))


@pytest.fixture(scope="session")
def run_dir(split: leporid.Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ItemKNN run with titles beside it."""
    folder = tmp_path_factory.mktemp("runs")
    leporid.train("itemknn", split).save(folder / "itemknn" / "model")
    leporid.train("toppop", split).save(folder / "toppop" / "model")
    ids = split.train.items.ids
    titles = [f"Film {value}, part {value % 7}" for value in ids.to_pylist()]
    genres = [("Drama", "War|Drama", "Comedy")[i % 3] for i in range(len(ids))]
    pq.write_table(
        pa.table({"item_id": ids, "title": titles, "genres": genres}), folder / "items.parquet"
    )
    return folder / "itemknn"


@pytest.fixture(scope="session")
def model(run_dir: Path) -> Recommender:
    """The served model, loaded beside the server: the oracle of its answers."""
    return Recommender.load(run_dir / "model")


def talk(app: Any, *requests: dict[str, Any]) -> list[httpx.Response]:
    """Send requests to the application, all at once."""

    async def send() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return list(await asyncio.gather(*(client.request(**r) for r in requests)))

    return run_loop(send())


def run_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """`asyncio.run`, under a name that reads well in tests."""
    return asyncio.run(work)


def get(app: Any, url: str, **more: Any) -> httpx.Response:
    """One GET."""
    return talk(app, {"method": "GET", "url": url, **more})[0]


def post(app: Any, url: str, json: Any = None, **more: Any) -> httpx.Response:
    """One POST."""
    if "content" in more:
        more["headers"] = {"Content-Type": "application/json"}
    return talk(app, {"method": "POST", "url": url, "json": json, **more})[0]


def history_of(known: Interactions, user: int) -> list[Any]:
    """A user's items as external ids, oldest first."""
    return [known.items.external(i) for i in np.asarray(known.sequences().of(user))]
