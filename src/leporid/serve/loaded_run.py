"""`LoadedRun`: everything the service knows about a run, loaded once and never changed."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data import Interactions, ItemInfo, Sequences, titles_of
from leporid.errors import DataError, UnknownIdError
from leporid.foundation import choose_torch_threads, read_object, say
from leporid.models import (
    Blend,
    Recommender,
    find_model,
    fit_sentence,
    model_folder,
)
from leporid.ranking import Indices, ItemColumns, ItemNeighbours

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_TIMED_USERS = 8
"""Number of users that are scored at once to choose the number of threads."""
_HISTORY_SHOWN = 100
"""Number of items of a user's history that are listed."""
_DRAWN_USERS = 20
_MAX_PICTURE_HOSTS = 20
"""Most hosts of pictures that a page may load from: a header has no room for thousands."""
_MAX_ATTEMPTS = 5
"""Number of attempts to load a run if its folder changes meanwhile."""
_GRAPH_THREAD = ThreadPoolExecutor(1, "item graph")


ShownItem: TypeAlias = dict[str, object]
"""An item as `schemas.Item` describes it, not checked again: that would cost more than scoring."""
ShownReason: TypeAlias = dict[str, object]
"""An item of the history as `schemas.Reason` describes it."""


class FoundUser(NamedTuple):
    """A user as a run knows them."""

    user_id: str
    """Id as the store spells it: '042' is not 42, but 42 is '42'."""
    user_index: int | None
    """Index in the model, or None if the model was not fitted with this user."""
    items: Indices
    """Items that the model was fitted with, oldest first; empty without an index."""


class ItemGraph:
    """The neighbours of all items, computed once, when they are first needed."""

    def __init__(self, known: Interactions) -> None:
        self._known = known

    @cached_property
    def _neighbours(self) -> Future[ItemNeighbours]:
        say(f"finding the neighbours of {self._known.n_items:,} items")
        return _GRAPH_THREAD.submit(ItemNeighbours, self._known)

    def neighbours(self) -> ItemNeighbours:
        """Wait for the neighbours, and return them."""
        return self._neighbours.result()

    async def ready(self) -> ItemNeighbours:
        """Wait for the neighbours while the event loop answers other requests."""
        # Without the shield, a cancelled request would cancel the computation for all others.
        return await asyncio.shield(asyncio.wrap_future(self._neighbours))


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A model with titles, the item graph and all else that answers need."""

    path: Path
    label: str
    """Model (or members of a blend) and initialisation, for display."""
    model: Recommender
    ids: tuple[int | str, ...]
    """External ids of the items, by index."""
    item_info: list[ItemInfo]
    """Titles, genres and pictures of the items, by index."""
    picture_hosts: str
    """Hosts of the pictures for a Content-Security-Policy, like https://films.example."""
    popular: NDArray[np.int64]
    """int64[n_items]: item indices, the one with most interactions first."""
    search_titles: pa.Array
    """Titles of the `popular` items, in that order, as they are compared with a query."""
    graph: ItemGraph
    """Item graph for similar items and for the reasons of a recommendation."""
    item_columns: ItemColumns
    """What the rules of a request are bound to."""
    metrics: Mapping[str, float]
    """Test metrics of the run's record; empty if it has no record."""
    threads: int | None
    """Number of threads for torch while this model scores; None if it does not use torch."""
    loaded_at: float
    """Seconds since 1970."""

    @property
    def fitted(self) -> str:
        """A sentence about the data that the model was fitted on."""
        return fit_sentence(self.model)

    def info(self) -> dict[str, object]:
        """Return the run as GET /health shows it."""
        return {
            "label": self.label,
            "model": self.model.name,
            "fitted": self.fitted,
            "users": len(self.model.users),
            "items": len(self.model.items),
            "metrics": dict(self.metrics),
            "loaded_at": self.loaded_at,
        }

    def item(self, index: int) -> ShownItem:
        """Return an item as the answers show it."""
        return {"id": self.ids[index], **self.item_info[index]._asdict()}

    def because(
        self,
        items: Indices,
        history: Indices,
        user: int | None,
    ) -> list[list[ShownReason]]:
        """Return the reasons for each item from a history, or from what a known user has."""
        past = Sequences.from_rows([history])
        if user is not None:
            past = self.model.known.sequences().take(np.asarray([user]))
        reasons = self.model.reasons(past, items, near=self.graph.neighbours())
        return [
            [self._reason(index, value) for index, value in item_reasons]
            for item_reasons in reasons
        ]

    def _reason(self, index: int, value: float) -> ShownReason:
        """Return an item of the history as a reason."""
        return {
            "id": self.ids[index],
            "title": self.item_info[index].title,
            self.model.reason_value: value,
        }

    def known_items(self, ids: Sequence[str]) -> Indices:
        """Return the indices of stored item ids, without items that the model does not know.

        A later training may know those.
        """
        known, _unknown = self.model.items.split_known(ids)
        return known

    def find_user(self, user: int | str, *, required: bool = False) -> FoundUser:
        """Find a user in the model; an unknown one is an error only if `required`."""
        try:
            index = self.model.users.index(user)
        except UnknownIdError:
            if required:
                raise
            return FoundUser(str(user), None, np.empty(0, np.int32))
        return FoundUser(
            str(self.model.users.external(index)),
            index,
            self.model.known.sequences().of(index),
        )

    def user(self, name: str, stored: Sequence[str]) -> dict[str, object]:
        """Return a user as GET /users/{id} shows them, with the items that the store knows."""
        _, index, known = self.find_user(name, required=not stored)
        history = np.concatenate([known, self.known_items(stored)])
        return {
            "id": name if index is None else self.model.users.external(index),
            "known": index is not None,
            "interactions": len(known),
            "new_events": len(stored),
            "recent": [self.item(item) for item in history[-_HISTORY_SHOWN:]],
        }

    def draw(self, number: int) -> list[str]:
        """Return the ids of 20 users with a history, drawn with `number` as the seed."""
        lengths = np.diff(self.model.known.sequences().indptr)
        users = np.flatnonzero(lengths)
        drawn = np.random.default_rng(number).choice(users, _DRAWN_USERS)
        return [str(self.model.users.external(int(index))) for index in drawn]

    def search(self, query: str, n: int) -> list[int]:
        """Return items whose title has every word; titles that begin with the query come first."""
        words = query.casefold().split()
        items = self.popular
        titles = self.search_titles
        for word in set(words):
            matches = pc.match_substring(titles, word)
            items = items[matches.to_numpy(zero_copy_only=False)]
            titles = titles.filter(matches)
        begins = pc.starts_with(titles, " ".join(words)).to_numpy(zero_copy_only=False)
        ordered = np.concatenate([items[begins], items[~begins]])
        return ordered[:n].tolist()  # type: ignore[no-any-return]


def to_json(value: object) -> bytes:
    """Return a value as JSON without any spaces, in UTF-8."""
    return _ENCODER.encode(value).encode()


def load_run(
    path: str | Path,
    items: str | Path | None = None,
    like: LoadedRun | None = None,
) -> LoadedRun:
    """Read a run's folder (or a model's own) and prepare what the answers need.

    `items` names a file or data set with titles; an `items.parquet` beside the run or its
    neighbours is found by itself. `like` lends its titles, and its graph if the data is equal.
    """
    path = Path(path)
    for _attempt in range(_MAX_ATTEMPTS):
        before = _folder_identity(path)
        try:
            run = _load(path, items, like)
        except DataError:
            if _folder_identity(path) == before:
                raise
        else:
            # Half of one model and half of the next would fit together only by chance.
            if _folder_identity(path) == before:
                return run
    raise DataError(
        f"{path} was replaced again and again while it was read: try once more"
    )


def _folder_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the model's folder, which `save` replaces as a whole."""
    folder = find_model(path)
    if folder is None:
        return None
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _load(path: Path, items: str | Path | None, like: LoadedRun | None) -> LoadedRun:
    """Read a run once, whether or not its folder changes meanwhile."""
    folder = model_folder(path)
    say(f"reading the model in {folder}")
    model: Recommender = Recommender.load(folder, mapped=True)
    if len(model.users) == 0 or len(model.items) == 0:
        raise DataError(
            f"the model of {path} has no users or no items: nothing to serve"
        )
    runs = [path] if like is None else [path, like.path]
    items = items or _find_item_table(runs)
    item_info = _information(model, items)
    item_columns = model.item_columns(items)
    record_file = path / "record.json"
    record = read_object(record_file) if record_file.is_file() else {}
    graph = ItemGraph(model.known)
    if like is not None and like.model.known.digest == model.known.digest:
        graph = like.graph
    members = model.members if isinstance(model, Blend) else ()
    threads = _warm_up(model, members)
    popular = np.argsort(-model.known.popularity, kind="stable")
    titles = [" ".join(info.title.casefold().split()) for info in item_info]
    label = " + ".join(member.name for member in members) or model.name
    if record.get("init"):
        label = f"{label}, {record['init']} initialisation"
    return LoadedRun(
        path=path,
        label=label,
        model=model,
        ids=tuple(model.items.ids.to_pylist()),
        item_info=item_info,
        picture_hosts=_picture_hosts(item_info),
        popular=popular,
        search_titles=pa.array(titles, pa.large_string()).take(pa.array(popular)),
        graph=graph,
        item_columns=item_columns,
        metrics=record.get("metrics", {}),
        threads=threads,
        loaded_at=time.time(),
    )


def _warm_up(model: Recommender, members: Sequence[Recommender]) -> int | None:
    """Score a few users as requests do, and choose the number of threads for torch.

    The first score prepares what a model's first stage keeps. None means that neither the model
    nor a member of it uses torch.
    """
    users = np.arange(min(_TIMED_USERS, len(model.users)), dtype=np.int32)
    excluded = model.known.excluded_items().take(users)

    def answer() -> None:
        if model.retrieve(users, 1, 2, excluded=excluded) is None:
            model.score(users)

    answer()
    uses_torch = any(hasattr(part, "net") for part in (model, *members))
    return choose_torch_threads(answer) if uses_torch else None


def _picture_hosts(item_info: Sequence[ItemInfo]) -> str:
    """Return the hosts of the pictures, separated by spaces."""
    hosts = set()
    for info in item_info:
        if info.picture.startswith("http"):
            scheme_and_host = info.picture.split("/")[:3]
            hosts.add("/".join(scheme_and_host))
    return " ".join(sorted(hosts)[:_MAX_PICTURE_HOSTS])


def _find_item_table(folders: Sequence[Path]) -> Path | None:
    """Find an items.parquet in or beside the folders of runs."""
    for folder in folders:
        for place in (folder, folder.parent):
            table = place / "items.parquet"
            # A model's own folder has an items.parquet too, which holds ids without titles.
            is_of_model = table.with_name("model.json").is_file()
            if table.is_file() and not is_of_model:
                return table
    return None


def _information(model: Recommender, items: str | Path | None) -> list[ItemInfo]:
    """Return what is shown of every item of the model, by index."""
    if items is None:
        return [ItemInfo(str(key)) for key in model.items.ids.to_pylist()]
    return titles_of(model.items, items)
