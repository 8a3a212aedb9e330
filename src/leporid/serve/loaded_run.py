"""`LoadedRun`: everything the service knows of one run, loaded once and never changed."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.artifacts import read_object
from leporid.data import Interactions, ItemInfo, Sequences, titles_of
from leporid.errors import DataError, UnknownIdError
from leporid.machine import choose_torch_threads
from leporid.models import Recommender, find_model, fit_sentence, model_folder
from leporid.progress import say
from leporid.ranking import ItemColumns, ItemNeighbours

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_TIMED = 8
"""Users scored at once to choose the number of threads."""
_SHOWN = 100
"""Items of a user's history that are listed."""
_HOSTS = 20
"""Hosts of pictures that a page may ask: a header has no room for thousands."""
_TRIES = 5
"""How often a folder that is replaced while it is read is read again."""
_GRAPHS = ThreadPoolExecutor(1, "item graph")


class ItemGraph:
    """The neighbours of all items, computed once, when they are first asked for."""

    def __init__(self, known: Interactions) -> None:
        self._known = known

    @cached_property
    def _neighbours(self) -> Future[ItemNeighbours]:
        say(f"finding the neighbours of {self._known.n_items:,} items")
        return _GRAPHS.submit(ItemNeighbours, self._known)

    def neighbours(self) -> ItemNeighbours:
        """Wait for them."""
        return self._neighbours.result()

    async def ready(self) -> ItemNeighbours:
        """Wait for them while the event loop answers others."""
        # Without the shield, a request that is cancelled would cancel them for all others.
        return await asyncio.shield(asyncio.wrap_future(self._neighbours))


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A model with titles and the item graph."""

    path: Path
    label: str
    """Model (or members of a blend) and initialisation, for display."""
    model: Recommender
    ids: tuple[int | str, ...]
    """Of the items."""
    shown: list[ItemInfo]
    """Their titles, genres and pictures."""
    picture_hosts: str
    """Where pictures come from, as a Content-Security-Policy lists it: https://films.example."""
    popular: NDArray[np.int64]
    """int64[n_items]: item indices, the one with most interactions first."""
    spelled: pa.Array
    """Their titles in this order, as they are compared with a search."""
    graph: ItemGraph
    """For similar items and for the reasons of a recommendation."""
    item_columns: ItemColumns
    """What the rules of a request are bound to."""
    metrics: Mapping[str, float]
    """On test, from the record; empty where there is none."""
    threads: int | None
    """Torch's threads while this model scores; None where it is not torch's."""
    loaded_at: float
    """Seconds since 1970."""

    def about(self) -> dict[str, Any]:
        """The run as GET /health shows it."""
        model = self.model
        sizes = {"users": len(model.users), "items": len(model.items)}
        names = {
            "label": self.label,
            "model": model.name,
            "fitted": fit_sentence(model),
        }
        return {
            **names,
            **sizes,
            "metrics": dict(self.metrics),
            "loaded_at": self.loaded_at,
        }

    def item(self, index: int) -> dict[str, Any]:
        """An item as the answers show it."""
        return {"id": self.ids[index], **self.shown[index]._asdict()}

    def because(
        self, items: NDArray[np.int32], history: NDArray[np.int32], known: int | None
    ) -> list[list[dict[str, Any]]]:
        """The reasons for items, from a history or, as they were scored, from a user's own."""
        past = Sequences.from_rows([history])
        if known is not None:
            past = self.model.known.sequences().take(np.asarray([known]))
        value = self.model.reason_value
        return [
            [
                {"id": self.ids[i], "title": self.shown[i].title, value: number}
                for i, number in row
            ]
            for row in self.model.reasons(past, items, near=self.graph.neighbours())
        ]

    def known_items(self, ids: Sequence[str]) -> NDArray[np.int32]:
        """Indices of stored item ids; items the model does not know are left out."""
        return self.model.items.split_known(ids)[
            0
        ]  # a later training may know the others

    def find_user(
        self, user: int | str, *, required: bool = False
    ) -> tuple[str, int | None, NDArray[np.int32]]:
        """A user's id as the store spells it ('042' is not 42, 42 is '42'), index and items.

        None and no items for a user who was not in the fit; an error where that is `required`.
        """
        try:
            index = self.model.users.index(user)
        except UnknownIdError:
            if required:
                raise
            return str(user), None, np.empty(0, np.int32)
        return (
            str(self.model.users.external(index)),
            index,
            self.model.known.sequences().of(index),
        )

    def user(self, name: str, stored: Sequence[str]) -> dict[str, Any]:
        """A user as GET /users/{id} shows them, with the items that the store knows."""
        _, index, before = self.find_user(name, required=not stored)
        recent = np.concatenate([before, self.known_items(stored)])[-_SHOWN:]
        return {
            "id": name if index is None else self.model.users.external(index),
            "known": index is not None,
            "interactions": len(before),
            "new_events": len(stored),
            "recent": [self.item(i) for i in recent],
        }

    def draw(self, number: int) -> list[str]:
        """Ids of 20 users with a history, drawn by a number."""
        able = np.flatnonzero(np.diff(self.model.known.sequences().indptr))
        drawn = np.random.default_rng(number).choice(able, 20)
        return [str(self.model.users.external(int(index))) for index in drawn]

    def search(self, query: str, n: int) -> list[int]:
        """Items whose title has every word of the query; titles that begin with it come first."""
        words = query.casefold().split()
        items, titles = self.popular, self.spelled
        for word in set(words):
            found = pc.match_substring(titles, word)
            items, titles = (
                items[found.to_numpy(zero_copy_only=False)],
                titles.filter(found),
            )
        begins = pc.starts_with(titles, " ".join(words)).to_numpy(zero_copy_only=False)
        return np.concatenate([items[begins], items[~begins]])[:n].tolist()  # type: ignore[no-any-return]


def to_json(value: Any) -> bytes:
    """As short as JSON can be."""
    return _ENCODER.encode(value).encode()


def load_run(
    path: str | Path, items: str | Path | None = None, like: LoadedRun | None = None
) -> LoadedRun:
    """Read a run's folder (or a model's own) and prepare what the answers need.

    `items` names a file or data set with titles; an `items.parquet` beside the run or its
    neighbours is found by itself. `like` lends its titles, and its graph where the data is equal.
    """
    path = Path(path)
    for _ in range(_TRIES):
        before = _identity(path)
        try:
            run = _load(path, items, like)
        except DataError:
            if _identity(path) == before:
                raise
        else:
            # Half of one model and half of the next would fit together only by chance.
            if _identity(path) == before:
                return run
    raise DataError(
        f"{path} was replaced again and again while it was read: try once more"
    )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which folder has the model's name at this moment: `save` replaces it as a whole."""
    folder = find_model(path)
    try:
        found = folder.stat() if folder is not None else None
    except FileNotFoundError:
        return None
    return found and (found.st_dev, found.st_ino)


def _load(path: Path, items: str | Path | None, like: LoadedRun | None) -> LoadedRun:
    folder = model_folder(path)
    say(f"reading the model in {folder}")
    model: Recommender = Recommender.load(folder, mapped=True)
    if len(model.users) == 0 or len(model.items) == 0:
        raise DataError(
            f"the model of {path} has no users or no items: nothing to serve"
        )
    items = items or _beside([path, *([like.path] if like else [])])
    information, item_columns = _information(model, items), model.item_columns(items)
    record = (
        read_object(path / "record.json") if (path / "record.json").is_file() else {}
    )
    graph = ItemGraph(model.known)
    if like is not None and like.model.known.digest == model.known.digest:
        graph = like.graph
    some = np.arange(min(_TIMED, len(model.users)), dtype=np.int32)
    members = getattr(model, "members", ())
    name = " + ".join(member.name for member in members) or model.name
    has_net = any(hasattr(part, "net") for part in (model, *members))
    seen = model.known.hidden().take(some)

    def answer() -> None:
        """As requests are answered; the first time prepares what a first stage keeps."""
        if model.retrieve(some, 1, 2, hidden=seen) is None:
            model.score(some)

    answer()
    popular = np.argsort(-model.known.popularity, kind="stable")
    spelled = [" ".join(info.title.casefold().split()) for info in information]
    hosts = {
        "/".join(i.picture.split("/")[:3])
        for i in information
        if i.picture[:4] == "http"
    }
    return LoadedRun(
        path=path,
        label=f"{name}, {record['init']} initialisation"
        if record.get("init")
        else name,
        model=model,
        ids=tuple(model.items.ids.to_pylist()),
        shown=information,
        picture_hosts=" ".join(sorted(hosts)[:_HOSTS]),
        popular=popular,
        spelled=pa.array(spelled, pa.large_string()).take(pa.array(popular)),
        graph=graph,
        item_columns=item_columns,
        metrics=record.get("metrics", {}),
        threads=choose_torch_threads(answer) if has_net else None,
        loaded_at=time.time(),
    )


def _beside(folders: Sequence[Path]) -> Path | None:
    """The item table of a run."""
    beside = (
        place / "items.parquet" for path in folders for place in (path, path.parent)
    )
    # A model's own folder has an items.parquet too: ids without titles.
    return next(
        (p for p in beside if p.is_file() and not p.with_name("model.json").is_file()),
        None,
    )


def _information(model: Recommender, items: Any) -> list[ItemInfo]:
    """What is shown of every item of the model, in the order of its indices."""
    if items is None:
        return [ItemInfo(str(key)) for key in model.items.ids.to_pylist()]
    return titles_of(model.items, items)
