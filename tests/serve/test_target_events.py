"""A service of a model with target events shows viewed items, not bought or disliked ones."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.errors import ConfigError, DataError
from leporid.interop import write_benchmark
from leporid.serve import Event, merged_log, open_store
from leporid.serve.service import Service
from leporid.serve.user_query import UserQuery
from tests.data.event_log import WEIGHTS, frame, rows

HOW: Any = {"event": "kind", "target_events": "purchase", "progress": False}


@pytest.mark.parametrize("include_seen", [False, True])
def test_lists_hide_what_the_model_hides(tmp_path: Path, include_seen: bool) -> None:
    split = leporid.temporal_split(leporid.load(frame(rows()), **HOW, weights=WEIGHTS))
    model = leporid.train("ease", split, progress=False)
    model.save(tmp_path / "model")
    store = open_store(tmp_path / "events.db")
    known = split.train_valid
    views = ~known.target_events.csr().toarray().astype(bool) & known.csr().toarray().astype(bool)
    stored = int(views[3].argmax())  # viewed before, and now in the store
    item = str(split.items.external(stored))
    store.add([Event(str(split.users.external(3)), item, 1)])
    service = Service(tmp_path / "model", store=store)
    try:
        run, n = service.runs["main"], split.n_items
        names = [str(split.users.external(user)) for user in range(split.n_users)]
        queries = [UserQuery(run, n=n, user=name, include_seen=include_seen) for name in names]
        for user, answered in enumerate(service.rank(queries)):
            assert isinstance(answered, bytes)
            answer = json.loads(answered)
            excluded = set(known.excluded_items(include_seen).of(user).tolist())
            excluded |= {stored} if user == 3 and not include_seen else set()
            found = {split.items.index(entry["id"]) for entry in answer["items"]}
            assert found == set(range(n)) - excluded
    finally:
        service.close()


def test_what_has_no_kinds_refuses_a_log_that_has(tmp_path: Path) -> None:
    data = leporid.load(frame(rows()), **HOW)
    with contextlib.closing(open_store(tmp_path / "events.db")) as store:
        store.add([Event("3", "4", 1)])
    with pytest.raises(DataError, match="kinds of events"):
        merged_log(tmp_path / "events.db", data)
    with pytest.raises(ConfigError, match="no target events"):
        write_benchmark(leporid.temporal_split(data), tmp_path / "recbole")
